"""PU-GMF: generalised matrix factorisation trained with the positive-unlabeled risk.

Kiryo, Niu, du Plessis, Sugiyama (2017), Positive-Unlabeled Learning with Non-Negative Risk Estimator, on the
model of He et al. (2017), Neural Collaborative Filtering.

    min  -prior * mean_P phi(u, i) + mean_U softplus(phi(u, i)),   phi = (e_u * e_i).r + bias

A pair that nobody has seen counts as unlabeled, not as negative. An epoch costs (1 + C) n_p steps on d numbers.
Use it as the quick and sound default; PURE starts from it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from purerec.models.families.discriminator import DiscriminatorConfig, DiscriminatorModel


class PUGMFConfig(DiscriminatorConfig):
    """Settings of PU-GMF."""

    non_negative: bool = False
    """Clamp the unlabeled risk at zero (nnPU). On validation data of ML-100k idle up to a prior of 1e-2, a help at
    0.05, a harm at 0.2."""


class PUGMF(DiscriminatorModel):
    """Matrix factorisation with PU risk."""

    name: ClassVar[str] = "pugmf"
    config_class = PUGMFConfig
    config: PUGMFConfig

    def _risk(self) -> Literal["pu", "nnpu", "pn"]:
        return "nnpu" if self.config.non_negative else "pu"
