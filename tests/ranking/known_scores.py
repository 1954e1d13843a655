"""Models whose scores are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
