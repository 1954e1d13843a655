"""Weighted Slope One: rating differences between pairs of items, averaged over a person's items.

Lemire, Maclachlan (2005), Slope One Predictors for Online Rating-Based Collaborative Filtering.

    dev(i, j) = mean of r_vi - r_vj over the c(i, j) people v who know both
    r(u, i) = sum of c(i, j) (dev(i, j) + r_uj) over u's items j other than i, divided by the sum of the c(i, j)

For implicit feedback a positive is 1 and unlabeled pairs, drawn once, are 0. With all of them instead of a draw,
every c(i, j) would be the number of users, and r(u, i) popularity up to a constant: the likely reason why the paper's
row for SlopeOne repeats that of ItemPop. With a sparse draw the positives determine c(i, j), and shrinkage towards 0
demotes items that rest on few comparisons. What validation preferred, few zeros and much shrinkage, is close to
counting how often i was liked together with u's items: between ones and zeros, differences say little more.

All of it is sparse matrix products: with the targets R and the mask M of known pairs, c = M'M and c dev = R'M - M'R.
They cost the sum over users of (number of items)^2 and 8 n_items^2 bytes (ML-1M: 110 MB). Beyond `memory_mb`, nothing
is kept and the products are computed over users when scoring. Use it as a baseline.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.models.contract.explaining import Person
from purerec.models.contract.fitted_on import Known, need_positives
from purerec.models.contract.search_space import Floats, SearchSpace
from purerec.models.families.ratings import (
    RatingConfig,
    RatingModel,
    binary_targets,
    rating_scale,
    rating_targets,
    unlabeled_weight,
)
from purerec.storage import Layout, Part, check_csr
from purerec.training.run import Run
from purerec.types import F32, I32, I64, State

_BLOCK = 1024
"""Items or users whose products with all others are held in memory at once."""


class SlopeOneConfig(RatingConfig):
    """Settings of Slope One."""

    for_ratings: ClassVar[dict[str, Any]] = {"shrinkage": 0.0}

    unlabeled_ratio: float = Field(default=0.1, gt=0, le=1000)
    """Unlabeled pairs drawn per positive of a user, once (binary only)."""
    shrinkage: float = Field(default=1000.0, ge=0, le=1e9)
    """This many neutral comparisons (0 for binary targets, the person's mean for ratings) are added to the average;
    none by default for ratings."""
    memory_mb: float = Field(default=1024.0, ge=0)
    """The most memory that the two item-by-item matrices may take; beyond that, scoring is slower."""

    search_space: ClassVar[SearchSpace] = {
        "unlabeled_ratio": Floats(0.01, 4),
        "shrinkage": Floats(1, 1e5),
    }


class Comparisons:
    """The known targets, and how items compare among people who know both."""

    def __init__(self, targets: Any, scale: F32, memory_mb: float) -> None:
        """`targets`: (n_users, n_items), sparse, with zeros stored."""
        self.targets, self.scale = targets, scale
        self.mask = targets.copy()
        self.mask.data = np.ones_like(targets.data)
        self.by_item = self.mask.T.tocsr(), targets.T.tocsr()
        self.counts = np.diff(targets.indptr)
        mean = targets.sum(axis=1) / np.maximum(self.counts, 1)
        self.mean: F32 = np.where(self.counts > 0, mean, targets.data.mean()).astype(np.float32)
        fits = 8e-6 * targets.shape[1] ** 2 <= memory_mb
        self.products = self._products() if fits else None

    def _products(self) -> tuple[F32, F32]:
        """c = M'M without its diagonal, and (c dev)' = M'R - R'M, as dense matrices, in blocks."""
        n = self.mask.shape[1]
        common, slopes = np.empty((n, n), dtype=np.float32), np.empty((n, n), dtype=np.float32)
        mask, targets = self.by_item
        for start in range(0, n, _BLOCK):
            part = slice(start, start + _BLOCK)
            common[part] = (mask[part] @ self.mask).toarray()
            slopes[part] = (mask[part] @ self.targets - targets[part] @ self.mask).toarray()
        np.fill_diagonal(common, 0)
        return common, slopes

    def sums(self, mask: Any, targets: Any) -> tuple[F32, F32]:
        """The sums over a person's items of c (dev + r) and of c, (n, n_items) each."""
        if self.products is not None:
            common, slopes = self.products
            return mask @ slopes + targets @ common, mask @ common
        # The same products via the users, without an item-by-item matrix; no item is compared with itself.
        by_item, targets_by_item = self.by_item
        shared = (self.mask @ mask.T).toarray()
        gap = (self.mask @ targets.T - self.targets @ mask.T).toarray()
        own = by_item.sum(axis=1).astype(np.float32)
        total = (targets_by_item @ shared + by_item @ gap).T - targets.multiply(own).toarray()
        weight = (by_item @ shared).T - mask.multiply(own).toarray()
        return np.ascontiguousarray(total), np.ascontiguousarray(weight)


class SlopeOne(RatingModel):
    """Weighted Slope One."""

    name: ClassVar[str] = "slopeone"
    config_class = SlopeOneConfig
    config: SlopeOneConfig
    learned: Comparisons

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> Comparisons:
        from scipy.sparse import coo_array

        ratings = rating_targets(train) if self.config.target == "rating" else None
        known = ratings or binary_targets(need_positives(train), self.config.unlabeled_ratio, seed)
        matrix = coo_array((known.value, (known.user_idx, known.item_idx)), shape=train.shape).tocsr()
        return Comparisons(matrix, rating_scale(train, ratings), self.config.memory_mb)

    @property
    def _scale(self) -> F32:
        return self.learned.scale

    # ------------------------------------------------------------------ predicting

    def _score(self, user_idx: I64) -> F32:
        known = self.learned
        scores = self._averages(known.mask[user_idx], known.targets[user_idx], self._prior(known.mean[user_idx]))
        if self.config.target == "binary":
            scores[known.counts[user_idx] == 0] = self.popularity() / len(self.users)
        return scores

    def _score_history(self, item_idx: I32) -> F32:
        scores = self._averages(*self._person(item_idx), self._prior(self._scale[2:]))
        found: F32 = scores[0]
        return found

    def _person(self, item_idx: I32) -> tuple[Any, Any]:
        """Mask and targets (1, n_items) of a new person, with the draw of training in expectation."""
        from scipy.sparse import csr_array

        n = self.learned.targets.shape[1]
        weight, value = np.zeros((1, n), dtype=np.float32), np.zeros((1, n), dtype=np.float32)
        if self.config.target == "binary":
            weight[:] = min(1.0, float(unlabeled_weight(len(item_idx), n, self.config.unlabeled_ratio)))
        weight[0, item_idx], value[0, item_idx] = 1, self._scale[2]
        return csr_array(weight), csr_array(value)

    def _shares(self, person: Person, target_idx: I64) -> F32 | None:
        """Own items' terms of the sum, divided by its weight; drawn zeros and shrinkage are the rest."""
        if person.user_idx is None:
            known = self._person(person.item_idx)
        else:
            known = self.learned.mask[[person.user_idx]], self.learned.targets[[person.user_idx]]
        return np.stack([self._share(person.item_idx, *known, int(target)) for target in target_idx], axis=1)

    def _share(self, own: I32, mask: Any, targets: Any, target_idx: int) -> F32:
        """(len(own),) in the score of one item"""
        target = [target_idx]
        by_item, targets_by_item = self.learned.by_item
        fans, likes = by_item[target], targets_by_item[target]
        common = (fans @ self.learned.mask).toarray()[0]
        common[target_idx] = 0
        # How much higher those who know both rated the target than the own item.
        slope = (likes @ self.learned.mask - fans @ self.learned.targets).toarray()[0]
        weight = float((mask @ common)[0]) + self.config.shrinkage
        value = targets.toarray()[0]
        found: F32 = ((slope[own] + value[own] * common[own]) / max(weight, 1e-12)).astype(np.float32)
        return found

    def _predict(self, user_idx: I64, item_idx: I64) -> F32:
        users, place = np.unique(user_idx, return_inverse=True)
        found = np.empty(len(user_idx), dtype=np.float32)
        for start in range(0, len(users), _BLOCK):
            rows = np.flatnonzero((place >= start) & (place < start + _BLOCK))
            found[rows] = self._score(users[start : start + _BLOCK])[place[rows] - start, item_idx[rows]]
        return found

    def _prior(self, mean: F32) -> F32:
        return mean if self.config.target == "rating" else np.zeros_like(mean)

    def _averages(self, mask: Any, targets: Any, prior: F32) -> F32:
        """(n, n_items) for people with these known pairs, `targets` being 0 where `mask` is."""
        total, weight = self.learned.sums(mask, targets)
        total += np.float32(self.config.shrinkage) * prior[:, None]
        weight += np.float32(self.config.shrinkage)
        alone = weight <= 0  # nobody knows both the item and one of the person's, and there is no shrinkage
        if alone.any():
            total, weight = np.where(alone, prior[:, None], total), np.where(alone, np.float32(1), weight)
        return np.divide(total, weight, out=total)

    # ------------------------------------------------------------------ storing

    def _layout(self) -> Layout:
        return {
            **super()._layout(),
            "targets": Part(("pairs",)),
            "items": Part(("pairs",), np.int32),
            "starts": Part(("rows",), np.int64),
        }

    def _state(self) -> State:
        known = self.learned.targets
        return {
            "scale": self.learned.scale,
            "targets": known.data,
            "items": known.indices.astype(np.int32),
            "starts": known.indptr.astype(np.int64),
        }

    def _from_state(self, state: State, known: Known) -> Comparisons:
        from scipy.sparse import csr_array

        shape = known.seen.shape
        check_csr("targets", state["starts"], state["items"], shape, unique=False)
        matrix = csr_array((state["targets"], state["items"], state["starts"]), shape=shape)
        return Comparisons(matrix, state["scale"], self.config.memory_mb)
