"""GMF: generalised matrix factorisation trained as if unobserved pairs were negative.

He, Liao, Zhang, Nie, Hu, Chua (2017), Neural Collaborative Filtering.

    min  prior * mean_P softplus(-phi(u, i)) + (1 - prior) * mean_U softplus(phi(u, i)),   phi = (e_u * e_i).r + bias

With prior = 1 / (1 + C) this is the log loss with C sampled negatives per positive. An epoch costs (1 + C) n_p
steps on d numbers. It is the baseline that shows what the PU risk changes: everything else is shared with PU-GMF.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from purerec.models.families.discriminator import DiscriminatorConfig, DiscriminatorModel


class GMFConfig(DiscriminatorConfig):
    """Settings of GMF."""

    prior: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Weight of the positives in the risk: 1 / (1 + C) gives the plain log loss of the pairs drawn. None: the share
    of positives among all pairs, which gives the log loss of all pairs in expectation."""


class GMF(DiscriminatorModel):
    """Matrix factorisation with PN risk."""

    name: ClassVar[str] = "gmf"
    config_class = GMFConfig
    config: GMFConfig
