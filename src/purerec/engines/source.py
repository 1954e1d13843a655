"""Where an engine gets its positives from: all of them, or one worker's share.

An engine only uses what its source has, so a worker with some of the users, or with a block of the items, runs the
same engine as a process that has everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from purerec.data.pairs import Csr
from purerec.errors import DataError
from purerec.types import I64


class DataSource(Protocol):
    """The positives of some users and items, both numbered from 0 within this source."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_users, n_items): an engine has parameters for all of them. Known without reading any positives."""

    def positives(self) -> Csr:
        """All positives, as one matrix of this shape."""

    def part(self, *, user_idx: I64 | None = None, items: range | None = None) -> DataSource:
        """A source of these users only, or of a block of items only, numbered from 0 again."""


def check_learnable(positives: Csr) -> None:
    """Refuse a log without positives, or without anything unobserved to compare them with."""
    degree, n_items = positives.counts, positives.shape[1]
    if not len(positives):
        raise DataError("there is no positive to learn from; give at least one interaction")
    if not np.any((degree > 0) & (degree < n_items)):
        raise DataError(
            f"every user has touched none or all of the {n_items:,} items, so there is nothing unobserved to compare "
            "with; use data with more items"
        )


@dataclass(frozen=True)
class MemorySource:
    """Positives in memory."""

    matrix: Csr

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def positives(self) -> Csr:
        return self.matrix

    def part(self, *, user_idx: I64 | None = None, items: range | None = None) -> MemorySource:
        n_users, n_items = self.shape
        rows = np.arange(n_users) if user_idx is None else np.asarray(user_idx, dtype=np.int64)
        block = range(n_items) if items is None else items
        if rows.size and (rows.min() < 0 or rows.max() >= n_users):
            raise DataError(f"user indices of a part must lie in range({n_users})")
        if block.step != 1 or block.start < 0 or block.stop > n_items:
            raise DataError(f"{block} is not a block of {n_items} items")
        row_of = np.full(n_users, -1, dtype=np.int64)
        row_of[rows] = np.arange(rows.size)
        user, item = row_of[self.matrix.users], self.matrix.indices
        inside = (user >= 0) & (item >= block.start) & (item < block.stop)
        return MemorySource(Csr.of(user[inside], item[inside] - block.start, (rows.size, len(block))))
