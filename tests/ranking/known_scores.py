"""Models whose scores are known, and their ranks by a full sort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from purerec.data.pairs import Csr
from purerec.ranking.ranks import Ranks, tie_order
from purerec.ranking.scorers import Factors


@dataclass
class Table:
    """A generic model with given scores. Records how many users were requested."""

    scores: np.ndarray
    name: str = "table"

    def __post_init__(self) -> None:
        self.asked: list[int] = []

    def score(self, user_idx: Any, /) -> np.ndarray:
        self.asked.append(len(user_idx))
        return self.scores[user_idx]

    def factors(self) -> Factors | None:
        return None


@dataclass
class Product:
    """A factor model; small integers in the factors make its scores exact, however they are computed."""

    parts: Factors
    name: str = "product"

    def score(self, user_idx: Any, /) -> np.ndarray:
        bias = 0 if self.parts.item_bias is None else self.parts.item_bias
        return (self.parts.users[user_idx] @ self.parts.items.T + bias).astype(np.float32)

    def factors(self) -> Factors | None:
        return self.parts


def random_pairs(rng: np.random.Generator, n_users: int, n_items: int, share: float) -> Csr:
    return Csr.of(*np.nonzero(rng.random((n_users, n_items)) < share), (n_users, n_items))


def full_sort(scores: np.ndarray, user: int, candidates: np.ndarray, seed: int) -> np.ndarray:
    """The candidates of a user, best first, under the tie rule."""
    place = np.argsort(tie_order(scores.shape[1], seed))
    return candidates[np.lexsort((place[candidates], -scores[user, candidates].astype(np.float64)))]


def ranks_by_sorting(
    scores: np.ndarray, positives: Csr, excluded: Csr | None, pool: Csr | None, seed: int
) -> dict[int, list[int]]:
    n_users, n_items = scores.shape
    result = {}
    for user in range(n_users):
        if pool is not None:
            candidates = np.union1d(pool.row(user), positives.row(user))
        else:
            candidates = np.arange(n_items)
            if excluded is not None:
                candidates = np.setdiff1d(candidates, excluded.row(user))
        order = full_sort(scores, user, candidates, seed).tolist()
        found = sorted(order.index(item) + 1 for item in positives.row(user).tolist() if item in order)
        if found:
            result[user] = found
    return result


def as_dict(found: Ranks) -> dict[int, list[int]]:
    return {
        int(user): found.values[a:b].tolist()
        for user, a, b in zip(found.user_idx, found.indptr[:-1], found.indptr[1:], strict=True)
    }
