"""Checks that tensors have the shapes and values that the code using them relies on.

A checksum shows that a file is what was written, not that it makes sense. Compiled code does not check its indices:
without the checks here, it could read anywhere in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from purerec.errors import StoreError
from purerec.types import Array

Tensors = dict[str, Array]


@dataclass(frozen=True)
class Part:
    """What a tensor must look like."""

    shape: tuple[int | str, ...]
    """Numbers, or names of sizes; '2*dim' is twice `dim`. Unknown sizes are taken from the first tensor with them."""
    dtype: type[np.generic] = np.float32


Layout = Mapping[str, Part]


def check_layout(tensors: Mapping[str, Array], layout: Layout, sizes: Mapping[str, int]) -> None:
    """Raise an error unless the tensors are exactly those of the layout, with these shapes and finite floats."""
    if odd := sorted(set(layout) ^ set(tensors)):
        what = "is missing" if odd[0] in layout else "is not known"
        raise StoreError(f"tensor {odd[0]!r} {what}")
    known = dict(sizes)
    for name, part in layout.items():
        check_part(name, tensors[name], part, known)


def check_part(name: str, array: Array, part: Part, sizes: dict[str, int]) -> None:
    """Check one tensor; add sizes that were not known before."""
    if array.dtype != part.dtype:
        raise StoreError(f"tensor {name!r} has {array.dtype} numbers, not {np.dtype(part.dtype)}")
    if array.ndim == len(part.shape):
        for size, found in zip(part.shape, array.shape, strict=True):
            if isinstance(size, str) and "*" not in size:
                sizes.setdefault(size, found)
    expected = tuple(_size(size, sizes) for size in part.shape)
    if array.shape != expected:
        raise StoreError(f"tensor {name!r} has shape {array.shape}, not {expected}")
    check_finite(name, array)


def _size(size: int | str, sizes: Mapping[str, int]) -> int | None:
    if isinstance(size, int):
        return size
    times, _, name = size.rpartition("*")
    found = sizes.get(name)
    return None if found is None else int(times or 1) * found


def check_finite(name: str, array: Array) -> None:
    # Check the extremes: they propagate NaN and need no second array of this size.
    if array.dtype.kind == "f" and array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        raise StoreError(f"tensor {name!r} has numbers that are not finite")


def check_csr(name: str, indptr: Array, indices: Array, shape: tuple[int, int], *, unique: bool = True) -> None:
    """Check compressed rows: starts from 0 to the number of pairs; columns in bounds and, if `unique`, ascending."""
    check_part(f"{name} starts", indptr, Part((shape[0] + 1,), np.int64), {})
    check_part(f"{name} columns", indices, Part((len(indices),), np.int32), {})
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise StoreError(f"the rows of {name} do not rise from 0 to {len(indices)}")
    check_below(name, indices, shape[1])
    if unique and len(indices) > 1:
        rising = indices[1:] > indices[:-1]
        rising[indptr[(indptr > 0) & (indptr < len(indices))] - 1] = True  # at a row boundary
        if not rising.all():
            raise StoreError(f"the columns of {name} are not sorted, or repeat")


def check_below(name: str, indices: Array, end: int) -> None:
    """Check that indices are from 0 to `end`, exclusive."""
    if indices.size and not (indices.min() >= 0 and indices.max() < end):
        raise StoreError(f"{name} has indices that are not from 0 to {end - 1}")


def check_sequence(name: str, array: Array, dtype: type[np.generic], n: int | None = None) -> None:
    """Check for one dimension, this type and (if given) this length."""
    if array.ndim != 1:
        raise StoreError(f"tensor {name!r} has {array.ndim} dimensions, not one")
    check_part(name, array, Part((len(array) if n is None else n,), dtype), {})
