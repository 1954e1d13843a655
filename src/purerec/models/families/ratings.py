"""Shared by the rating predictors (SlopeOne, CoClustering, SVD, NMF, PMF): their targets, and `predict`.

    target="binary"     a positive is 1, an unlabeled pair that was drawn is 0: for ranking all items
    target="rating"     the ratings of all rows, not only of positives: for predicting ratings

A model of ratings knows nothing about what people choose to rate, and ranks poorly: on ML-100k it finds hardly any of
the held-out items. Its purpose is `predict`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.vocabulary import indices_of
from purerec.errors import ConfigError, DataError
from purerec.models.contract.config import Config
from purerec.models.contract.recommender import Recommender
from purerec.sampling.unlabeled import UnlabeledSampler
from purerec.storage import Layout, Part
from purerec.types import F32, I32, I64


class RatingConfig(Config):
    """Settings of a rating predictor. Defaults are for binary targets; `for_ratings` has what differs for ratings."""

    for_ratings: ClassVar[dict[str, Any]] = {}

    target: Literal["binary", "rating"] = "binary"
    """What is predicted. binary: 1 for positives, 0 for unlabeled pairs; rating: the ratings in the data."""
    unlabeled_ratio: float = Field(default=4.0, gt=0, le=1000)
    """Unlabeled pairs drawn per positive of a user (binary only)."""

    @model_validator(mode="before")
    @classmethod
    def _defaults_for_ratings(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("target") == "rating":
            return cls.for_ratings | given
        return given


@dataclass(frozen=True, eq=False)
class Targets:
    """Pairs and the values to predict for them."""

    user_idx: I32
    """(n,)"""
    item_idx: I32
    """(n,)"""
    value: F32
    """(n,)"""

    @property
    def mean(self) -> float:
        return float(self.value.mean(dtype=np.float64))


class RatingModel(Recommender):
    """Base of models that predict a number for a pair."""

    config: RatingConfig

    def predict(self, user_idx: npt.ArrayLike, item_idx: npt.ArrayLike) -> F32:
        """(n,) predicted targets of pairs by internal index: ratings, or relevance from 0 to 1."""
        user = indices_of(user_idx, len(self.users), "user")
        item = indices_of(item_idx, len(self.items), "item")
        if user.shape != item.shape:
            raise DataError(f"{len(user):,} users for {len(item):,} items: predict takes pairs")
        return np.clip(self._predict(user, item), self._scale[0], self._scale[1])

    @property
    @abstractmethod
    def _scale(self) -> F32:
        """(3,) the lowest and highest target, and the mean of liked items"""

    @abstractmethod
    def _predict(self, user_idx: I64, item_idx: I64) -> F32:
        """(n,) predictions for pairs, not yet clipped to the scale."""

    def _check_update(self) -> None:
        if self.config.target == "rating":
            raise ConfigError(
                f"{self.name} with target='rating' cannot be updated: a fitted model keeps positives, not the "
                "ratings that it learned from; fit again with all ratings"
            )

    def _layout(self) -> Layout:
        return {"scale": Part((3,))}


def rating_targets(train: Interactions) -> Targets:
    """The ratings of all rows, one for each pair (the last, if there are several)."""
    if train.rating is None:
        fact = f"target='rating' needs ratings, and '{train.name}' has none"
        raise DataError(fact, "use target='binary'", command="use --set target=binary")
    log = train.deduplicate()
    assert log.rating is not None
    return Targets(log.user_idx, log.item_idx, log.rating)


def rating_scale(train: Interactions, targets: Targets | None) -> F32:
    """(3,) lowest, highest and liked: 0, 1, 1 for binary targets."""
    if targets is None:
        return np.array([0, 1, 1], dtype=np.float32)
    assert train.rating is not None
    liked = train.rating[train.is_positive]
    values = targets.value
    return np.array([values.min(), values.max(), (liked if len(liked) else values).mean()], dtype=np.float32)


def positive_targets(positives: Csr) -> Targets:
    return Targets(positives.users, positives.indices, np.ones(len(positives), dtype=np.float32))


def binary_targets(positives: Csr, ratio: float, seed: int) -> Targets:
    """All positives, and about `ratio` unlabeled pairs for each, drawn once."""
    sampler = UnlabeledSampler(positives.indptr, positives.indices, positives.shape[1], full_users="skip")
    picked = np.arange(round(ratio * len(positives))) / ratio  # evenly among the positives, which are sorted by user
    users = positives.users[np.minimum(picked.astype(np.int64), len(positives) - 1)]
    items = sampler.items_for(users, seed=seed)
    free = items >= 0
    drawn = Csr.of(users[free], items[free], positives.shape)  # a pair drawn twice counts as one zero
    value = np.zeros(len(positives) + len(drawn), dtype=np.float32)
    value[: len(positives)] = 1
    return Targets(
        np.concatenate([positives.users, drawn.users]), np.concatenate([positives.indices, drawn.indices]), value
    )


def unlabeled_weight(n_liked: npt.ArrayLike, n_items: int, ratio: float) -> npt.NDArray[np.float64]:
    """How often an unlabeled pair is drawn for a person with this many positives: ratio * liked / (items - liked)."""
    liked = np.asarray(n_liked, dtype=np.float64)
    return ratio * liked / np.maximum(n_items - liked, 1)
