"""SVD: biases and latent factors, fitted by gradient descent.

Koren (2008), Factorization Meets the Neighborhood: a Multifaceted Collaborative Filtering Model; known as the SVD of
the Netflix Prize and of Surprise.

    r(u, i) = mean + b_u + b_i + p_u.q_i
    min  sum over known pairs of (r_ui - r(u, i))^2 + regularization (b_u^2 + b_i^2 + |p_u|^2 + |q_i|^2)

For implicit feedback a positive is 1, and unlabeled pairs, redrawn in each epoch, are 0. An epoch costs
(1 + unlabeled_ratio) n_p steps on dim numbers. Use it for ratings, or as the simplest factor model that ranks well.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from purerec.models.contract.data_defaults import DIM
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.models.families.rating_sgd import SgdConfig, SgdModel
from purerec.types import F32, F64


class SVDConfig(SgdConfig):
    """Settings of SVD."""

    regularization: float = Field(default=0.02, ge=0, le=1e6)
    """L2 on vectors and biases at each known pair."""
    unlabeled_ratio: float = Field(default=6.0, gt=0, le=1000)
    """Unlabeled pairs drawn per positive of a user, in each epoch (binary only)."""

    search_space: ClassVar[SearchSpace] = {
        "dim": DIM,
        "epochs": Ints(20, 200),
        "learning_rate": Floats(0.01, 0.5),
        "regularization": Floats(0.002, 0.2),
        "unlabeled_ratio": Floats(1, 24),
    }


class SVD(SgdModel):
    """Biased matrix factorisation."""

    name: ClassVar[str] = "svd"
    config_class = SVDConfig
    config: SVDConfig

    def biased(self) -> bool:
        return True

    def decay(self, n_pairs: F64) -> F32:
        return np.full(len(n_pairs), self.config.regularization, dtype=np.float32)

    def _penalty(self, n: float) -> float:
        return self.config.regularization * n
