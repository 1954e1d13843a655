"""PU-GMF: generalised matrix factorisation trained with the positive-unlabeled risk.

Kiryo, Niu, du Plessis, Sugiyama (2017), Positive-Unlabeled Learning with Non-Negative Risk Estimator, on the
model of He et al. (2017), Neural Collaborative Filtering.

    min  -prior * mean_P phi(u, i) + mean_U softplus(phi(u, i)),   phi = (e_u * e_i).r + bias

A pair that nobody has seen counts as unlabeled, not as negative. U are all pairs, so the observed ones belong to it:
pairs are drawn from the unobserved, and the stratum of the observed is added exactly (`stratified`). With the prior
at the observed share this is GMF; a larger prior says how many relevant pairs were never seen. An epoch costs
(1 + C) n_p steps on d numbers. PURE adds the person's history and the generators.

With `prior="per_user"` the risk is that of a small prior, and every user has one of their own, at its best value:

    min  mean over positives (u, i) of  -phi(u, i) / T + log mean over all items j of exp(phi(u, j) / T)

the softmax loss (docs/theory.md), here with C draws for each positive. T is `temperature`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from purerec.data.interactions import Csr
from purerec.engines.pure.spec import RiskName
from purerec.models.contract.data_defaults import observed_share, shrinking
from purerec.models.contract.search_space import Floats, SearchSpace
from purerec.models.families.discriminator import DiscriminatorConfig, DiscriminatorModel
from purerec.sampling.unlabeled import unlabeled_needed

PER_USER: Final = "per_user"
_LABELED = 0.9
"""Of the relevant pairs, those that were observed (the label frequency of PU learning), if nobody says"""


def usual_prior(positives: Csr) -> float:
    """The prior, if nobody says: the observed share, and a little more."""
    return min(0.49, observed_share(positives) / _LABELED)


class PUGMFConfig(DiscriminatorConfig):
    """Settings of PU-GMF."""

    prior: Annotated[float, Field(gt=0, lt=1)] | Literal["per_user"] | None = None
    """The positive class prior pi_p: what share of all pairs is relevant. None: a little more than is observed, as if
    nine in ten relevant pairs had been seen. per_user: every user has a prior of their own, the one that fits best,
    which turns the risk into the softmax loss. The paper: 1e-4, 1e-5 and 1e-6 for its three data sets."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    """With a prior per user, what scores are divided by in the risk. A higher one makes items that look relevant but
    were not observed matter less. With vectors that are free in length it does what more `regularization` does."""
    stratified: bool = True
    """Whether the unlabeled part of the risk counts the observed pairs too, as the distribution of all pairs does.
    The paper draws from the unobserved ones only: false. The default L2 is then stronger."""
    non_negative: bool = False
    """Clamp the negative part of the risk at zero (nnPU)."""

    @field_validator("prior", mode="before")
    @classmethod
    def _number_or_per_user(cls, value: Any) -> Any:
        if value is None or value == PER_USER:
            return value
        try:
            is_share = 0 < float(value) < 1
        except (TypeError, ValueError):
            is_share = False
        if not is_share:
            raise ValueError(f"must be a number between 0 and 1, or '{PER_USER}'")
        return value

    @model_validator(mode="after")
    def _prior_per_user_fits(self) -> Self:
        if self.prior != PER_USER:
            if self.temperature != 1:
                raise ValueError(f"temperature={self.temperature:g} needs prior='{PER_USER}'")
            return self
        if self.unlabeled == "global":
            raise ValueError(f"prior='{PER_USER}' compares items of one user; use unlabeled='per_user'")
        if self.non_negative:
            raise ValueError(f"prior='{PER_USER}' leaves no negative part to clamp; use non_negative=false")
        if self.unlabeled_ratio < 1:
            raise ValueError(f"prior='{PER_USER}' needs a draw for each positive; use unlabeled_ratio of 1 or more")
        return self

    search_space: ClassVar[SearchSpace] = {
        **DiscriminatorConfig.search_space,
        "prior": Floats(0.0005, 0.5, start=usual_prior),
    }


class PUGMF(DiscriminatorModel):
    """Matrix factorisation with PU risk."""

    name: ClassVar[str] = "pugmf"
    config_class = PUGMFConfig
    config: PUGMFConfig

    @classmethod
    def _upgraded(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"stratified": False, **settings}

    def _dim(self, positives: Csr) -> int:
        """Without the stratum, more than 16 dimensions gain nothing."""
        usual = super()._dim(positives)
        return usual if self.config.stratified or self.config.dim is not None else min(16, usual)

    def _risk(self) -> RiskName:
        if self.config.prior == PER_USER:
            return "softmax"
        return "nnpu" if self.config.non_negative else "pu"

    def _prior(self, positives: Csr) -> float:
        """With a prior per user, the observed share: only fakes are weighed by it."""
        return usual_prior(positives) if self.config.prior is None else super()._prior(positives)

    def _temperature(self) -> float:
        return self.config.temperature

    def _observed(self, positives: Csr) -> float:
        return observed_share(positives) if self.config.stratified else 0.0

    def _batch_size(self, positives: Csr) -> int:
        """Without the stratum as given: the paper's form is to the letter."""
        return super()._batch_size(positives) if self.config.stratified else self.config.batch_size

    def _unlabeled_per_epoch(self, positives: Csr) -> int:
        """C per positive; without the stratum, as many as the bound of the paper asks for."""
        if self.config.prior == PER_USER:  # as many for each batch, so that no positive of a full one has none
            batch_size = min(self._batch_size(positives), len(positives))
            return math.ceil(self.config.unlabeled_ratio * batch_size) * math.ceil(len(positives) / batch_size)
        if self.config.stratified:
            return super()._unlabeled_per_epoch(positives)
        return unlabeled_needed(len(positives), self._prior(positives), self.config.unlabeled_ratio)

    def _regularization(self, positives: Csr) -> float:
        if self.config.stratified or self.config.regularization is not None:
            return super()._regularization(positives)
        # Nothing else holds the linear positive term back; with few dimensions the narrowness itself does.
        share = 1 - math.exp(-max(0, self._dim(positives) - 5) / 16)
        return shrinking(0.65 + 0.27 * share, positives)
