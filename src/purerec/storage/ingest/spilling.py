"""One piece of a file on disk: its rows and ids, sorted by part.

Ids are stored once per piece, and rows refer to them by number, so rows are never sorted or joined by text.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from purerec.data.interactions import Interactions, TimeUnit
from purerec.data.large.chunks import Position
from purerec.data.large.partitioning import PartNumbers, parts_of
from purerec.data.vocabulary import Vocabulary
from purerec.storage.folders import write_folder
from purerec.storage.manifests import read_manifest
from purerec.types import I32, I64

PIECE = "piece"
"""The kind of folder"""
IdKind = Literal["user", "item"]
SIDES: tuple[IdKind, IdKind] = ("user", "item")


@dataclass(frozen=True)
class Piece:
    """Rows of a file on disk."""

    folder: Path
    facts: dict[str, Any]

    @property
    def rows(self) -> int:
        return int(self.facts["starts"]["rows"][-1])

    @property
    def end(self) -> Position:
        return Position(**self.facts["end"])

    @property
    def time_unit(self) -> TimeUnit:
        unit: TimeUnit = self.facts["time_unit"]
        return unit

    def n_ids(self, side: IdKind) -> int:
        return int(self.facts["starts"][side][-1])

    def span(self, what: str, part: int) -> slice:
        """The position of a part's rows or ids."""
        start, end = self.facts["starts"][what][part : part + 2]
        return slice(start, end)

    def ids(self, side: IdKind, part: int) -> pl.DataFrame:
        """The ids of a part as text or numbers (for items, with their titles if there are any)."""
        return self._table(side, part)

    def part(self, part: int) -> pl.DataFrame:
        """The rows of a part; ids are numbers within this piece."""
        return self._table("rows", part)

    def _table(self, what: str, part: int) -> pl.DataFrame:
        start, end = self.facts["bytes"][what][part : part + 2]
        with (self.folder / f"{what}.arrow").open("rb") as file:
            file.seek(start)
            return pl.read_ipc(io.BytesIO(file.read(end - start)))


def read_piece(folder: Path) -> Piece:
    return Piece(folder, read_manifest(folder, kind=PIECE)["piece"])


def spill(data: Interactions, folder: Path, n_parts: int, **facts: Any) -> Piece:
    """Write a piece, either completely or not at all."""
    users, user_part, user_number, user_starts = _by_part(data.users, n_parts)
    items, _, item_number, item_starts = _by_part(data.items, n_parts)
    if data.item_labels is not None:
        items = items.with_columns(label=data.item_labels.gather(np.argsort(item_number)))
    user_idx = user_number[data.user_idx]
    part = user_part[data.user_idx]
    order = np.argsort(part, kind="stable")  # a counting sort, as there are few parts
    columns: dict[str, Any] = {"user": user_idx[order], "item": item_number[data.item_idx][order]}
    if data.rating is not None:
        columns["rating"] = data.rating[order]
    if data.timestamp is not None:
        columns["timestamp"] = data.timestamp[order]
    columns["row"] = order.astype(np.int32)
    starts = {"rows": _starts(part, n_parts), "user": user_starts, "item": item_starts}
    tables = {"rows": pl.DataFrame(columns), "user": users, "item": items}
    packed = {name: _packed(table, starts[name]) for name, table in tables.items()}
    about = {
        **facts,
        "starts": {name: found.tolist() for name, found in starts.items()},
        "bytes": {name: ends for name, (_, ends) in packed.items()},
        "integers": {vocabulary.what: vocabulary.is_integer for vocabulary in (data.users, data.items)},
        "time_unit": data.time_unit,
        "columns": [name for name in ("rating", "timestamp") if name in columns],
        "titles": data.item_labels is not None,
    }
    files = {f"{name}.arrow": content for name, (content, _) in packed.items()}
    write_folder(folder, kind=PIECE, manifest={"piece": about}, tensors={}, files=files)
    return Piece(folder, about)


def _by_part(vocabulary: Vocabulary, n_parts: int) -> tuple[pl.DataFrame, PartNumbers, I32, I64]:
    """The ids by part; the part and new number of each original id; and where each part starts."""
    part = parts_of(vocabulary.ids, n_parts).astype(np.uint16)
    order = np.argsort(part, kind="stable")
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return pl.DataFrame({"id": vocabulary.ids.gather(order)}), part, number, _starts(part, n_parts)


def _starts(part: PartNumbers, n_parts: int) -> I64:
    return np.concatenate([[0], np.cumsum(np.bincount(part, minlength=n_parts))]).astype(np.int64)


def _packed(table: pl.DataFrame, starts: I64) -> tuple[bytes, list[int]]:
    """The parts of a table, concatenated as separate tables, and where each starts."""
    buffer, places = io.BytesIO(), [0]
    for start, end in pairwise(starts.tolist()):
        own = io.BytesIO()
        table[start:end].write_ipc(own, compression="uncompressed")
        buffer.write(own.getvalue())
        places.append(buffer.tell())
    return buffer.getvalue(), places
