"""PMF: probabilistic matrix factorisation.

Salakhutdinov, Mnih (2008), Probabilistic Matrix Factorization.

    r_ui ~ N(p_u.q_i, s^2), p_u and q_i ~ N(0, s^2 / regularization), so that the most probable vectors are
    min  1/2 sum over known pairs of (r_ui - p_u.q_i)^2 + 1/2 regularization (|P|^2 + |Q|^2)

The penalty is that of the Frobenius norm: each row counts once, however often it occurs. For implicit feedback a
positive is 1, and unlabeled pairs, drawn in each epoch, are 0. An epoch costs (1 + unlabeled_ratio) n_p steps on
dim numbers. There are no biases: use SVD, unless you want the model of that paper.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from purerec.models.contract.data_defaults import DIM
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.models.families.rating_sgd import SgdConfig, SgdModel
from purerec.types import F32, F64


class PMFConfig(SgdConfig):
    """Settings of PMF."""

    regularization: float = Field(default=1.5, ge=0, le=1e6)
    """L2 on the vectors: the variance of a target divided by that of a vector's element."""
    penalty: Literal["frobenius", "per_pair"] = "frobenius"
    """frobenius: once for each vector; per_pair: at each known pair, as in SVD."""
    unlabeled_ratio: float = Field(default=12.0, gt=0, le=1000)
    """Unlabeled pairs drawn per positive of a user, in each epoch (binary only)."""

    search_space: ClassVar[SearchSpace] = {
        "dim": DIM,
        "epochs": Ints(20, 200),
        "learning_rate": Floats(0.01, 0.5),
        "regularization": Floats(0.05, 20),
        "unlabeled_ratio": Floats(2, 40),
    }


class PMF(SgdModel):
    """Matrix factorisation with Gaussian priors."""

    name: ClassVar[str] = "pmf"
    config_class = PMFConfig
    config: PMFConfig

    def biased(self) -> bool:
        return False

    def decay(self, n_pairs: F64) -> F32:
        shared = np.maximum(n_pairs, 1) if self.config.penalty == "frobenius" else np.ones(len(n_pairs))
        return (self.config.regularization / shared).astype(np.float32)

    def _penalty(self, n: float) -> float:
        return self.config.regularization * (1 if self.config.penalty == "frobenius" else n)
