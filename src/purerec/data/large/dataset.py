"""A data set in parts, as `purerec ingest` writes it: a folder on this machine or anywhere that fsspec supports.

    manifest.json          what is in it, and the sha256 of every file
    users-00000.parquet    the ids of the users of part 0, sorted; a user's number is the position among all parts
    items-00000.parquet    ids of items (and titles), likewise, in as many pieces
    part-00000.parquet     the rows of these users in their order: user, item (numbers), rating, timestamp, row

A user and all of their rows are in one part (`partitioning`), so a worker only needs to read its own parts.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from purerec.data.interactions import Interactions, TimeUnit
from purerec.data.large.places import Place
from purerec.data.memory import available_mb
from purerec.data.text.contents import reason
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError, ReadError, first_problem
from purerec.types import I32

DATASET = "dataset"
"""The kind of folder"""
_MANIFEST = "manifest.json"
_IN_MEMORY = 60
"""Bytes per row while a whole data set is read"""


def part_name(kind: Literal["users", "items", "part"], number: int) -> str:
    return f"{kind}-{number:05d}.parquet"


class DatasetFacts(BaseModel):
    """The facts about a data set in its manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    rows: PositiveInt
    part_rows: list[NonNegativeInt]
    """Rows of each part"""
    part_users: list[NonNegativeInt]
    """Users of each part"""
    piece_items: list[NonNegativeInt]
    """Items of each piece of their vocabulary"""
    has_rating: bool
    has_timestamp: bool
    has_titles: bool
    time_unit: Literal["s", "ms", "us", "ns"]
    fingerprint: str
    """sha256 of the checksums of all files"""
    sha256: dict[str, str]
    """Of each file"""


@dataclass(frozen=True)
class Dataset:
    """A data set in parts."""

    place: Place
    facts: DatasetFacts

    @classmethod
    def open(cls, place: Place) -> Self | None:
        """The data set in a folder; None if there is none."""
        if _MANIFEST not in (place.names() or ()):
            return None
        try:
            manifest = json.loads((place / _MANIFEST).read())
            kind, facts = manifest["kind"], manifest.get("data")
            digest = manifest.pop("manifest_sha256")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReadError(f"{place}: {_MANIFEST} is damaged ({reason(error)}); ingest the data again") from None
        if kind != DATASET:
            raise ReadError(f"{place} holds a {kind!r}, not a data set; give a folder written by `purerec ingest`")
        whole = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
        try:
            if hashlib.sha256(whole).hexdigest() != digest:
                raise ReadError(f"{place}: {_MANIFEST} is damaged (its checksum differs); ingest the data again")
            return cls(place, DatasetFacts.model_validate(facts))
        except ValidationError as error:
            raise ReadError(f"{place}: {_MANIFEST} is damaged ({first_problem(error)}); ingest again") from None

    @property
    def n_parts(self) -> int:
        return len(self.facts.part_rows)

    @property
    def n_users(self) -> int:
        return sum(self.facts.part_users)

    @property
    def n_items(self) -> int:
        return sum(self.facts.piece_items)

    def first_user(self, part: int) -> int:
        """The number of the first user of a part."""
        return sum(self.facts.part_users[:part])

    def rows(self, part: int) -> pl.DataFrame:
        """The rows of a part."""
        return self._table(part_name("part", part))

    def users(self, parts: Sequence[int] | None = None) -> pl.Series:
        """The ids of the users of some parts, or of all, in the order of their numbers."""
        return _joined([self._table(part_name("users", n))["id"] for n in self._parts(parts)])

    def items(self) -> pl.DataFrame:
        """The ids of all items in the order of their numbers (and titles)."""
        pieces = [self._table(part_name("items", n)) for n in range(len(self.facts.piece_items))]
        return pl.concat([piece for piece in pieces if len(piece)])

    def titles(self, items: pl.DataFrame, places: I32) -> pl.Series:
        """The titles of all items, each at its place."""
        empty = pl.select(pl.repeat(None, len(items), dtype=pl.String)).to_series()
        return empty.scatter(places, items["label"])

    def read(self, *, name: str | None = None) -> Interactions:
        """The whole data set in memory: exactly what `read` returns for the files it was ingested from."""
        facts = self.facts
        _check_room(self)
        users, user_place = sorted_ids(self.users())
        item_table = self.items()
        items, item_place = sorted_ids(item_table["id"])
        user_idx, item_idx = (np.empty(facts.rows, dtype=np.int32) for _ in range(2))
        rating = np.empty(facts.rows, dtype=np.float32) if facts.has_rating else None
        timestamp = np.empty(facts.rows, dtype=np.int64) if facts.has_timestamp else None
        for part in range(self.n_parts):
            rows = self.rows(part)
            at = rows["row"].to_numpy()
            user_idx[at], item_idx[at] = user_place[rows["user"].to_numpy()], item_place[rows["item"].to_numpy()]
            if rating is not None:
                rating[at] = rows["rating"].to_numpy()
            if timestamp is not None:
                timestamp[at] = rows["timestamp"].to_numpy()
        titles = self.titles(item_table, item_place) if facts.has_titles else None
        return Interactions(
            Vocabulary(users, "user"),
            Vocabulary(items, "item"),
            user_idx,
            item_idx,
            rating,
            timestamp,
            facts.time_unit,
            item_labels=titles,
            name=name or facts.name,
        )

    def read_parts(self, parts: Sequence[int], *, positive_rating: float | None = None) -> Interactions:
        """Some parts: their users, numbered from 0 in the order of the parts; all items keep their numbers."""
        first = np.cumsum([0, *(self.facts.part_users[part] for part in parts)])
        tables = [
            self.rows(part).with_columns(pl.col("user") - (self.first_user(part) - int(start)))
            for part, start in zip(parts, first[:-1], strict=True)
        ]
        rows = pl.concat(tables)
        return Interactions(
            Vocabulary(self.users(parts), "user"),
            Vocabulary(self.items()["id"], "item"),
            rows["user"].cast(pl.Int32).to_numpy(),
            rows["item"].to_numpy(),
            rows["rating"].to_numpy() if self.facts.has_rating else None,
            rows["timestamp"].to_numpy() if self.facts.has_timestamp else None,
            self.facts.time_unit,
            positive_rating,
            name=self.facts.name,
        )

    def _parts(self, parts: Sequence[int] | None) -> Sequence[int]:
        return range(self.n_parts) if parts is None else parts

    def _table(self, name: str) -> pl.DataFrame:
        content = (self.place / name).read()
        if hashlib.sha256(content).hexdigest() != self.facts.sha256.get(name):
            raise ReadError(
                f"{self.place / name}: is damaged (its checksum differs from the manifest's); copy or ingest it again"
            )
        return pl.read_parquet(io.BytesIO(content))


def _joined(ids: list[pl.Series]) -> pl.Series:
    return pl.concat([part for part in ids if len(part)])


def sorted_ids(ids: pl.Series) -> tuple[pl.Series, I32]:
    """The ids sorted, and (len(ids),) where each is now."""
    order = ids.arg_sort()
    places = np.empty(len(ids), dtype=np.int32)
    places[order.to_numpy()] = np.arange(len(ids), dtype=np.int32)
    return ids.gather(order), places


def _check_room(data: Dataset) -> None:
    free, needed = available_mb(), data.facts.rows * _IN_MEMORY / 2**20
    if free is not None and needed > free:
        raise DataError(
            f"{data.place}: {data.facts.rows:,} rows take some {needed / 1024:.1f} GB in memory, and only "
            f"{free / 1024:.1f} GB are free; fit with several workers, or on a larger machine"
        )


def time_units() -> tuple[TimeUnit, ...]:
    """From coarse to fine."""
    return "s", "ms", "us", "ns"


def summary(facts: dict[str, Any]) -> str:
    """The fingerprint: a digest of the checksums of all files."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
