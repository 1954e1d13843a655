"""NMF: matrix factorisation with non-negative vectors.

Luo, Zhou, Xia, Zhu (2014), An Efficient Non-Negative Matrix-Factorization-Based Approach to Collaborative Filtering
for Recommender Systems; for known pairs only, where Lee and Seung (2001) use a full matrix.

    min over p, q >= 0  sum over known pairs of w_ui ((r_ui - p_u.q_i)^2 + regularization (|p_u|^2 + |q_i|^2))
    p_uf <- p_uf * sum_i w_ui q_if r_ui / (sum_i w_ui q_if (p_u.q_i) + regularization p_uf sum_i w_ui),  q likewise

The step keeps signs and never raises the objective; there is no learning rate. For implicit feedback a positive is 1
with weight 1, and an unlabeled pair is 0 with weight unlabeled_ratio n_u / (n_items - n_u): how often it would be
drawn. Their sum needs no draws, since sum_i q_i q_i' is the same for all users: it is the exact expectation over all
draws. An epoch costs n_p dim steps. Use it where parts should add up and never cancel: each element of a vector can
be read as the amount of one taste.

Why not scikit-learn's NMF: it treats absent entries as zeros of full weight and can neither weight them nor leave
them out, as ratings require.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.errors import DataError
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, splat, store, total
from purerec.models.contract.data_defaults import DIM, default_dim
from purerec.models.contract.fitted_on import need_positives
from purerec.models.contract.iterative import with_strangers
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.models.families.rating_factors import FactorRatingModel, RatingFactorConfig
from purerec.models.families.ratings import rating_scale, rating_targets, unlabeled_weight
from purerec.rng import named_rng
from purerec.training.history import Measures, mean_norms
from purerec.types import F32, F64, I32, I64, State


class NMFConfig(RatingFactorConfig):
    """Settings of NMF."""

    for_ratings: ClassVar[dict[str, Any]] = {"epochs": 50, "regularization": 0.06}

    unlabeled_ratio: float = Field(default=16.0, gt=0, le=1000)
    """Total weight of a user's unlabeled pairs, per positive of theirs (binary only)."""
    regularization: float = Field(default=0.018, ge=0, le=1e6)
    """L2 on the vectors at each known pair (0.06 for ratings)."""
    epochs: int = Field(default=200, ge=0, le=100_000)
    """Steps for all users, then for all items (50 for ratings)."""

    search_space: ClassVar[SearchSpace] = {
        "dim": DIM,
        "epochs": Ints(30, 600),
        "regularization": Floats(0.001, 0.2),
        "unlabeled_ratio": Floats(2, 64),
    }


class NMF(FactorRatingModel):
    """Non-negative matrix factorisation."""

    name: ClassVar[str] = "nmf"
    config_class = NMFConfig
    config: NMFConfig
    continues: ClassVar[bool] = False  # under these steps, zeros stay zero

    def _remedy(self) -> str:
        return "raise regularization"

    def _fitting(self, train: Interactions, seed: int) -> Multiplication:
        from scipy.sparse import coo_array

        ratings = rating_targets(train) if self.config.target == "rating" else None
        scale = rating_scale(train, ratings)
        if ratings is not None:
            if ratings.value.min() < 0:
                raise DataError(f"nmf cannot predict negative ratings, and the lowest is {ratings.value.min():g}")
            known = coo_array((ratings.value, (ratings.user_idx, ratings.item_idx)), shape=train.shape).tocsr()
            weight = np.zeros(train.n_users)
        else:
            known = need_positives(train).to_scipy()
            weight = unlabeled_weight(train.positives.counts, train.n_items, self.config.unlabeled_ratio)
        return Multiplication(self.config, known, weight, scale, named_rng(seed, "init"))

    def _penalty(self, n: float) -> float:
        return self.config.regularization * n


class Multiplication:
    """One fit of NMF, as `training` expects it. Vectors are padded with zeros to full SIMD vectors."""

    def __init__(self, config: NMFConfig, known: Any, weight: F64, scale: F32, rng: np.random.Generator) -> None:
        """`known` (n_users, n_items) is sparse; any other pair is 0, with its user's weight."""
        n_users, n_items = known.shape
        self.config, self.scale, self.regularization = config, scale, np.float32(config.regularization)
        self.dim = config.dim if config.dim is not None else default_dim(n_users)
        by_item = known.T.tocsr()
        self.known = {"user": _parts(known), "item": _parts(by_item)}
        self.weight = {"user": weight.astype(np.float32), "item": np.ones(n_items, dtype=np.float32)}
        known_of_user = np.diff(known.indptr)
        of_user = known_of_user + weight * (n_items - known_of_user)
        of_item = np.diff(by_item.indptr) + weight.sum() - (by_item != 0) @ weight
        self.pairs = {"user": of_user.astype(np.float32), "item": of_item.astype(np.float32)}
        self.mean = float(known.data.sum(dtype=np.float64) / of_user.sum())
        # Uniform from zero up to the value at which the mean dot product equals the mean target.
        width, high = -(-self.dim // LANES) * LANES, np.float32(2 * np.sqrt(self.mean / self.dim))
        self.vectors: State = {}
        for name, pairs in self.pairs.items():
            vectors = np.zeros((len(pairs), width), dtype=np.float32)
            vectors[:, : self.dim] = high * rng.random((len(pairs), self.dim), dtype=np.float32)
            vectors[pairs <= 0] = 0
            self.vectors[name] = vectors

    def epoch(self, number: int) -> Measures:
        self._step("user", "item")
        loss = self._step("item", "user")
        return {
            "phase": "fitting",
            "loss": loss / float(self.pairs["user"].sum()),
            **mean_norms(self.vectors),
        }

    def _step(self, name: str, other: str) -> float:
        """Improve one side; returns the objective before the step."""
        own, fixed = self.vectors[name], self.vectors[other]
        width = own.shape[1]
        gram = np.ascontiguousarray((fixed.T * self.weight[other]) @ fixed)
        loss = multiply(
            *self.known[name], own.ravel(), fixed.ravel(), gram.ravel(), width, self.weight[name],
            self.weight[other], self.regularization * self.pairs[name], np.empty(2 * width, dtype=np.float32),
        )  # fmt: skip
        return float(loss + self.regularization * self.pairs[other] @ np.sum(fixed**2, axis=1))

    def parameters(self) -> State:
        found = {name: vectors[:, : self.dim].copy() for name, vectors in self.vectors.items()}
        if self.config.target == "binary":
            found["user"] = with_strangers(found["user"], self.pairs["user"] > 0)
        found |= {f"{name}_pairs": pairs for name, pairs in self.pairs.items()}
        return found | {"scale": self.scale, "mean": np.array([self.mean], dtype=np.float32)}

    def state(self) -> State:
        return self.vectors

    def restore(self, state: State, number: int) -> None:
        self.vectors = {name: np.array(state[name], dtype=np.float32) for name in ("user", "item")}


def _parts(matrix: Any) -> tuple[I64, I32, F32]:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float32)


@kernel()
def multiply(
    indptr: I64,
    indices: I32,
    values: F32,
    own: F32,
    fixed: F32,
    gram: F32,
    width: Scalar,
    own_weight: F32,
    fixed_weight: F32,
    penalty: F32,
    scratch: F32,
) -> Scalar:
    """One multiplicative step for the vectors `own` of all rows; returns the objective without the other penalty.

    An unknown pair has the weight own_weight * fixed_weight; `gram` (width, width) is the sum of fixed_weight q q'.
    `scratch` (2 * width,) holds numerators and denominators.
    """
    found = 0.0
    for row in range(indptr.size - 1):
        p, weight = row * width, own_weight[row]
        for k in range(0, width, LANES):
            below = splat(np.float32(0.0))
            for j in range(width):
                below = below + load(gram, j * width + k) * own[p + j]
            below = below * weight + load(own, p + k) * penalty[row]
            store(scratch, k, splat(np.float32(0.0)))
            store(scratch, width + k, below)
            found += total(below * load(own, p + k))
        for n in range(indptr[row], indptr[row + 1]):
            q, r = np.int64(indices[n]) * width, values[n]
            acc = load(own, p) * load(fixed, q)
            for k in range(LANES, width, LANES):
                acc = acc + load(own, p + k) * load(fixed, q + k)
            product = total(acc)
            rest = (np.float32(1.0) - weight * fixed_weight[indices[n]]) * product
            found += (r - product) ** 2 - (product - rest) * product
            for k in range(0, width, LANES):
                v = load(fixed, q + k)
                store(scratch, k, load(scratch, k) + v * r)
                store(scratch, width + k, load(scratch, width + k) + v * rest)
        for k in range(width):
            if own[p + k] > 0 and scratch[width + k] > 0:
                own[p + k] *= scratch[k] / scratch[width + k]
    return found
