"""List metrics, which depend on what was recommended, whether or not it is in the test part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.evaluation.metrics import Metric, coverage, diversity, gini, novelty, popularity, serendipity
from purerec.ranking.ranks import top_k
from purerec.ranking.scorers import Factors, Scorer
from purerec.types import F32, F64, I32, I64

LIST_LENGTH = 10
"""Default k of a list metric"""


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists of some users, computed when a metric needs them."""

    model: Scorer
    user_idx: I64
    train: Interactions
    known: Csr
    """Positives that are not candidates"""
    relevant: Csr
    longest: int
    limits: dict[str, Any]
    """Options of `top_k`"""

    @cached_property
    def _items(self) -> I32:
        """(n_users, longest), padded with -1"""
        return top_k(self.model, self.user_idx, self.longest, excluded=self.known, **self.limits).items

    @cached_property
    def _popular(self) -> I32:
        """(n_users, longest) lists by popularity, padded with -1"""
        most_liked = _ByBias(self.train.n_users, self.train.positives.item_counts.astype(np.float32))
        return top_k(most_liked, self.user_idx, self.longest, excluded=self.known, **self.limits).items

    def measure(self, metric: Metric) -> F64 | float:
        """(n_users,) a value for each user, or one value for all lists together."""
        k = metric.k or LIST_LENGTH
        shown, positives = self._items[:, :k], self.train.positives
        if metric.own is not None:
            return metric.own.values(self._ids(shown), metric.k)
        if metric.kind == "Novelty":
            return novelty(shown, positives.item_counts, int(np.count_nonzero(positives.counts)))
        if metric.kind == "Popularity":
            return popularity(shown, positives.item_counts)
        if metric.kind == "ILD":
            return diversity(shown, positives)
        if metric.kind == "Serendipity":
            return serendipity(shown, self._popular[:, :k], self._hits(shown))
        return {"Coverage": coverage, "Gini": gini}[metric.kind](shown, self.train.n_items)

    def _hits(self, shown: I32) -> Any:
        """(n_users, k) True where the list has a positive"""
        n_items = self.train.n_items
        held_out = self.relevant.users.astype(np.int64) * n_items + self.relevant.indices
        return np.isin(self.user_idx[:, None] * n_items + shown, held_out) & (shown >= 0)

    def _ids(self, shown: I32) -> Iterator[list[Any]]:
        ids = self.train.items.ids
        for row in shown:
            yield ids.gather(row[row >= 0]).to_list()


@dataclass(frozen=True)
class _ByBias:
    """The same scores for everybody."""

    n_users: int
    bias: F32
    name: str = "popularity"

    def factors(self) -> Factors:
        return Factors(
            np.zeros((self.n_users, 1), dtype=np.float32), np.zeros((len(self.bias), 1), dtype=np.float32), self.bias
        )

    def score(self, user_idx: I64, /) -> F32:
        return np.repeat(self.bias[None], len(user_idx), axis=0)
