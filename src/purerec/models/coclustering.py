"""Co-clustering: people and items in a few groups each, and the averages of the groups.

George, Merugu (2005), A Scalable Collaborative Filtering Framework Based on Co-Clustering.

    r(u, i) = A[g, h] + (mean of u - U[g]) + (mean of i - I[h]),   g the cluster of u, h the cluster of i
    min over clusters  sum of (r_ui - r(u, i))^2

A, U and I are the averages of a co-cluster, a user cluster and an item cluster. In turns, each user and each item goes
to the cluster in which its known pairs are predicted best. For implicit feedback a positive is 1 and unlabeled pairs,
drawn once, are 0. The result depends on the random start, so the best of several `restarts` (by the objective) is
kept; an empty cluster takes in the row that is predicted worst. An epoch counts through the known pairs a few times:
with E[u, h] and N[u, h], the sum of errors and number of u's pairs in item cluster h, the error of u in any cluster g
is a product of small matrices. Use it to look at groups, or where memory is short: it keeps four numbers per row.
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
from purerec.training import Run

F64 = npt.NDArray[np.float64]


class CoClusteringConfig(RatingConfig):
    """Settings of co-clustering."""

    user_clusters: int = Field(default=3, ge=1, le=10_000)
    """Groups of people."""
    item_clusters: int = Field(default=3, ge=1, le=10_000)
    """Groups of items."""
    unlabeled_ratio: float = Field(default=4.0, gt=0, le=1000)
    """Unlabeled pairs drawn per positive of a user, once (binary only)."""
    epochs: int = Field(default=20, ge=0, le=10_000)
    """Rounds of moving users, then items, to better clusters; fewer, if nothing moves any more."""
    restarts: int = Field(default=5, ge=1, le=1000)
    """Random starts, of which the one with the least squared error is kept."""


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
        rng = generator(seed, "init")
        problem = _Problem(known, train.shape, config)
        starts = (problem.descend(rng) for _ in range(config.restarts))
        self._best = min(starts, key=lambda found: found.error)
        self._params = problem.arrays(self._best)
'''
