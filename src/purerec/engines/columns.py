"""The columns of a wide matrix that a step uses: those of its own rows, and a sample of the others.

A network with an output for each of n columns costs n per row, however short the row is. All columns that occur in a
row of the step are kept; of the others, each sampled one stands for several. Sums over all columns are then unbiased,
and the cost of a step does not grow with the width of the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from purerec.types import F32, I64


class Columns(NamedTuple):
    """The columns of one step, and its rows on these columns."""

    chosen: I64 | None
    """Their indices in ascending order; None: all columns"""
    stands_for: F32
    """The number of columns that each stands for"""
    begins: I64
    places: I64
    """The entries of row r are at places[begins[r] : begins[r + 1]], as positions in `chosen`"""


def choose_columns(rows: scipy.sparse.csr_array, most: int, rng: np.random.Generator) -> Columns:
    """The columns of these rows, and at most `most` others."""
    n = rows.shape[1]
    begins, entries = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
    is_chosen = np.zeros(n, dtype=np.bool_)
    is_chosen[entries] = True
    others = np.flatnonzero(~is_chosen)
    if len(others) <= most:
        return Columns(None, np.ones(n, np.float32), begins, entries)
    sampled = rng.choice(others, most, replace=False, shuffle=False)
    is_chosen[sampled] = True
    chosen = np.flatnonzero(is_chosen)
    place = np.cumsum(is_chosen) - 1
    stands_for = np.ones(len(chosen), np.float32)
    stands_for[place[sampled]] = len(others) / max(1, most)
    return Columns(chosen, stands_for, begins, place[entries])
