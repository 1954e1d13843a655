"""The sampling bound (Theorem 1, n_u), and the propositions as functions of distributions over user-item pairs.

A world is three distributions over the same cells x = (u, i): relevant pairs p_p, non-relevant pairs p_n, fakes
p_g. Unlabeled pairs are the mixture p_u = prior * p_p + (1 - prior) * p_n. (The appendix prints this as
`p_u ≈ pi p_p + (1 - pi) p_p`, a typo: the line before it has p_n.) The game is

    V(D, G) = sum_x prior p_p (log D - log(1 - D)) + p_u log(1 - D) + p_g log(1 - D)

What the equilibrium means for ranking: at the global optimum (Theorem 2) D is prior / 2 on every pair, so it
ranks nothing. A recommender is the discriminator on its way there, not at the end: stop before, or keep the
share of the fakes small, so that D* stays close to prior * p_p / p_u, which ranks by relevance. The optimum
requires p_g = 2 p_p - p_u, not p_g = p_p, and that is a distribution only if no pair is more than twice as
frequent among the unlabeled as among the relevant. One pair that is drawn as unlabeled and never relevant
breaks it, so in a real catalogue the constant is a limit of the theory, not a place where training ends.

The sampling bound (Theorem 1) has an algebra slip: squaring sqrt(n_p / n_u) <= (1 - (sqrt(C) + 1) pi) / sqrt(C)
gives C, not sqrt(C), in n_u >= C n_p / (1 - (sqrt(C) + 1) pi)^2. `unlabeled_needed` has the corrected form; the
two agree at C = 1, the case of Algorithm 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from purerec.errors import ConfigError, DataError

Distribution = npt.NDArray[np.float64]


class EstimationError(NamedTuple):
    """The two sides of Lemma 1; PU learning has the tighter bound when `pu < pn`."""

    pu: float
    pn: float


def estimation_error_terms(n_p: int, n_u: int, n_n: int, prior: float) -> EstimationError:
    """Lemma 1 (estimation error bound): pi / sqrt(n_p) + 1 / sqrt(n_u) against (1 - pi) / sqrt(n_n)."""
    for name, count in (("n_p", n_p), ("n_u", n_u), ("n_n", n_n)):
        if count < 1:
            raise ConfigError(f"{name} must be at least 1, not {count}")
    _check_prior(prior)
    return EstimationError(
        pu=prior / math.sqrt(n_p) + 1 / math.sqrt(n_u),
        pn=(1 - prior) / math.sqrt(n_n),
    )


def unlabeled_needed(n_positive: int, prior: float, ratio: float = 1.0) -> int:
    """Theorem 1 (unlabeled sampling): PU is no worse than PN learning if n_u >= C n_p / (1 - (sqrt(C)+1) prior)^2.

    `ratio` is C, the negatives per positive that PN learning would have had (n_n = C n_p). The bound follows
    from prior/sqrt(n_p) + 1/sqrt(n_u) <= (1 - prior)/sqrt(n_n) and exists only for (sqrt(C)+1) prior < 1. The
    paper prints sqrt(C) in the numerator, an algebra slip; at C = 1, the case of Algorithm 1, both agree.
    """
    if n_positive < 0:
        raise ConfigError(f"n_positive must be at least 0, not {n_positive}")
    if not 0.0 < prior < 1.0:
        raise ConfigError(f"prior must lie between 0 and 1, not {prior}")
    if not (math.isfinite(ratio) and ratio > 0.0):
        raise ConfigError(f"ratio must be positive and finite, not {ratio}")
    margin = 1.0 - (math.sqrt(ratio) + 1.0) * prior
    if margin <= 0.0:
        raise ConfigError(
            f"no number of unlabeled pairs is enough: (sqrt({ratio}) + 1) * {prior} is not below 1; "
            f"use a prior below {1.0 / (math.sqrt(ratio) + 1.0):.4g} or a smaller ratio"
        )
    return math.ceil(ratio * n_positive / margin**2)


def optimal_discriminator(p_p: Distribution, p_u: Distribution, p_g: Distribution, prior: float) -> Distribution:
    """Proposition 1: D* = prior p_p / (p_u + p_g), shape of the inputs; 0 where nothing is ever drawn."""
    _check_prior(prior)
    p_p, p_u, p_g = _check(p_p, "p_p"), _check(p_u, "p_u"), _check(p_g, "p_g")
    if np.any(p_u < prior * p_p - 1e-12):
        raise DataError(f"p_u must be at least prior * p_p in every cell (prior {prior}), as it contains p_p")
    drawn = p_u + p_g
    return np.divide(prior * p_p, drawn, out=np.zeros_like(drawn), where=drawn > 0)


def generator_value(p_p: Distribution, p_n: Distribution, p_g: Distribution, prior: float) -> float:
    """Proposition 2: V(D*, G) = -2H(prior/2) + prior KL(p_p | m) + (2 - prior) KL(q | m).

    m = (p_u + p_g) / 2 is what D is shown as label 0, q = ((1 - prior) p_n + p_g) / (2 - prior) is what is left
    of it once the relevant pairs hidden in p_u are taken out.
    """
    _check_prior(prior)
    p_p, p_n, p_g = _check(p_p, "p_p"), _check(p_n, "p_n"), _check(p_g, "p_g")
    p_u = prior * p_p + (1 - prior) * p_n
    middle = (p_u + p_g) / 2
    rest = ((1 - prior) * p_n + p_g) / (2 - prior)
    return equilibrium_value(prior) + prior * _kl(p_p, middle) + (2 - prior) * _kl(rest, middle)


def equilibrium_value(prior: float) -> float:
    """Theorem 2 (global optimum): V = -2H(prior/2), with the entropy of a Bernoulli variable in nats."""
    _check_prior(prior)
    p = prior / 2
    return 2 * (p * math.log(p) + (1 - p) * math.log1p(-p))


def equilibrium_discriminator(prior: float) -> float:
    """Theorem 2 (global optimum): D = prior / 2, the same for every pair."""
    _check_prior(prior)
    return prior / 2


def equilibrium_generator(p_p: Distribution, p_u: Distribution) -> Distribution:
    """Theorem 2 (global optimum): p_p = (p_u + p_g) / 2, solved for p_g; an error if there is no such p_g."""
    p_g: Distribution = 2 * _check(p_p, "p_p") - _check(p_u, "p_u")
    if np.any(p_g < 0):
        count = np.count_nonzero(p_g < 0)
        raise DataError(f"no generator reaches the equilibrium: {count} of {p_g.size} cells have p_u > 2 p_p")
    return p_g


def squared_pu_risk(x: Distribution, b: Distribution, fakes: Distribution | None = None) -> float:
    """The PU risk with squared loss, times the number of pairs, of users who are the sum of their items: phi = x b.

    `x` (n_users, n_items) is the 0/1 matrix of positives, all pairs are unlabeled, the prior is the observed share.
    It is |x - x b|^2, EASE's objective. `fakes` (n, n_items) are invented users with target 0: as many rows of
    standard deviation sqrt(lambda / n) as n -> infinity are EASE's L2, lambda |b|^2.
    """
    phi = x @ b
    risk = float(np.sum(x * (1 - 2 * phi)) + np.sum(phi**2))
    return risk if fakes is None else risk + float(np.sum((fakes @ b) ** 2))


def _kl(p: Distribution, q: Distribution) -> float:
    """KL(p | q) in nats, with 0 log 0 = 0; every p used here is within the support of its q."""
    inside = p > 0
    return float(np.sum(p[inside] * np.log(p[inside] / q[inside])))


def _check(p: Distribution, name: str) -> Distribution:
    p = np.asarray(p, dtype=np.float64)
    if not (np.all(p >= 0) and math.isclose(p.sum(), 1.0, abs_tol=1e-9)):
        raise DataError(f"{name} must be non-negative and sum to 1; it sums to {p.sum():.6g}, least {p.min():.3g}")
    return p


def _check_prior(prior: float) -> None:
    if not 0 < prior < 1:
        raise ConfigError(f"prior must be strictly between 0 and 1, not {prior}")
