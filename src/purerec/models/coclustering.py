"""Co-clustering: people and items in a few groups each, and the averages of the groups.

George, Merugu (2005), A Scalable Collaborative Filtering Framework Based on Co-Clustering.

    r(u, i) = A[g, h] + (mean of u - U[g]) + (mean of i - I[h]),   g the cluster of u, h the cluster of i
    min over clusters  sum of (r_ui - r(u, i))^2

A, U and I are the averages of a co-cluster, a user cluster and an item cluster. In turns, each user and each item goes
to the cluster in which its known pairs are predicted best. For implicit feedback a positive is 1 and unlabeled pairs,
drawn once, are 0. The result depends on the random start, so the best of several `restarts` (by the objective) is
kept; an empty cluster takes in the row that is predicted worst. An epoch counts through the known pairs a few times:
with E[u, h] and N[u, h], the sum of errors and the number of u's pairs in item cluster h, the error of u in each
cluster g is a product of small matrices. Use it to look at groups, or where memory is short: it keeps two numbers per
user and item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from purerec.interactions import F32, I32, I64, Interactions
from purerec.models.base import State
from purerec.models.ratings import (
    RatingConfig,
    RatingModel,
    Targets,
    binary_targets,
    need_positives,
    rating_scale,
    rating_targets,
    unlabeled_weight,
)
from purerec.randomness import generator
from purerec.ranking import Factors
from purerec.training import Run

F64 = npt.NDArray[np.float64]


class CoClusteringConfig(RatingConfig):
    """Settings of co-clustering."""

    user_clusters: int = Field(default=3, ge=1, le=1000)
    """Groups of people."""
    item_clusters: int = Field(default=3, ge=1, le=1000)
    """Groups of items."""
    unlabeled_ratio: float = Field(default=4.0, gt=0, le=1000)
    """Unlabeled pairs drawn per positive of a user, once (binary only)."""
    epochs: int = Field(default=20, ge=0, le=10_000)
    """Rounds of moving users, then items, to better clusters; fewer, if nothing moves any more."""
    restarts: int = Field(default=5, ge=1, le=1000)
    """Random starts, of which the one with the least squared error is kept."""


@dataclass(frozen=True, eq=False)
class Averages:
    """What a clustering predicts with."""

    block: F64
    """(user_clusters, item_clusters) A"""
    user: F64
    """(user_clusters,) U"""
    item: F64
    """(item_clusters,) I"""


class CoClustering(RatingModel):
    """Averages of co-clusters."""

    name: ClassVar[str] = "coclustering"
    config_class = CoClusteringConfig
    config: CoClusteringConfig

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> None:
        config = self.config
        ratings = rating_targets(train) if config.target == "rating" else None
        known = ratings or binary_targets(need_positives(train), config.unlabeled_ratio, seed)
        self._scale = rating_scale(train, ratings)
        problem = Problem(known, train.shape, config.user_clusters, config.item_clusters)
        rng = generator(seed, "init")
        found = [problem.descend(config.epochs, rng) for _ in range(config.restarts)]
        _, user_cluster, item_cluster = min(found, key=lambda one: one[0])
        averages = problem.averages(user_cluster, item_cluster)
        self._params: State = {
            "user_cluster": user_cluster,
            "item_cluster": item_cluster,
            "block": averages.block.astype(np.float32),
            "user_average": averages.user.astype(np.float32),
            "user_offset": (problem.user_mean - averages.user[user_cluster]).astype(np.float32),
            "item_offset": (problem.item_mean - averages.item[item_cluster]).astype(np.float32),
        }

    def factors(self) -> Factors | None:
        # A user vector that is 1 at the user's cluster picks the row of the co-cluster averages.
        block = self._params["block"]
        member = np.eye(len(block), dtype=np.float32)[self._params["user_cluster"]]
        items = np.ascontiguousarray(block.T[self._params["item_cluster"]])
        return Factors(member, items, self._params["item_offset"])

    def _score(self, user_idx: I64) -> F32:
        rows = self._params["block"][:, self._params["item_cluster"]] + self._params["item_offset"]
        scores: F32 = rows[self._params["user_cluster"][user_idx]]
        scores += self._params["user_offset"][user_idx, None]
        return scores

    def _predict(self, user_idx: I64, item_idx: I64) -> F32:
        p = self._params
        found: F32 = p["block"][p["user_cluster"][user_idx], p["item_cluster"][item_idx]]
        return found + p["user_offset"][user_idx] + p["item_offset"][item_idx]

    def _score_history(self, item_idx: I32) -> F32:
        """The cluster in which the person's items, and their expected draw of others, are predicted best."""
        p, n = self._params, len(self._params["item_cluster"])
        weight, value = np.zeros(n), np.zeros(n)
        if self.config.target == "binary":
            weight[:] = unlabeled_weight(len(item_idx), n, self.config.unlabeled_ratio)
        weight[item_idx], value[item_idx] = 1, self._scale[2]
        mean = (weight @ value) / weight.sum()
        rows = p["block"][:, p["item_cluster"]] + p["item_offset"] + (mean - p["user_average"])[:, None]
        scores: F32 = rows[np.argmin((rows - value) ** 2 @ weight)].astype(np.float32)
        return scores

    def _state(self) -> State:
        return super()._state() | self._params

    def _set_state(self, state: State) -> None:
        super()._set_state(state)
        self._params = {name: array for name, array in state.items() if name != "scale"}


class Problem:
    """Known pairs, and how well clusters predict them."""

    def __init__(self, known: Targets, shape: tuple[int, int], user_clusters: int, item_clusters: int) -> None:
        self.user, self.item, self.value = known.user_idx, known.item_idx, known.value.astype(np.float64)
        self.shape, self.clusters = shape, (user_clusters, item_clusters)
        self.mean = float(self.value.mean())
        self.user_mean, self.item_mean = (
            _means(self.value, idx, n, self.mean) for idx, n in ((self.user, shape[0]), (self.item, shape[1]))
        )
        self.rest = self.value - self.user_mean[self.user] - self.item_mean[self.item]

    def descend(self, epochs: int, rng: np.random.Generator) -> tuple[float, I32, I32]:
        """Squared error, user clusters and item clusters: the best on the way down from a random start."""
        user, item = (
            rng.integers(0, k, size=n, dtype=np.int32) for k, n in zip(self.clusters, self.shape, strict=True)
        )
        best = self.error(user, item), user, item
        for _ in range(epochs):
            found = self.averages(user, item)
            new_user = self._assign(
                self.user, self.shape[0], found.item[item][self.item], item[self.item], found.block - found.user[:, None]
            )
            found = self.averages(new_user, item)
            new_item = self._assign(
                self.item, self.shape[1], found.user[new_user][self.user], new_user[self.user],
                (found.block - found.item).T,
            )  # fmt: skip
            if np.array_equal(user, new_user) and np.array_equal(item, new_item):
                break
            user, item = new_user, new_item
            error = self.error(user, item)
            if error < best[0]:
                best = error, user, item
        return best

    def averages(self, user: I32, item: I32) -> Averages:
        """A, U and I; an empty cluster or co-cluster has the mean of all pairs."""
        code = user[self.user].astype(np.int64) * self.clusters[1] + item[self.item]
        size = self.clusters[0] * self.clusters[1]
        total = np.bincount(code, self.value, size).reshape(self.clusters)
        count = np.bincount(code, minlength=size).reshape(self.clusters)
        parts = ((total, count), (total.sum(axis=1), count.sum(axis=1)), (total.sum(axis=0), count.sum(axis=0)))
        return Averages(*(np.where(n > 0, t / np.maximum(n, 1), self.mean) for t, n in parts))

    def error(self, user: I32, item: I32) -> float:
        """The objective."""
        found = self.averages(user, item)
        cell = found.block - found.user[:, None] - found.item
        return float(np.sum((self.rest - cell[user[self.user], item[self.item]]) ** 2))

    def _assign(self, row: I32, n_rows: int, offset: F64, other: I32, cell: F64) -> I32:
        """The best cluster of each row: (r - mean - mean + offset - cell[g, h])^2, h the other side's cluster."""
        n_others = cell.shape[1]
        code = row.astype(np.int64) * n_others + other
        rest = self.rest + offset
        total = np.bincount(code, rest, n_rows * n_others).reshape(n_rows, n_others)
        count = np.bincount(code, minlength=n_rows * n_others).reshape(n_rows, n_others)
        error = count @ (cell**2).T - 2 * total @ cell.T
        cluster = np.argmin(error, axis=1).astype(np.int32)
        known = count.any(axis=1)
        cluster[~known] = np.bincount(cluster[known], minlength=len(cell)).argmax()
        own = np.bincount(row, rest**2, n_rows) + error[np.arange(n_rows), cluster]
        _fill_empty(cluster, np.where(known, own, -np.inf), len(cell))
        return cluster


def _means(value: F64, idx: I32, n: int, otherwise: float) -> F64:
    count = np.bincount(idx, minlength=n)
    found: F64 = np.where(count > 0, np.bincount(idx, value, n) / np.maximum(count, 1), otherwise)
    return found


def _fill_empty(cluster: I32, error: F64, n_clusters: int) -> None:
    """Each empty cluster takes in the row with the largest error, from clusters that have others."""
    size = np.bincount(cluster, minlength=n_clusters)
    for empty in np.flatnonzero(size == 0):
        worst = int(np.argmax(np.where(size[cluster] > 1, error, -np.inf)))
        if size[cluster[worst]] < 2 or not error[worst] > 0:
            return
        size[cluster[worst]] -= 1
        cluster[worst], size[empty], error[worst] = empty, 1, 0
