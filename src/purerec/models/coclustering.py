"""Co-clustering: sorts people and items into a few groups each and predicts by group averages.

George, Merugu (2005), A Scalable Collaborative Filtering Framework Based on Co-Clustering.

    r(u, i) = A[g, h] + (mean of u - U[g]) + (mean of i - I[h]),   g the cluster of u, h the cluster of i
    min over clusters  sum of (r_ui - r(u, i))^2

A, U and I are the averages of a co-cluster, a user cluster and an item cluster. Users, then items, move to the
cluster in which their pairs are predicted best. For implicit feedback a positive is 1 with weight 1, and an unlabeled
pair is 0 with weight unlabeled_ratio n_u / (n_items - n_u), which is how often it would be drawn: the exact
expectation over all draws, without drawing any. The result depends on the random start, so the best of several
`restarts` (by the objective) is kept; an empty cluster receives the row that is predicted worst. An epoch passes over
the positives a few times: with E[u, h] and N[u, h], the sum of errors and the weight of u's pairs in item cluster h,
the error of u in each cluster g is a product of small matrices. Use it to study groups, or where memory is scarce: it
keeps two numbers per user and item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.jit.decorator import Scalar, kernel
from purerec.models.contract.fitted_on import Known, need_positives
from purerec.models.contract.foldin import Folding
from purerec.models.contract.search_space import Floats, Ints, SearchSpace
from purerec.models.contract.similar import common_fans
from purerec.models.families.ratings import (
    RatingConfig,
    RatingModel,
    Targets,
    positive_targets,
    rating_scale,
    rating_targets,
    unlabeled_weight,
)
from purerec.ranking.scorers import Factors
from purerec.rng import named_rng
from purerec.storage import Layout, Part
from purerec.storage.structure import check_below
from purerec.training.run import Run
from purerec.types import F32, F64, I32, I64, Mask, State


class CoClusteringConfig(RatingConfig):
    """Settings of co-clustering."""

    for_ratings: ClassVar[dict[str, Any]] = {"user_clusters": 3, "item_clusters": 3}

    user_clusters: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Groups of people (3 for ratings). None: one per 100 people, within 2 to 20."""
    item_clusters: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Groups of items (3 for ratings). None: one per 50 items, within 2 to 60."""
    unlabeled_ratio: float = Field(default=16.0, gt=0, le=1000)
    """Total weight of a user's unlabeled pairs, per positive of theirs (binary only)."""
    epochs: int = Field(default=20, ge=0, le=10_000)
    """Rounds of moving users, then items, to better clusters; ends early once nothing moves."""
    restarts: int = Field(default=5, ge=1, le=1000)
    """Random starts; the one with the least squared error is kept."""

    search_space: ClassVar[SearchSpace] = {
        "user_clusters": Ints(2, 60, start=lambda positives: default_clusters(positives.shape)[0]),
        "item_clusters": Ints(2, 100, start=lambda positives: default_clusters(positives.shape)[1]),
        "unlabeled_ratio": Floats(2, 64),
    }


def default_clusters(shape: tuple[int, int]) -> tuple[int, int]:
    """The default numbers of user and item clusters."""
    n_users, n_items = shape
    return min(max(n_users // 100, 2), 20), min(max(n_items // 50, 2), 60)


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
    learned: State

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> State:
        config = self.config
        ratings = rating_targets(train) if config.target == "rating" else None
        weight = np.zeros(train.n_users)
        if ratings is None:
            weight = unlabeled_weight(need_positives(train).counts, train.n_items, config.unlabeled_ratio)
        default = default_clusters(train.shape)
        clusters = config.user_clusters or default[0], config.item_clusters or default[1]
        problem = ClusteringProblem(ratings or positive_targets(train.positives), weight, train.shape, clusters)
        rng = named_rng(seed, "init")
        found = [problem.descend(config.epochs, rng) for _ in range(config.restarts)]
        _, user_cluster, item_cluster = min(found, key=lambda one: one[0])
        averages = problem.averages(user_cluster, item_cluster)
        return {
            "scale": rating_scale(train, ratings),
            "user_cluster": user_cluster,
            "item_cluster": item_cluster,
            "block": averages.block.astype(np.float32),
            "user_average": averages.user.astype(np.float32),
            "user_offset": (problem.user_mean - averages.user[user_cluster]).astype(np.float32),
            "item_offset": (problem.item_mean - averages.item[item_cluster]).astype(np.float32),
        }

    def factors(self) -> Factors | None:
        # A user vector that is 1 at the user's cluster selects the row of co-cluster averages.
        block = self.learned["block"]
        member = np.eye(len(block), dtype=np.float32)[self.learned["user_cluster"]]
        items = np.ascontiguousarray(block.T[self.learned["item_cluster"]])
        return Factors(member, items, self.learned["item_offset"])

    def _score(self, user_idx: I64) -> F32:
        rows = self.learned["block"][:, self.learned["item_cluster"]] + self.learned["item_offset"]
        scores: F32 = rows[self.learned["user_cluster"][user_idx]]
        scores += self.learned["user_offset"][user_idx, None]
        return scores

    def _predict(self, user_idx: I64, item_idx: I64) -> F32:
        p = self.learned
        found: F32 = p["block"][p["user_cluster"][user_idx], p["item_cluster"][item_idx]]
        return found + p["user_offset"][user_idx] + p["item_offset"][item_idx]

    def _folding(self) -> Folding:
        return ClusterFolding(self)

    def _best_cluster(self, item_idx: I32) -> int:
        """The cluster in which the person's items, and the others in expectation, are predicted best."""
        p, n = self.learned, len(self.learned["item_cluster"])
        weight, value = np.zeros(n), np.zeros(n)
        if self.config.target == "binary":
            weight[:] = unlabeled_weight(len(item_idx), n, self.config.unlabeled_ratio)
        weight[item_idx], value[item_idx] = 1, self._scale[2]
        rows = p["block"][:, p["item_cluster"]] + p["item_offset"]
        if self.config.target == "binary":  # what they like does not reveal their average rating
            rows = rows + ((weight @ value) / weight.sum() - p["user_average"])[:, None]
        return int(np.argmin((rows - value) ** 2 @ weight))

    def _item_weights(self, item_idx: int) -> F32 | None:
        """Clusters cannot tell their own items apart: who liked an item says more."""
        return common_fans(self, item_idx)

    def _layout(self) -> Layout:
        return {
            **super()._layout(),
            "user_cluster": Part(("users",), np.int32),
            "item_cluster": Part(("items",), np.int32),
            "block": Part(("user_clusters", "item_clusters")),
            "user_average": Part(("user_clusters",)),
            "user_offset": Part(("users",)),
            "item_offset": Part(("items",)),
        }

    @property
    def _scale(self) -> F32:
        return self.learned["scale"]

    def _state(self) -> State:
        return dict(self.learned)

    def _from_state(self, state: State, known: Known) -> State:
        for side, n in zip(("user_cluster", "item_cluster"), state["block"].shape, strict=True):
            check_below(side, state[side], n)
        return dict(state)


class ClusterFolding:
    """A person's vector is 1 at their cluster, which cannot be attributed to single items."""

    def __init__(self, model: CoClustering) -> None:
        self._model = model

    def vector(self, history: I32) -> F32:
        found = np.zeros(len(self._model.learned["block"]), dtype=np.float32)
        found[self._model._best_cluster(history)] = 1
        return found

    def parts(self, history: I32, vector: F32) -> F32 | None:
        return None


class ClusteringProblem:
    """Targets of all pairs with their weights, and how well clusters predict them.

    A known pair has weight 1; any other has target 0 and its user's weight. Sums over all pairs are sums over the
    background, as if none were known, plus what the known ones change: no users x items array is ever built.
    """

    def __init__(self, known: Targets, weight: F64, shape: tuple[int, int], clusters: tuple[int, int]) -> None:
        self.user, self.item, self.value = known.user_idx, known.item_idx, known.value.astype(np.float64)
        self.shape, self.clusters, self.weight = shape, clusters, weight
        self.more = 1 - weight[self.user]  # how much more a known pair weighs than an unknown one
        of_user = _sums(self.user, self.more, shape[0]) + weight * shape[1]
        of_item = _sums(self.item, self.more, shape[1]) + weight.sum()
        self.mean = float(self.value.sum() / of_user.sum())
        self.user_mean = _ratio(_sums(self.user, self.value, shape[0]), of_user, self.mean)
        self.item_mean = _ratio(_sums(self.item, self.value, shape[1]), of_item, self.mean)
        self.user_known, self.item_known = of_user > 0, of_item > 0
        self.back = -self.user_mean[self.user] - self.item_mean[self.item]

    def descend(self, epochs: int, rng: np.random.Generator) -> tuple[float, I32, I32]:
        """Squared error, user clusters and item clusters: the best found in a descent from a random start."""
        user, item = (
            rng.integers(0, k, size=n, dtype=np.int32) for k, n in zip(self.clusters, self.shape, strict=True)
        )
        found = self.averages(user, item)
        best = self.error(user, item, found), user, item
        for _ in range(epochs):
            new_user = self.move_users(item, found)
            new_item = self.move_items(new_user, self.averages(new_user, item))
            if np.array_equal(user, new_user) and np.array_equal(item, new_item):
                break
            user, item = new_user, new_item
            found = self.averages(user, item)
            error = self.error(user, item, found)
            if error < best[0]:
                best = error, user, item
        return best

    def averages(self, user: I32, item: I32) -> Averages:
        """A, U and I; an empty cluster or co-cluster gets the mean of all pairs."""
        total = np.zeros(self.clusters)
        count = np.outer(_sums(user, self.weight, self.clusters[0]), _sums(item, None, self.clusters[1]))
        add_blocks(self.user, self.item, self.value, self.more, user, item, total, count)
        parts = (total, count), (total.sum(axis=1), count.sum(axis=1)), (total.sum(axis=0), count.sum(axis=0))
        return Averages(*(_ratio(t, n, self.mean) for t, n in parts))

    def error(self, user: I32, item: I32, found: Averages) -> float:
        """The objective."""
        cell = found.block - found.user[:, None] - found.item
        known = known_errors(self.user, self.item, self.value, self.more, self.back, user, item, cell)
        # The background: the weighted sum of (user_mean + item_mean + cell)^2 over all pairs, multiplied out.
        w, mu, nu = self.weight, self.user_mean, self.item_mean
        w_g, mu_g = _sums(user, w, self.clusters[0]), _sums(user, w * mu, self.clusters[0])
        n_h, nu_h = _sums(item, None, self.clusters[1]), _sums(item, nu, self.clusters[1])
        crossed = np.sum(cell**2 * np.outer(w_g, n_h) + 2 * cell * (np.outer(mu_g, n_h) + np.outer(w_g, nu_h)))
        alone = (w @ mu**2) * len(nu) + 2 * (w @ mu) * nu.sum() + w.sum() * (nu @ nu)
        return float(known + crossed + alone)

    def move_users(self, item: I32, found: Averages) -> I32:
        """The best cluster of each user, given those of the items."""
        w = self.weight
        n_h, nu_h = _sums(item, None, self.clusters[1]), _sums(item, self.item_mean, self.clusters[1])
        count = np.outer(w, n_h)
        total = np.outer(w, n_h * found.item - nu_h) - np.outer(w * self.user_mean, n_h)
        cell = found.block - found.user[:, None]
        return self._assign(self.user, self.item, item, found.item, cell, total, count, self.user_known)

    def move_items(self, user: I32, found: Averages) -> I32:
        """The best cluster of each item, given those of the users."""
        w = self.weight
        w_g, mu_g = _sums(user, w, self.clusters[0]), _sums(user, w * self.user_mean, self.clusters[0])
        count = np.outer(np.ones(self.shape[1]), w_g)
        total = w_g * found.user - mu_g - np.outer(self.item_mean, w_g)
        cell = (found.block - found.item).T
        return self._assign(self.item, self.user, user, found.user, cell, total, count, self.item_known)

    def _assign(
        self, row: I32, other: I32, cluster_of: I32, offset: F64, cell: F64, total: F64, count: F64, known: Mask
    ) -> I32:
        """The cluster g of each row with the least sum over its pairs of (error - cell[g, h])^2.

        h is the cluster on the other side, and the error is value + back + offset[h]. `total` and `count` (n_rows,
        n_others) start as the background's sums of errors and of weights.
        """
        add_rows(row, other, self.value, self.more, self.back, cluster_of, offset, total, count)
        # The sum of squared errors itself is the same for all g.
        cluster: I32 = np.argmin(count @ (cell**2).T - 2 * total @ cell.T, axis=1).astype(np.int32)
        cluster[~known] = np.bincount(cluster[known], minlength=len(cell)).argmax()
        if len(np.unique(cluster)) < len(cell):
            h = cluster_of[other]
            missed = (self.value + self.back + offset[h] - cell[cluster[row], h]) ** 2
            _fill_empty(cluster, _sums(row, missed, len(cluster)), len(cell))
        return cluster


def _sums(idx: I32 | I64, value: F64 | None, n: int) -> F64:
    """(n,) sums of the values (of ones) at each index"""
    return np.bincount(idx, value, n).astype(np.float64, copy=False)


def _ratio(total: F64, count: F64, otherwise: float) -> F64:
    there = count > 1e-9
    found: F64 = np.where(there, total / np.where(there, count, 1), otherwise)
    return found


def _fill_empty(cluster: I32, error: F64, n_clusters: int) -> None:
    """Move to each empty cluster the row with the largest error among clusters of more than one row."""
    size = np.bincount(cluster, minlength=n_clusters)
    for empty in np.flatnonzero(size == 0):
        worst = int(np.argmax(np.where(size[cluster] > 1, error, -np.inf)))
        if size[cluster[worst]] < 2 or not error[worst] > 0:
            return
        size[cluster[worst]] -= 1
        cluster[worst], size[empty], error[worst] = empty, 1, 0


@kernel()
def add_blocks(
    user: I32, item: I32, value: F64, more: F64, user_cluster: I32, item_cluster: I32, total: F64, count: F64
) -> None:
    """Add the known pairs to the sums of each co-cluster."""
    for n in range(value.size):
        g, h = user_cluster[user[n]], item_cluster[item[n]]
        total[g, h] += value[n]
        count[g, h] += more[n]


@kernel()
def add_rows(
    row: I32, other: I32, value: F64, more: F64, back: F64, cluster: I32, offset: F64, total: F64, count: F64
) -> None:
    """Add the known pairs to the sums of each row in each cluster of the other side."""
    for n in range(value.size):
        h = cluster[other[n]]
        total[row[n], h] += value[n] + more[n] * (back[n] + offset[h])
        count[row[n], h] += more[n]


@kernel()
def known_errors(
    user: I32, item: I32, value: F64, more: F64, back: F64, user_cluster: I32, item_cluster: I32, cell: F64
) -> Scalar:
    """Squared errors of the known pairs, minus what these pairs contribute to the background."""
    found = 0.0
    for n in range(value.size):
        b = back[n] - cell[user_cluster[user[n]], item_cluster[item[n]]]
        found += (value[n] + b) ** 2 - (1.0 - more[n]) * b**2
    return found
