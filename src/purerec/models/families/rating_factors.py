"""Shared by SVD, PMF and NMF: vectors whose dot product is the target, `predict`, and folding in new people."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

import numpy as np
from pydantic import Field

from purerec.models.contract.foldin import Folding, SquaredFolding
from purerec.models.contract.iterative import EpochConfig, EpochModel
from purerec.models.families.ratings import RatingConfig, RatingModel, unlabeled_weight
from purerec.storage import Layout, Part
from purerec.types import F32, I64


class RatingFactorConfig(RatingConfig, EpochConfig):
    """Settings of a factor model of targets."""

    dim: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Width of the vectors. None: 5, 16 or 32, for up to 200, up to 2,000 or more users."""


class FactorRatingModel(EpochModel, RatingModel):
    """Base of SVD, PMF and NMF: target(u, i) = mean + user_bias + item_bias + p_u.q_i, or only the last term.

    With ratings, a user or item without known pairs has a vector of zeros; `user_pairs` and `item_pairs` count them.
    """

    config: RatingFactorConfig

    @property
    def _scale(self) -> F32:
        return self._params["scale"]

    def _predict(self, user_idx: I64, item_idx: I64) -> F32:
        p = self._params
        found: F32 = np.einsum("nd,nd->n", p["user"][user_idx], p["item"][item_idx])
        if "item_bias" in p:
            found += p["user_bias"][user_idx] + p["item_bias"][item_idx] + p["mean"]
        elif self.config.target == "rating":  # a user or item without data need not be disliked
            found[(p["user_pairs"][user_idx] == 0) | (p["item_pairs"][item_idx] == 0)] = p["mean"][0]
        return found

    def _score(self, user_idx: I64) -> F32:
        scores = super()._score(user_idx)
        if "item_bias" in self._params:
            scores += self._params["user_bias"][user_idx, None] + self._params["mean"]
        return scores

    def _folding(self) -> Folding:
        """Least squares over p_u (and the user's bias), with the items fixed and the draw in expectation."""
        p, n_items, biased = self._params, len(self._params["item"]), "item_bias" in self._params

        def weight(n: int) -> float:
            if self.config.target == "rating":
                return 0.0
            return float(unlabeled_weight(n, n_items, self.config.unlabeled_ratio))

        return SquaredFolding(
            p["item"],
            weight=weight,
            penalty=lambda n: self._penalty(n + weight(n) * (n_items - n)),
            own_weight=lambda n: 1 - weight(n),
            own_target=float(self._scale[2]),
            offset=p["mean"][0] + p["item_bias"] if biased else None,
            free_bias=biased,
            non_negative=self.name == "nmf",
        )

    @abstractmethod
    def _penalty(self, n: float) -> float:
        """L2 on the vector of a person with n pairs."""

    def _layout(self) -> Layout:
        return {
            **EpochModel._layout(self),
            **RatingModel._layout(self),
            "mean": Part((1,)),
            "user_pairs": Part(("users",)),
            "item_pairs": Part(("items",)),
        }
