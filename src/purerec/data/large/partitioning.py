"""Assigns users to parts of a data set.

The part is the CRC-32 of the id as UTF-8 text, modulo the number of parts. It depends on nothing else, neither other
ids nor library versions, and other programs can compute it too (Spark and PostgreSQL have a crc32).
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.types import I32

_AT_ONCE = 1 << 20

PartNumbers = npt.NDArray[np.uint16]
"""The part of each user or row"""


def parts_of(ids: pl.Series, n_parts: int) -> I32:
    """(len(ids),) the part of each id, from 0; the same for 7 and '7'."""
    found = np.empty(len(ids), dtype=np.int32)
    for start in range(0, len(ids), _AT_ONCE):
        texts = ids.slice(start, _AT_ONCE).cast(pl.String).cast(pl.Binary).to_list()
        sums = np.fromiter(map(zlib.crc32, texts), dtype=np.uint32, count=len(texts))
        found[start : start + len(texts)] = sums % np.uint32(n_parts)
    return found
