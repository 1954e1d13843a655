"""PU-GMF: generalised matrix factorisation trained with the positive-unlabeled risk.

Kiryo, Niu, du Plessis, Sugiyama (2017), Positive-Unlabeled Learning with Non-Negative Risk Estimator, on the
model of He et al. (2017), Neural Collaborative Filtering.

    min  -prior * mean_P phi(u, i) + mean_U softplus(phi(u, i)),   phi = (e_u * e_i).r + bias

An unobserved pair counts as unlabeled, not as negative. U is the set of all pairs, observed ones included: pairs are
drawn from the unobserved, and the observed stratum is added exactly (`stratified`). With the prior at the observed
share this is GMF; a larger prior means that some relevant pairs were never seen. An epoch costs (1 + C) n_p steps on
d numbers. PURE adds the person's history and the generators.

With `prior="per_user"`, the risk is that of a small prior, with a separate one for every user, at its best value:

    min  mean over positives (u, i) of  -phi(u, i) / T + log mean over all items j of exp(phi(u, j) / T)

the softmax loss (docs/theory.md), here with C draws for each positive. T is `temperature`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from purerec.data.pairs import Csr
from purerec.engines.pure.spec import GameSettings
from purerec.models.contract.data_defaults import observed_share, shrinking
from purerec.models.contract.search_space import Floats, SearchSpace
from purerec.models.families.discriminator import DiscriminatorConfig, DiscriminatorModel
from purerec.paper.theory import unlabeled_needed

PER_USER: Final = "per_user"
_LABELED = 0.9
"""The default share of relevant pairs that were observed (the label frequency of PU learning)"""


def default_prior(positives: Csr) -> float:
    """The default prior: a little more than the observed share."""
    return min(0.49, observed_share(positives) / _LABELED)


class PUGMFConfig(DiscriminatorConfig):
    """Settings of PU-GMF."""

    prior: Annotated[float, Field(gt=0, lt=1)] | Literal["per_user"] | None = None
    """The positive class prior pi_p: what share of all pairs is relevant. None: a little more than the observed
    share, as if nine in ten relevant pairs had been seen. per_user: a separate, best-fitting prior for every user,
    which turns the risk into the softmax loss. The paper: 1e-4, 1e-5 and 1e-6 for its three data sets."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    """With a prior per user, scores are divided by this in the risk. Higher values give unobserved items that
    look relevant less weight. With vectors of free length it acts like more `regularization`."""
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
        if self.unlabeled == "shared":
            raise ValueError(f"prior='{PER_USER}' needs draws for each positive; use unlabeled='per_user'")
        if self.unlabeled_ratio is not None and self.unlabeled_ratio < 1:
            raise ValueError(f"prior='{PER_USER}' needs a draw for each positive; use unlabeled_ratio of 1 or more")
        return self

    def shares_draws(self, n_items: int) -> bool:
        """Not by default if the observed pairs are left out, as in the paper."""
        return super().shares_draws(n_items) and (self.stratified or self.unlabeled == "shared")

    search_space: ClassVar[SearchSpace] = {
        **DiscriminatorConfig.search_space,
        "prior": Floats(0.0005, 0.5, start=default_prior),
    }


class PUGMF(DiscriminatorModel):
    """Matrix factorisation with PU risk."""

    name: ClassVar[str] = "pugmf"
    config_class = PUGMFConfig
    config: PUGMFConfig

    @classmethod
    def _upgraded(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"stratified": False, **settings}

    def _settings(self, positives: Csr) -> GameSettings:
        """The game with PU risk. Unless stratified, it is the paper's, and given settings are used unchanged."""
        config, settings = self.config, super()._settings(positives)
        changes: dict[str, Any] = {
            "risk": "softmax" if config.prior == PER_USER else "nnpu" if config.non_negative else "pu",
            "prior": default_prior(positives) if config.prior is None else settings.prior,
            "temperature": config.temperature,
        }
        if config.stratified:
            changes["observed"] = observed_share(positives)
        else:
            dim = min(16, settings.dim) if config.dim is None else config.dim  # more dimensions gain nothing
            changes |= {"dim": dim, "batch_size": config.batch_size}
            if config.regularization is None:
                # Nothing else limits the linear positive term; with few dimensions, the narrowness itself does.
                share = 1 - math.exp(-max(0, dim - 5) / 16)
                changes["regularization"] = shrinking(0.65 + 0.27 * share, positives)
        settings = replace(settings, **changes)
        return replace(settings, unlabeled_per_epoch=self._unlabeled_per_epoch(positives, settings))

    def _chooses_width(self) -> bool:
        return super()._chooses_width() and self.config.stratified

    def _unlabeled_per_epoch(self, positives: Csr, settings: GameSettings) -> int:
        """C per positive; if not stratified, as many as the bound of the paper requires."""
        n, ratio = len(positives), self.config.draws_per_positive(positives.shape[1])
        if self.config.prior == PER_USER:  # the same for each batch, so that every positive of a full one has a draw
            batch_size = min(settings.batch_size, n)
            return math.ceil(ratio * batch_size) * math.ceil(n / batch_size)
        if self.config.stratified:
            return settings.unlabeled_per_epoch
        return unlabeled_needed(n, settings.prior, ratio)
