"""Checks of internal indices that come from outside: whole numbers in range, never negative or rounded."""

from __future__ import annotations

from typing import Any

import numpy as np

from purerec.errors import DataError
from purerec.types import I64


def indices_of(given: Any, n: int, what: str) -> I64:
    """(len(given),) indices of users or items, each from 0 to n - 1."""
    found = whole_numbers(given, what)
    if len(found) and (found.min() < 0 or found.max() >= n):
        bad = found[(found < 0) | (found >= n)][0]
        raise DataError(f"{what} indices must be from 0 to {n - 1}, not {bad}")
    return found


def index_of(given: Any, n: int, what: str) -> int:
    """One index."""
    found = indices_of(given, n, what)
    if np.ndim(given):
        raise DataError(f"one {what} index is needed, not {len(found)} in a list")
    return int(found[0])


def whole_numbers(given: Any, what: str) -> I64:
    """(len(given),) whole numbers, for indices whose range is not known yet."""
    try:
        found = np.asarray(given)
    except ValueError:  # lists of different lengths
        found = np.empty((0, 0))
    if found.ndim > 1:
        raise DataError(f"{what} indices must be a number or a flat list of them, not {_shown(given)}")
    if not found.size:
        return np.zeros(0, dtype=np.int64)
    if found.dtype.kind not in "iu" or found.max() >= 2**63 or _has_bools(given):
        raise DataError(f"{what} indices must be whole numbers of 64 bits, not {_shown(given)}")
    return np.ascontiguousarray(np.atleast_1d(found), dtype=np.int64)


def _has_bools(given: Any) -> bool:
    """numpy would take True in a list of numbers for 1."""
    return isinstance(given, list | tuple) and any(isinstance(value, bool | np.bool_) for value in given)


def _shown(given: Any) -> str:
    text = " ".join(repr(given).split())
    return text if len(text) <= 80 else text[:77] + "..."
