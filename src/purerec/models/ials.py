"""iALS: matrix factorisation of all pairs, solved exactly for one side at a time.

Hu, Koren, Volinsky (2008), Collaborative Filtering for Implicit Feedback Datasets, in the form of Rendle, Krichene,
Zhang, Koren (2022), Revisiting the Performance of iALS on Item Recommendation Benchmarks.

    min  sum_P (p_u.q_i - 1)^2 + alpha sum_all (p_u.q_i)^2
         + regularization (sum_u (n_u + alpha n_items)^nu |p_u|^2 + sum_i (n_i + alpha n_users)^nu |q_i|^2)

Made for implicit feedback: every unobserved pair counts as a zero of weight alpha, and none has to be sampled, since
sum_i q_i q_i' is the same for all users. nu scales the penalty with how often a row occurs, as SGD would.
An epoch solves a dim x dim system for each user and item by Cholesky: n_p dim^2 + (n_users + n_items) dim^3 / 3
operations. Use it as a strong quick start: ten epochs suffice.

Why not implicit's AlternatingLeastSquares: it has one penalty for all rows (nu = 0), which Rendle et al. found to
hold iALS back (a search on ML-100k agrees); its default solver is approximate (three steps of conjugate gradients;
faster from a width of 64 up), its exact one is slower than this; and it would be a compiled dependency for a hundred
lines. tests/models/test_ials.py compares the two.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.engines.distributed.alternating import solver
from purerec.engines.ials import AlternationSide, squared_errors
from purerec.jit.simd import LANES
from purerec.models.contract.data_defaults import default_dim, shrinking
from purerec.models.contract.fitted_on import need_positives
from purerec.models.contract.foldin import Folding, SquaredFolding
from purerec.models.contract.iterative import EpochConfig, EpochModel, with_strangers
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.rng import named_rng
from purerec.storage import Layout, Part
from purerec.training.history import Measures, mean_norms
from purerec.types import F32, I64, State

_DENSITIES = 32
"""The default total weight of all unobserved pairs, relative to that of the positives."""


class IALSConfig(EpochConfig):
    """Settings of iALS."""

    dim: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Width of the vectors. None: 10, 32 or 64, for up to 200, up to 2,000 or more users."""
    alpha: Annotated[float, Field(gt=0, le=1e3)] | None = None
    """Weight of an unobserved pair relative to a positive. None: 32 times the density, so that together they weigh 32
    times as much as the positives."""
    regularization: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """L2 on the vectors, before it is scaled by nu. None: 0.055 / sqrt(positives per user)."""
    nu: float = Field(default=1.0, ge=0, le=2)
    """How the penalty grows with the (weighted) number of pairs of a row. 0: the same for all; 1: as in SGD."""
    init_std: float = Field(default=0.1, gt=0, le=10)
    """Standard deviation of the initial vectors, before division by the square root of the width."""
    epochs: int = Field(default=15, ge=0, le=100_000)
    """Rounds of solving for all users, then for all items."""

    search_space: ClassVar[SearchSpace] = {
        "dim": Ints(4, 128, start=lambda positives: _default_dim(positives.shape[0])),
        "alpha": Floats(1e-3, 10, start=lambda positives: default_alpha(positives)),
        "regularization": Floats(1e-4, 0.3, start=lambda positives: default_regularization(positives)),
        "nu": Floats(0, 1, log=False),
        "epochs": Ints(5, 40),
    }


def _default_dim(n_users: int) -> int:
    """Twice the width of the other models: exact steps benefit from it, and they are fast."""
    return 2 * default_dim(n_users)


def default_regularization(positives: Csr) -> float:
    """The default L2."""
    return shrinking(0.055, positives)


def default_alpha(positives: Csr) -> float:
    """The default weight of an unobserved pair."""
    n_users, n_items = positives.shape
    return _DENSITIES * len(positives) / (n_users * n_items)


class IALS(EpochModel):
    """Implicit alternating least squares."""

    name: ClassVar[str] = "ials"
    config_class = IALSConfig
    config: IALSConfig

    def _fitting(self, train: Interactions, seed: int) -> Alternation:
        return Alternation(self.config, need_positives(train), named_rng(seed, "init"))

    def _remedy(self) -> str:
        return "raise regularization"

    def _layout(self) -> Layout:
        return {**super()._layout(), "alpha": Part((1,))}

    def _folding(self) -> Folding:
        """Closed form: the step for users, with the items fixed."""
        items, alpha = self._params["item"], float(self._params["alpha"][0])
        return SquaredFolding(
            items,
            weight=lambda n: alpha,
            penalty=lambda n: float(_penalties(self.config, self.seen, alpha, np.array([n]), len(items))[0]),
        )


class Alternation:
    """One fit of iALS, as `training` expects it. Vectors are padded with zeros to full SIMD vectors."""

    def __init__(self, config: IALSConfig, positives: Csr, rng: np.random.Generator) -> None:
        n_users, n_items = positives.shape
        self.config = config
        self.dim = config.dim if config.dim is not None else _default_dim(n_users)
        by_item = positives.to_scipy().T.tocsr()
        self.alpha = alpha = config.alpha if config.alpha is not None else default_alpha(positives)
        self.by_user = AlternationSide(
            positives.indptr,
            positives.indices,
            _penalties(config, positives, alpha, positives.counts, n_items),
        )
        self.by_item = AlternationSide(
            by_item.indptr.astype(np.int64),
            by_item.indices.astype(np.int32),
            _penalties(config, positives, alpha, positives.item_counts, n_users),
        )
        self._solver = solver({"user": self.by_user, "item": self.by_item})
        width = -(-self.dim // LANES) * LANES
        self.user = np.zeros((n_users, width), dtype=np.float32)
        self.item = np.zeros((n_items, width), dtype=np.float32)
        std = config.init_std / np.sqrt(self.dim)
        for vectors in (self.user, self.item):
            vectors[:, : self.dim] = std * rng.standard_normal((len(vectors), self.dim), dtype=np.float32)

    def epoch(self, number: int) -> Measures:
        self._solver.solve("user", self.item, self.user, self.alpha, self.dim)
        self._solver.solve("item", self.user, self.item, self.alpha, self.dim)
        return {
            "phase": "fitting",
            "loss": self.loss() / len(self.by_user.indices),
            **mean_norms({"user": self.user, "item": self.item}),
        }

    def loss(self) -> float:
        """The objective."""
        side, user, item = self.by_user, self.user, self.item
        fit = float(squared_errors(side.indptr, side.indices, user.ravel(), item.ravel(), user.shape[1]))
        everywhere = float(np.sum((user.T @ user).astype(np.float64) * (item.T @ item)))
        penalty = float(side.penalty @ np.sum(user**2, axis=1) + self.by_item.penalty @ np.sum(item**2, axis=1))
        return fit + self.alpha * everywhere + penalty

    def parameters(self) -> State:
        user = with_strangers(self.user[:, : self.dim], np.diff(self.by_user.indptr) > 0)
        item = self.item[:, : self.dim].copy()
        return {"user": user, "item": item, "alpha": np.array([self.alpha], dtype=np.float32)}

    def state(self) -> State:
        return {"user": self.user, "item": self.item}

    def restore(self, state: State, number: int) -> None:
        self.user, self.item = (np.array(state[name], dtype=np.float32) for name in ("user", "item"))


def _penalties(config: IALSConfig, positives: Csr, alpha: float, counts: I64, n_others: int) -> F32:
    """(n_rows,) regularization (n + alpha n_others)^nu"""
    scale = config.regularization if config.regularization is not None else default_regularization(positives)
    return (scale * (counts + alpha * n_others) ** config.nu).astype(np.float32)
