"""A fitted model with more users and items than it knows, for instance if the test part is from a later time.

A new user gets what the model recommends to somebody unknown: popular items. A new item ranks after all others, since
the model cannot recommend it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.splits import Split
from purerec.data.vocabulary import Vocabulary
from purerec.evaluation.leakage import Fitted
from purerec.ranking.scorers import Factors, as_scorer, precision_of
from purerec.types import F32, I64


class Widened:
    """A model addressed by the internal indices of larger vocabularies."""

    def __init__(self, model: Fitted, users: Vocabulary, items: Vocabulary, user_at: I64, item_at: I64) -> None:
        self._scorer = as_scorer(model)
        self.name, self.users, self.items = self._scorer.name, users, items
        self._item_at = item_at
        self._known_as = np.full(len(users), -1, dtype=np.int64)
        self._known_as[user_at] = np.arange(len(user_at))
        self._popularity = model.seen.item_counts.astype(np.float32)

        def placed(pairs: Csr) -> Csr:
            return Csr.of(user_at[pairs.users], item_at[pairs.indices], (len(users), len(items)))

        self.seen = placed(model.seen)
        stopped_by: Csr | None = getattr(model, "stopped_by", None)
        self.stopped_by = None if stopped_by is None else placed(stopped_by)

    def score(self, user_idx: Any, /) -> F32:
        mine = self._known_as[np.asarray(user_idx)]
        known = mine >= 0
        found = np.tile(self._popularity, (len(mine), 1))
        if known.any():
            scores = np.asarray(self._scorer.score(mine[known]))
            found = found.astype(precision_of(scores), copy=False)
            found[known] = scores
        last = np.nextafter(found.min(axis=1, keepdims=True), np.float32(-np.inf))
        wide = np.tile(last, (1, len(self.items)))
        wide[:, self._item_at] = found
        return wide

    def factors(self) -> Factors | None:
        return None


def widened(model: Any, split: Split, part: Interactions) -> Any:
    """The model with the vocabularies of a part of the split, if it was fitted on interactions of this data.

    A model that already has them, or does not give its own, is returned as is; so is a model of other data, for which
    `check_unseen` raises an error.
    """
    if not isinstance(model, Fitted) or (model.users == part.users and model.items == part.items):
        return model
    user_at, item_at = _places(model.users, part.users), _places(model.items, part.items)
    if user_at is None or item_at is None:
        return model
    wide = Widened(model, part.users, part.items, user_at, item_at)
    whole = split.full_train.pairs.union(split.test.pairs)
    return wide if wide.seen.overlap(whole) == len(wide.seen) else model


def _places(own: Vocabulary, wide: Vocabulary) -> I64 | None:
    """The position of each id in the larger vocabulary, where integers may be text; None if one is missing."""
    ids = own.ids.cast(pl.String) if own.is_integer and not wide.is_integer else own.ids
    if ids.dtype != wide.ids.dtype:
        return None
    table = pl.DataFrame({"id": wide.ids, "at": np.arange(len(wide), dtype=np.int64)})
    at = ids.alias("id").to_frame().join(table, on="id", how="left", maintain_order="left")["at"]
    return None if at.null_count() else at.to_numpy()
