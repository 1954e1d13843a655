"""From pieces to the files of a data set, part by part: one vocabulary of users, one of items, and the rows."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.interactions import TimeUnit
from purerec.data.large.dataset import DatasetFacts, part_name, summary, time_units
from purerec.data.picking import UNITS_PER_SECOND
from purerec.storage.ingest.spilling import SIDES, IdKind, Piece

MergeProgress = Callable[[int, int], None]
"""Called with the amount done and the total"""


def merge(pieces: Sequence[Piece], n_parts: int, out: Path, *, name: str, progress: MergeProgress) -> DatasetFacts:
    """Write the files of a data set, with only one part in memory at a time."""
    steps = 3 * n_parts
    with tempfile.TemporaryFile(dir=out) as users, tempfile.TemporaryFile(dir=out) as items:
        numbers = {side: _numbers(pieces, side, file) for side, file in zip(SIDES, (users, items), strict=True)}
        digests: dict[str, str] = {}
        sizes: dict[IdKind, list[int]] = {side: [] for side in SIDES}
        for part in range(n_parts):
            for side in SIDES:
                ids = _merge_ids(pieces, side, part, sum(sizes[side]), numbers[side])
                digests |= _write(ids, out / part_name("users" if side == "user" else "items", part))
                sizes[side].append(len(ids))
            progress(2 * part + 2, steps)
        unit = max((piece.time_unit for piece in pieces), key=time_units().index)
        part_rows = []
        for part in range(n_parts):
            rows = _merge_rows(pieces, part, numbers, unit)
            digests |= _write(rows, out / part_name("part", part))
            part_rows.append(len(rows))
            progress(2 * n_parts + part + 1, steps)
    return DatasetFacts(
        name=name,
        rows=sum(part_rows),
        part_rows=part_rows,
        part_users=sizes["user"],
        piece_items=sizes["item"],
        has_rating="rating" in pieces[0].facts["columns"],
        has_timestamp="timestamp" in pieces[0].facts["columns"],
        has_titles=any(piece.facts["titles"] for piece in pieces),
        time_unit=unit,
        fingerprint=summary({"files": digests, "time_unit": unit}),
        sha256=digests,
    )


class _Numbers:
    """The number of every id of every piece in the whole vocabulary, stored in a file."""

    def __init__(self, all_of_them: npt.NDArray[np.int32], starts: Sequence[int]) -> None:
        self._all, self._starts = all_of_them, starts

    def of(self, piece: int) -> npt.NDArray[np.int32]:
        return self._all[self._starts[piece] : self._starts[piece + 1]]


def _numbers(pieces: Sequence[Piece], side: IdKind, file: Any) -> _Numbers:
    starts = np.cumsum([0, *(piece.n_ids(side) for piece in pieces)]).tolist()
    return _Numbers(np.memmap(file, dtype=np.int32, mode="w+", shape=(starts[-1],)), starts)


def _merge_ids(pieces: Sequence[Piece], side: IdKind, part: int, first: int, numbers: _Numbers) -> pl.DataFrame:
    """Return the ids of a part, unique and sorted; record their numbers, starting from `first`."""
    tables = [piece.ids(side, part) for piece in pieces]
    if not all(piece.facts["integers"][side] for piece in pieces):  # a single non-numeric id makes all of them text
        tables = [table.with_columns(pl.col("id").cast(pl.String)) for table in tables]
    whole = pl.concat(tables, how="diagonal")
    if not len(whole):
        return whole
    rank = whole["id"].rank("dense").to_numpy().astype(np.int32)
    rank += first - 1
    done = 0
    for at, (piece, table) in enumerate(zip(pieces, tables, strict=True)):
        numbers.of(at)[piece.span(side, part)] = rank[done : done + len(table)]
        done += len(table)
    if "label" in whole.columns:  # use the first of several titles
        return whole.group_by("id").agg(pl.col("label").drop_nulls().first()).sort("id")
    return whole.unique().sort("id")


def _merge_rows(pieces: Sequence[Piece], part: int, numbers: dict[IdKind, _Numbers], unit: TimeUnit) -> pl.DataFrame:
    """The rows of a part in the order of the files."""
    tables, before = [], 0
    for at, piece in enumerate(pieces):
        rows = piece.part(part)
        columns: dict[str, Any] = {side: numbers[side].of(at)[rows[side].to_numpy()] for side in SIDES}
        columns |= {name: rows[name] for name in piece.facts["columns"]}
        if "timestamp" in columns:
            columns["timestamp"] = rows["timestamp"] * (UNITS_PER_SECOND[unit] // UNITS_PER_SECOND[piece.time_unit])
        columns["row"] = rows["row"].cast(pl.Int64) + before
        tables.append(pl.DataFrame(columns))
        before += piece.rows
    return pl.concat(tables)


def _write(table: pl.DataFrame, path: Path) -> dict[str, str]:
    """Write a file; return its name and checksum."""
    table.write_parquet(path, compression="zstd", compression_level=1, statistics=False)
    with path.open("rb") as file:
        return {path.name: hashlib.file_digest(file, "sha256").hexdigest()}
