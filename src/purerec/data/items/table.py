"""The table of items: their columns, aligned with the items of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from purerec.data.items.columns import CellValue, Column, Numbers, Tags, Words
from purerec.data.items.conditions import SIGNS, no_column
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError
from purerec.types import F32, I64

MOST_COLUMNS = 64
LONGEST_NAME = 100
LONGEST_CELL = 8_192
"""In characters: enough for a small image as a data: URL"""
IMAGES = ("image", "imageurl", "img", "poster", "picture", "thumbnail", "cover")
_DECILES = np.linspace(0, 1, 11)[1:-1]


@dataclass(frozen=True, eq=False)
class ItemTable:
    """A row for each item. For a model: first its own items, in order, then those not in training."""

    ids: pl.Series
    """(n,) integers or text, each once"""
    columns: Mapping[str, Column]
    titles: pl.Series | None = field(default=None, repr=False)
    """(n,) null if missing"""
    n_warm: int = 0
    """The number of rows, at the start, that are items of the model; 0 before alignment with one"""

    def __post_init__(self) -> None:
        if len(self.columns) > MOST_COLUMNS:
            raise DataError(f"an item table has up to {MOST_COLUMNS} columns, not {len(self.columns)}")
        for name, column in self.columns.items():
            if not name.strip() or len(name) > LONGEST_NAME or set(name) & set(SIGNS) or not name.isprintable():
                raise DataError(
                    f"column {name[:LONGEST_NAME]!r} of the item table cannot be used in conditions; give it a name "
                    f"of up to {LONGEST_NAME} printable characters without {' '.join(SIGNS)}"
                )
            if len(column) != len(self.ids):
                raise DataError(f"column {name!r} of the item table has {len(column):,} rows, not {len(self.ids):,}")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name} ({column.kind})" for name, column in self.columns.items())
        return f"ItemTable({len(self):,} items: {kinds or 'no columns'})"

    @property
    def n_cold(self) -> int:
        """The number of items not in training."""
        return len(self) - self.n_warm

    def column(self, name: str) -> Column:
        """A column by its name, ignoring case."""
        if name in self.columns:
            return self.columns[name]
        same = [known for known in self.columns if known.casefold() == name.casefold()]
        if len(same) != 1:
            raise no_column(name, list(self.columns))
        return self.columns[same[0]]

    def row(self, row: int, names: Sequence[str] | None = None) -> dict[str, CellValue]:
        """The values of an item, without missing ones."""
        chosen = self.columns if names is None else {name: self.column(name) for name in names}
        cells = {name: column.cell(row) for name, column in chosen.items()}
        return {name: cell for name, cell in cells.items() if cell is not None}

    @property
    def image(self) -> str | None:
        """The column with images, recognised by its name."""
        plain = {name.replace("_", "").replace("-", "").replace(" ", "").lower(): name for name in self.columns}
        found = (plain[name] for name in IMAGES if name in plain)
        return next((name for name in found if isinstance(self.columns[name], Words)), None)

    def check_knows(self, items: Vocabulary) -> None:
        """Raise an error for a table of other things, or with ids written differently."""
        theirs = items.ids.cast(pl.String)
        if len(items) and not self.ids.cast(pl.String).is_in(theirs.implode()).any():
            mine = ", ".join(map(repr, self.ids.head(2).to_list()))
            some = ", ".join(map(repr, items.ids.head(2).to_list()))
            raise DataError(
                f"no id in the item table is in the data: it has {mine or 'none'}, and the data has {some}"
                "; write them as in the data"
            )

    def aligned(self, items: Vocabulary) -> ItemTable:
        """The rows of these items, in their order, then all others; an item without a row has an empty one."""
        own = {str(external): n for n, external in enumerate(self.ids.to_list())}
        warm = [own.pop(str(external), -1) for external in items.ids.to_list()]
        cold = sorted(own.values())
        rows = np.array(warm + cold, dtype=np.int64)
        as_text = self.ids.cast(pl.String)
        more = as_text.gather(np.array(cold, dtype=np.int64)).alias("id")
        if items.is_integer and more.str.contains(r"^-?\d{1,18}$").all():
            ids = pl.concat([items.ids.alias("id"), more.cast(pl.Int64)])
        else:
            ids = pl.concat([items.ids.cast(pl.String).alias("id"), more])
        titles = self.titles
        if titles is not None:
            there = pl.Series(rows).replace(-1, None)
            titles = titles.gather(there)
        return ItemTable(ids, {name: column.take(rows) for name, column in self.columns.items()}, titles, len(items))

    @cached_property
    def content(self) -> Any:
        """(n, n_features) sparse: features of the items. Tags, words (except texts that are unique to most items) and
        deciles of numbers, with more weight on rare ones; rows have unit length."""
        from scipy.sparse import csr_array, diags_array, hstack

        parts = []
        for name, column in self.columns.items():
            grouped = _tenths(column) if isinstance(column, Numbers) else column
            if name == self.image or not isinstance(grouped, Words | Tags):
                continue
            starts, codes = grouped.groups()
            if not len(codes) or (isinstance(grouped, Words) and len(grouped.words) > len(self) / 2):
                continue
            ones = np.ones(len(codes), dtype=np.float32)
            parts.append(csr_array((ones, codes, starts), shape=(len(self), max(len(grouped.words), 1))))
        if not parts:
            return csr_array((len(self), 1), dtype=np.float32)
        together = csr_array(hstack(parts))
        weight = np.log1p(len(self) / np.maximum(together.sum(axis=0), 1)).astype(np.float32)
        weighted = together @ diags_array(weight)
        length = np.sqrt((weighted * weighted).sum(axis=1))
        return csr_array(diags_array((1 / np.maximum(length, 1e-12)).astype(np.float32)) @ weighted)

    def like(self, own: I64, rows: I64) -> F32:
        """(len(rows),) the similarity of these items to `own`, by their columns: from 0 to 1"""
        profile = np.asarray(self.content[own].sum(axis=0)).ravel()
        length = float(np.linalg.norm(profile))
        if not length:
            return np.zeros(len(rows), dtype=np.float32)
        found: F32 = (self.content[rows] @ (profile / length)).astype(np.float32)
        return found


def _tenths(column: Numbers) -> Words:
    there = ~np.isnan(column.values)
    codes = np.full(len(column), -1, dtype=np.int32)
    if there.any():
        bounds = np.unique(np.quantile(column.values[there], _DECILES))
        codes[there] = np.searchsorted(bounds, column.values[there], side="right")
    return Words(codes, tuple(f"{n:02}" for n in range(10)))
