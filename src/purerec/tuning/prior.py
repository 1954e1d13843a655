"""An estimate of the class prior from a log: the share of all pairs that are relevant, observed or not.

A model is fitted without a fifth of the positives, and the estimators of `purerec.paper.priors` use its scores for
these and for all pairs that it was not fitted on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.splits import Split, split
from purerec.errors import ConfigError
from purerec.models.contract.recommender import Recommender
from purerec.models.gmf import GMF
from purerec.paper.priors import best_bin_prior, elkan_noto_prior
from purerec.rng import named_rng
from purerec.types import F32, I32, I64

Estimator = Literal["best_bin", "elkan_noto"]
_PAIRS = 1 << 23
"""Maximum number of pairs that are scored"""


@dataclass(frozen=True)
class PriorEstimate:
    """The share of relevant pairs among all pairs of people with at least one positive."""

    value: float
    observed: float
    """The share of observed pairs"""
    method: Estimator

    @property
    def label_frequency(self) -> float:
        """The share of relevant pairs that were observed."""
        return self.observed / self.value


class _Scores(Protocol):
    def score(self, user_idx: I64, /) -> F32: ...


def estimate_prior(
    data: Interactions, *, method: Estimator = "best_bin", model: Recommender | None = None, seed: int = 0
) -> PriorEstimate:
    """The prior of a log, for `PURE(prior=...)`, from a model that is fitted for this purpose (by default GMF).

    best_bin: how many times more frequent are positives among the pairs with the highest scores than among all pairs?
    elkan_noto: what probability does the fit give to positives that it has not seen? Needs a GMF.

    Both assume that the observed pairs are a random sample of the relevant ones, and that scores separate relevant
    pairs from others. If they do not, the estimate is rough: see the measurements in docs/theory.md.
    """
    if method not in get_args(Estimator):
        raise ConfigError(f"there is no method {method!r}; choose {' or '.join(get_args(Estimator))}")
    chosen = GMF() if model is None else model
    if method == "elkan_noto" and not isinstance(chosen, GMF):
        raise ConfigError(f"elkan_noto reads scores as probabilities, which those of {chosen.name} are not; use GMF")
    parts = split(data, "ratio", test=0.2, valid=False, seed=seed)
    return prior_by(chosen.fit(parts.train, seed=seed), parts, named_rng(seed, "prior"), method=method)


def prior_by(
    scores: _Scores, parts: Split, rng: np.random.Generator, *, method: Estimator = "best_bin"
) -> PriorEstimate:
    """The same, from the scores of something that has not seen the positives of the test part."""
    train, held_out = parts.train.positives, parts.test.positives
    n_items = train.shape[1]
    active = np.flatnonzero(train.counts)
    n = min(len(active), max(1, _PAIRS // n_items))
    people = np.sort(rng.choice(active, n, replace=False))
    phi = scores.score(people)
    n_train, n_held = int(train.counts[people].sum()), int(held_out.counts[people].sum())
    observed = (n_train + n_held) / phi.size
    at_train, at_held = _places(train, people), _places(held_out, people)
    if method == "elkan_noto":
        return PriorEstimate(max(observed, elkan_noto_prior(phi[at_held], n_train / phi.size)), observed, method)
    is_left = np.ones(phi.shape, dtype=np.bool_)
    is_left[at_train] = False
    share = best_bin_prior(phi[at_held], phi[is_left])
    value = (n_train + share * (phi.size - n_train)) / phi.size
    return PriorEstimate(max(observed, value), observed, method)


def _places(pairs: Csr, people: I64) -> tuple[I64, I32]:
    """The pairs of these people, as rows and columns of the scores."""
    row_of = np.full(pairs.shape[0], -1)
    row_of[people] = np.arange(len(people))
    rows = row_of[pairs.users]
    return rows[rows >= 0], pairs.indices[rows >= 0]
