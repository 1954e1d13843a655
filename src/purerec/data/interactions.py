"""Interactions: a frozen log of who touched what, with the vocabularies between external and internal ids.

Every row of the log is kept in its original order, because a split may depend on it. Two compressed views are built
from the rows on demand: `pairs` (everything touched) and `positives` (what counts as a recommendation).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.display.html import interactions_html, sizes_told
from purerec.data.pairs import Csr, freeze, last_of_each_pair
from purerec.data.vocabulary import Id, Vocabulary, as_series, encode, index_of
from purerec.errors import DataError
from purerec.types import F32, I32, I64, Mask

TimeUnit = Literal["s", "ms", "us", "ns"]


def _check_threshold(rating: float | None, name: str) -> None:
    number = isinstance(rating, int | float | np.number) and not isinstance(rating, bool) and np.isfinite(rating)
    if rating is not None and not number:
        raise DataError(f"{name} must be a finite number, not {rating!r}")


@dataclass(frozen=True, eq=False)
class Interactions:
    """A log of interactions, one row each, in the order it was read.

    users, items                  ids by internal index
    n_users, n_items, shape       how many there are
    n_interactions, n_positives   rows; distinct pairs that count as positive
    user_idx, item_idx, rating    (n_interactions,) the columns
    time_unit, name               the unit of `timestamp`; the name of the data in tables
    """

    users: Vocabulary
    items: Vocabulary
    user_idx: I32
    item_idx: I32
    rating: F32 | None = None
    timestamp: I64 | None = None
    """(n_interactions,) in `time_unit` since 1970"""
    time_unit: TimeUnit = "s"
    positive_rating: float | None = None
    """Rows with at least this rating count as positives; None: every row does."""
    item_labels: pl.Series | None = field(default=None, repr=False)
    """(n_items,) titles, null where there is none"""
    name: str = "data"

    def __post_init__(self) -> None:
        n = len(self.user_idx)
        for what, array in (("item", self.item_idx), ("rating", self.rating), ("timestamp", self.timestamp)):
            if array is not None and len(array) != n:
                raise DataError(f"{len(array):,} {what} values for {n:,} users: the columns must be equally long")
        if self.item_labels is not None and len(self.item_labels) != len(self.items):
            raise DataError(f"{len(self.item_labels):,} labels for {len(self.items):,} items")
        if self.positive_rating is not None and self.rating is None:
            raise DataError(
                "a positive_rating needs a rating column, and this data has none",
                "leave it out, or say which column that is with rating='NAME'",
                command="leave --min-rating out, or say which column that is with --rating NAME",
            )
        _check_threshold(self.positive_rating, "positive_rating")
        freeze(self.user_idx, self.item_idx, self.rating, self.timestamp)

    # ------------------------------------------------------------------ content
    def __len__(self) -> int:
        return len(self.user_idx)

    def __repr__(self) -> str:
        return f"Interactions({self.name!r}: {sizes_told(self)}, density {self.density:.3%})"

    _repr_html_ = interactions_html

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def n_interactions(self) -> int:
        return len(self)

    @property
    def n_positives(self) -> int:
        return len(self.positives)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_users, self.n_items

    @property
    def density(self) -> float:
        """Share of all user-item pairs that occur in the log (the paper's 'sparsity')."""
        cells = self.n_users * self.n_items
        return len(self.pairs) / cells if cells else 0.0

    @property
    def is_positive(self) -> Mask:
        """(n,) which rows count as positives."""
        if self.positive_rating is None:
            return np.ones(len(self), dtype=np.bool_)
        assert self.rating is not None
        # Compared in float32: a threshold of 4.1 must include a rating written as 4.1.
        return self.rating >= np.float32(self.positive_rating)

    @cached_property
    def pairs(self) -> Csr:
        """Every pair that occurs, positive or not."""
        return Csr.of(self.user_idx, self.item_idx, self.shape)

    @cached_property
    def positives(self) -> Csr:
        """The pairs that count as positives."""
        if self.positive_rating is None:
            return self.pairs
        mask = self.is_positive
        return Csr.of(self.user_idx[mask], self.item_idx[mask], self.shape)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of everything that a model can learn from."""
        digest = hashlib.sha256(f"{self.shape} {self.positive_rating} {self.time_unit}".encode())
        for ids in (self.users.ids, self.items.ids):
            digest.update(b"int" if ids.dtype == pl.Int64 else b"str")
            digest.update("\0".join(map(str, ids.to_list())).encode())
        for array in (self.user_idx, self.item_idx, self.rating, self.timestamp):
            digest.update(b"|" if array is None else np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def cache(
        self, *, pairs: Csr | None = None, positives: Csr | None = None, fingerprint: str | None = None
    ) -> Self:
        """Store properties that are already known, so that they need not be computed; returns this log."""
        known = {"pairs": pairs, "positives": positives, "fingerprint": fingerprint}
        vars(self).update({name: value for name, value in known.items() if value is not None})
        return self

    def label(self, item_idx: int) -> str:
        """Title of an item, or its id if it has none."""
        item_idx = index_of(item_idx, self.n_items, "item")
        title = None if self.item_labels is None else self.item_labels[item_idx]
        return str(self.items[item_idx]) if title is None else str(title)

    # ------------------------------------------------------------------ derived logs
    def subset(self, rows: npt.NDArray[Any], *, name: str | None = None) -> Interactions:
        """Some of the rows (mask or positions), with the same vocabularies."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        return replace(
            self,
            user_idx=self.user_idx[rows],
            item_idx=self.item_idx[rows],
            rating=None if self.rating is None else self.rating[rows],
            timestamp=None if self.timestamp is None else self.timestamp[rows],
            name=self.name if name is None else name,
        )

    def filter(self, *, min_rating: float) -> Interactions:
        """Rows with at least this rating. The vocabularies are kept; `compact` drops unused ids."""
        if self.rating is None:
            raise DataError(f"cannot filter by rating: '{self.name}' has no rating column")
        _check_threshold(min_rating, "min_rating")
        kept = self.subset(self.rating >= np.float32(min_rating))
        if not len(kept):
            raise DataError(
                f"no interaction is left with rating >= {min_rating:g}: the highest is {self.rating.max():g}; "
                "lower min_rating"
                if len(self)
                else f"'{self.name}' has no interactions"
            )
        return kept

    def with_positives(self, min_rating: float | None) -> Interactions:
        """The same log with a different threshold for positives."""
        data = replace(self, positive_rating=min_rating)
        if min_rating is not None and len(data) and not data.is_positive.any():
            assert data.rating is not None
            raise DataError(
                f"no interaction has a rating >= {min_rating:g}: the highest is {data.rating.max():g}; "
                "lower the rating that counts as positive"
            )
        return data

    def min_per_user(self, n: int) -> Interactions:
        """The log without users who have fewer than n interactions, and without items that only they touched."""
        kept = self.subset(np.bincount(self.user_idx, minlength=self.n_users)[self.user_idx] >= n)
        if not len(kept):
            raise DataError(f"no user has {n} interactions or more; lower min_per_user")
        return kept.compact()

    def k_core(self, k: int) -> Interactions:
        """The largest subset in which every user and every item has at least k interactions."""
        data = self
        while True:
            user_ok = np.bincount(data.user_idx, minlength=data.n_users) >= k
            item_ok = np.bincount(data.item_idx, minlength=data.n_items) >= k
            rows = user_ok[data.user_idx] & item_ok[data.item_idx]
            if rows.all():
                break
            data = data.subset(rows)
        if not len(data):
            raise DataError(f"no interaction is left in the {k}-core; choose a smaller k")
        return data.compact()

    def deduplicate(self, *, keep: Literal["last", "highest"] = "last") -> Interactions:
        """One row per pair: the last one (by timestamp if there is one, then by row), or the highest rated."""
        if len(self.pairs) == len(self):
            return self
        if keep not in ("last", "highest"):
            raise DataError(f"deduplicate keeps 'last' or 'highest', not {keep!r}")
        if keep == "highest" and self.rating is None:
            raise DataError("cannot keep the highest rating: there is no rating column; use keep='last'")
        value = self.rating if keep == "highest" else self.timestamp
        kept = last_of_each_pair(self.user_idx, self.item_idx, self.shape, value)
        return self.subset(kept).cache(pairs=self.pairs)

    def compact(self) -> Interactions:
        """The same rows with vocabularies reduced to the ids that occur in them."""
        used_user = np.bincount(self.user_idx, minlength=self.n_users) > 0
        used_item = np.bincount(self.item_idx, minlength=self.n_items) > 0
        if used_user.all() and used_item.all():
            return self
        new_user = np.cumsum(used_user, dtype=np.int32) - np.int32(1)
        new_item = np.cumsum(used_item, dtype=np.int32) - np.int32(1)
        return replace(
            self,
            users=Vocabulary(self.users.take(np.flatnonzero(used_user)), "user"),
            items=Vocabulary(self.items.take(np.flatnonzero(used_item)), "item"),
            user_idx=new_user[self.user_idx],
            item_idx=new_item[self.item_idx],
            item_labels=None if self.item_labels is None else self.item_labels.gather(np.flatnonzero(used_item)),
        )

    def with_labels(self, labels: dict[str, str]) -> Interactions:
        """The same log with item titles, by external id as text; other items have no title."""
        table = pl.DataFrame(
            {"id": list(labels), "label": list(labels.values())}, schema={"id": pl.String, "label": pl.String}
        )
        ids = self.items.ids.cast(pl.String).alias("id").to_frame()
        joined = ids.join(table.unique("id", keep="first"), on="id", how="left", maintain_order="left")
        return replace(self, item_labels=joined["label"])

    # ------------------------------------------------------------------ building
    @classmethod
    def from_columns(
        cls,
        user: pl.Series | npt.NDArray[Any] | Sequence[Id],
        item: pl.Series | npt.NDArray[Any] | Sequence[Id],
        *,
        rating: npt.ArrayLike | None = None,
        timestamp: npt.ArrayLike | None = None,
        time_unit: TimeUnit = "s",
        positive_rating: float | None = None,
        name: str = "data",
    ) -> Interactions:
        """Build from columns of external ids, already checked (`purerec.data.readers` checks files and tables)."""
        users, user_idx = encode(as_series(user, "user"), "user")
        items, item_idx = encode(as_series(item, "item"), "item")
        for vocabulary, idx in ((users, user_idx), (items, item_idx)):
            if (at := vocabulary.first_unusable(idx)) is not None:
                raise DataError(
                    f"row {at} has the {vocabulary.what} {vocabulary[idx[at]]!r}, which is not a valid id; fix it"
                )
        return cls(
            users,
            items,
            user_idx,
            item_idx,
            None if rating is None else np.array(rating, dtype=np.float32),
            None if timestamp is None else np.array(timestamp, dtype=np.int64),
            time_unit,
            positive_rating,
            name=name,
        )
