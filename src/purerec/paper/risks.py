"""The objectives of the paper, one function per equation, on the logits phi of the discriminator.

D = sigmoid(phi), so the logistic loss needs no logarithm of a rounded probability:

    L(D, 1) = -log D       = softplus(-phi)
    L(D, 0) = -log(1 - D)  = softplus(phi)
    L(D, 1) - L(D, 0)      = -phi             which makes the positive part of the PU risk linear

All logits are one-dimensional, float32 or float64. Sums run in float64. Risks are means and are minimised;
V(D)_1 and V(D)_2 are sums and are maximised, as in the paper. The engines take their weights from `LogisticRisk` and
`SoftmaxRisk`, and have a compiled or autograd form of each formula, which is tested against the one here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from purerec.errors import DataError

Logits = npt.NDArray[np.floating]
GeneratorLoss = Literal["nonsaturating", "saturating"]
RiskKind = Literal["pn", "pu", "nnpu"]


def softplus(phi: Logits) -> Logits:
    """-log(1 - D) = log(1 + exp(phi)), shape and dtype of phi; neither end overflows."""
    return np.logaddexp(phi, np.zeros_like(phi))


def sigmoid(phi: Logits) -> Logits:
    """D = 1 / (1 + exp(-phi)), shape and dtype of phi; exp only ever sees a number of at most 0."""
    small: Logits = np.exp(-np.abs(phi))
    return np.where(phi >= 0, 1, small) / (1 + small)


def pn_risk(phi_p: Logits, phi_n: Logits, prior: float) -> float:
    """PN risk, Eq. (PNrisk): prior R_p^+ + (1 - prior) R_n^-."""
    return prior * _mean(softplus(-phi_p)) + (1 - prior) * _mean(softplus(phi_n))


def pu_risk(phi_p: Logits, phi_u: Logits, prior: float) -> float:
    """PU risk, Eq. (PUrisk): prior R_p^+ - prior R_p^- + R_u^-. Unbiased for the PN risk; may be negative."""
    return -prior * _mean(phi_p) + _mean(softplus(phi_u))


def nnpu_risk(phi_p: Logits, phi_u: Logits, prior: float) -> float:
    """Non-negative PU risk, the max operator below Eq. (PUrisk): prior R_p^+ + max(0, R_u^- - prior R_p^-)."""
    return prior * _mean(softplus(-phi_p)) + max(0.0, negative_risk(phi_p, phi_u, prior))


def negative_risk(phi_p: Logits, phi_u: Logits, prior: float) -> float:
    """R_u^- - prior R_p^-, the estimate of (1 - prior) R_n^-. Below 0 only when the model has overfitted."""
    return _mean(softplus(phi_u)) - prior * _mean(softplus(phi_p))


def nnpu_step_objective(phi_p: Logits, phi_u: Logits, prior: float) -> float:
    """What a non-negative PU step descends on (Kiryo et al. 2017, Algorithm 1 with beta = 0, gamma = 1).

    The PU risk while the negative part is at least 0. Once that part is below 0, the step climbs back: it descends
    on minus the negative part and leaves the positive part alone. The clamped value would only stop there.
    """
    negative = negative_risk(phi_p, phi_u, prior)
    return pu_risk(phi_p, phi_u, prior) if negative >= 0 else -negative


def small_prior_risk(phi_p: Logits, phi_u: Logits) -> float:
    """Limit of Eq. (PUrisk) / prior + log(prior) as prior -> 0, in the shifted logits phi' = phi - log(prior).

    -mean_P phi' + mean_U exp(phi'): a density-ratio fit, least at phi' = log(p_p / p_u).
    """
    return -_mean(phi_p) + _mean(np.exp(phi_u))


def stratified_pu_risk(phi_p: Logits, phi_unobserved: Logits, prior: float, observed: float) -> float:
    """Eq. (PUrisk) from positives and *unobserved* pairs; `observed` is the share of all pairs that is observed.

    R_u^- is a mean over all pairs, including the observed ones. If draws come from the unobserved pairs only, the
    observed stratum is added exactly, from the positives: R_u^- = observed R_p^- + (1 - observed) R_unobserved^-.
    At prior = observed this is the PN risk (every unobserved pair a negative); a larger prior says how many
    relevant pairs were never seen.
    """
    negative = observed * _mean(softplus(phi_p)) + (1 - observed) * _mean(softplus(phi_unobserved))
    return -prior * _mean(phi_p) + negative


@dataclass(frozen=True)
class LogisticRisk:
    """The PN, PU and stratified PU risk as one form, divided by the prior:

        R / prior = -mean_P phi + positive mean_P softplus(phi) + unlabeled mean_U softplus(phi)

    since softplus(-phi) = softplus(phi) - phi. Engines and fold-in work with these two weights and nothing else.
    """

    prior: float
    positive: float
    """Weight of softplus(phi) at positives: 1 (PN), 0 (PU as printed), observed / prior (stratified PU)."""
    unlabeled: float
    """Weight of softplus(phi) at drawn pairs: (1 - prior) / prior, 1 / prior, (1 - observed) / prior."""
    is_clamped: bool = False
    """Whether a step climbs back once the negative part is below 0 (nnPU); see `nnpu_step_objective`."""

    @classmethod
    def of(cls, kind: RiskKind, prior: float, observed: float = 0.0) -> LogisticRisk:
        """`observed`: the share of observed pairs that PU draws leave out; 0 is the printed form."""
        if kind == "pn":
            return cls(prior, 1.0, (1 - prior) / prior)
        return cls(prior, observed / prior, (1 - observed) / prior, kind == "nnpu")

    def value(self, phi_p: Logits, phi_u: Logits) -> float:
        """What a step descends on."""
        negative = self.unlabeled * _mean(softplus(phi_u)) - (1 - self.positive) * _mean(softplus(phi_p))
        if self.is_clamped and negative < 0:
            return -negative
        return _mean(softplus(-phi_p)) + negative

    def slopes(self, phi_p: Logits, phi_u: Logits) -> tuple[Logits, Logits]:
        """Derivatives of `value` with respect to each logit: (n_p,) and (n_u,)."""
        of_unlabeled = self.unlabeled * sigmoid(phi_u) / phi_u.size
        negative = self.unlabeled * _mean(softplus(phi_u)) - (1 - self.positive) * _mean(softplus(phi_p))
        if self.is_clamped and negative < 0:
            return (1 - self.positive) * sigmoid(phi_p) / phi_p.size, -of_unlabeled
        return (self.positive * sigmoid(phi_p) - 1) / phi_p.size, of_unlabeled


@dataclass(frozen=True)
class SoftmaxRisk:
    """The PU risk of a small prior, with a separate one for every user: the softmax loss.

        R = mean over positives of
            -phi_p / T + log(observed e^(phi_p / T) + (1 - observed) mean over its draws of e^(phi / T))

    A prior per user is a free bias b per user in `small_prior_risk`. At its best value, which is
    minus the logarithm, the exponential part is 1 and the bias is gone (`profiled_prior_risk`). Each positive has
    draws of its own user and stands for all positives of that user. The logarithm of a mean of few draws is below
    that of the mean of all: the draws share a push of 1, however easy they all are. So the estimate is
    biased, unlike that of `LogisticRisk`, and has less variance.
    """

    observed: float
    """Share of the observed pairs in the unlabeled part, represented by the positive itself; 0: the printed form,
    whose unlabeled part leaves them out"""
    temperature: float = 1.0
    """T: scores are divided by it. The logarithm is the highest mean score of an adversary within a KL ball around
    the draws; the higher T, the smaller the ball and the less a false negative matters."""

    def value(self, phi_p: Logits, phi_u: Logits) -> float:
        """What a step descends on. Draw k belongs to positive k modulo n_p; every positive has at least one."""
        return _mean(self._terms(phi_p, phi_u)[0])

    def shares(self, phi_p: Logits, phi_u: Logits) -> tuple[Logits, Logits]:
        """The share of each logit in the sum of exponentials of its positive: (n_p,) and (n_u,)."""
        _, of_own, of_draws = self._terms(phi_p, phi_u)
        return of_own, of_draws.ravel()[: phi_u.size]

    def slopes(self, phi_p: Logits, phi_u: Logits) -> tuple[Logits, Logits]:
        """Derivatives of `value` with respect to each logit: (n_p,) and (n_u,)."""
        of_own, of_draws = self.shares(phi_p, phi_u)
        scale = 1 / (self.temperature * phi_p.size)
        return (of_own - 1) * scale, of_draws * scale

    def _terms(self, phi_p: Logits, phi_u: Logits) -> tuple[Logits, Logits, Logits]:
        """Loss and share of each positive, (n_p,), and the shares of its draws, (rounds, n_p)."""
        n = phi_p.size
        if not 0 < n <= phi_u.size:
            raise DataError(f"{n} positives with {phi_u.size} draws; give each positive at least one")
        rounds = -(-phi_u.size // n)
        drawn = np.full((rounds, n), -np.inf)
        drawn.ravel()[: phi_u.size] = phi_u / self.temperature
        with np.errstate(divide="ignore"):
            own = phi_p / self.temperature + np.log(self.observed)
            drawn += np.log((1 - self.observed) / np.isfinite(drawn).sum(axis=0))
        log_sum = np.logaddexp(np.logaddexp.reduce(drawn, axis=0), own)
        return log_sum - phi_p / self.temperature, np.exp(own - log_sum), np.exp(drawn - log_sum)


def profiled_prior_risk(phi_p: Logits, phi_u: Logits) -> float:
    """The least `small_prior_risk` over a bias that is added to all logits: -mean_P phi + log mean_U exp(phi) + 1."""
    log_mean = float(np.logaddexp.reduce(phi_u)) - math.log(phi_u.size)
    return -_mean(phi_p) + log_mean + 1


def v_d1(phi_p: Logits, prior: float) -> float:
    """V(D)_1, Eq. (D_loss1): the sum over positives of prior log D - prior log(1 - D), that is prior * phi."""
    return prior * _sum(phi_p)


def v_d2(phi_u: Logits, phi_fake_item: Logits | None = None, phi_fake_user: Logits | None = None) -> float:
    """V(D)_2, Eq. (D_loss2): the sum of log(1 - D) over unlabeled (u, i) and fakes (u, i') and (u', i)."""
    parts = (phi_u, phi_fake_item, phi_fake_user)
    return -sum(_sum(softplus(phi)) for phi in parts if phi is not None)


def generator_objective(phi_fake: Logits, kind: GeneratorLoss = "nonsaturating") -> float:
    """What a generator minimises: mean -log D (Algorithm 1) or mean log(1 - D) (Eq. final_objective).

    Algorithm 1 gives the fakes label 1, which is the nonsaturating form; Eq. (final_objective) has the
    saturating one, whose gradient is D itself: of the order of the prior wherever D sees through a fake.
    """
    return _mean(softplus(-phi_fake)) if kind == "nonsaturating" else -_mean(softplus(phi_fake))


# --- Derivatives with respect to each logit: (n_p,) and (n_u,), or (n,) for the generator.


def pn_gradient(phi_p: Logits, phi_n: Logits, prior: float) -> tuple[Logits, Logits]:
    """Derivative of Eq. (PNrisk)."""
    return -prior * sigmoid(-phi_p) / phi_p.size, (1 - prior) * sigmoid(phi_n) / phi_n.size


def pu_gradient(phi_p: Logits, phi_u: Logits, prior: float) -> tuple[Logits, Logits]:
    """Derivative of Eq. (PUrisk): the same push up on every positive, whatever its score."""
    return np.full_like(phi_p, -prior / phi_p.size), sigmoid(phi_u) / phi_u.size


def nnpu_gradient(phi_p: Logits, phi_u: Logits, prior: float) -> tuple[Logits, Logits]:
    """Derivative of the non-negative PU step's objective."""
    if negative_risk(phi_p, phi_u, prior) >= 0:
        return pu_gradient(phi_p, phi_u, prior)
    return prior * sigmoid(phi_p) / phi_p.size, -sigmoid(phi_u) / phi_u.size


def generator_gradient(phi_fake: Logits, kind: GeneratorLoss = "nonsaturating") -> Logits:
    """Derivative of the generator's objective: D - 1 (nonsaturating) or -D (saturating), over n."""
    return -sigmoid(-phi_fake if kind == "nonsaturating" else phi_fake) / phi_fake.size


def _mean(values: Logits) -> float:
    if values.size == 0:
        raise DataError("the risk of no samples is undefined; give at least one logit per term")
    return float(np.mean(values, dtype=np.float64))


def _sum(values: Logits) -> float:
    return float(np.sum(values, dtype=np.float64))
