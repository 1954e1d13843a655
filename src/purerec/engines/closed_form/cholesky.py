"""Solve a small symmetric positive definite system, in one compiled call and without BLAS.

A catalogue has tens of thousands of systems of one or two hundred unknowns. BLAS would start threads of its own,
which interfere with ours, and at these sizes it is no faster.

The matrix is in the upper half of `height` rows of `width` numbers, with the right-hand side in column `height`. The
rest is padding: zeros, with ones on the diagonal. One more row holds the solution.
"""

from __future__ import annotations

import numpy as np

from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, splat, store, total
from purerec.types import F32

_ROWS = 4
_TILE = 2 * LANES
"""Four rows by sixteen columns are processed at a time: eight vectors, which stay in registers."""
_ZERO, _UNIT = np.float32(0), np.float32(1)


@kernel()
def padded_height(n: Scalar) -> Scalar:
    return (n + _ROWS - 1) // _ROWS * _ROWS


@kernel()
def padded_width(height: Scalar) -> Scalar:
    """Includes the right-hand side. Rows a multiple of 256 bytes apart would compete for a few cache lines."""
    width = (height + _TILE) // _TILE * _TILE
    return width + _TILE if width % (4 * _TILE) == 0 else width


@kernel()
def scratch_size(n: Scalar) -> Scalar:
    """The number of floats that a system of n unknowns takes, including its solution."""
    height = padded_height(n)
    return (height + 1) * padded_width(height)


@kernel(inner=True)
def clear(a: F32, n: Scalar) -> None:
    """Reset to zeros, with ones in the padding, for a system of n unknowns."""
    height = padded_height(n)
    width = padded_width(height)
    a[: height * width] = _ZERO
    for i in range(n, height):
        a[i * width + i] = _UNIT


@kernel(inner=True)
def solve(a: F32, n: Scalar) -> Scalar:
    """Put the solution into row `height`; return whether there is one.

    Factorise A = U'U row by row; with the right-hand side as an extra column, this also solves U'y = b; then U x = y.
    """
    height = padded_height(n)
    width = padded_width(height)
    for i in range(0, height, _ROWS):
        _subtract_rows_above(a, i, width)
        if not _finish_rows(a, i, width):
            return False
    _substitute_back(a, height, width)
    return True


@kernel(inner=True)
def _subtract_rows_above(a: F32, i: Scalar, width: Scalar) -> None:
    """A[i + r, j] -= sum over k < i of U[k, i + r] U[k, j], for four rows.

    Columns start at a whole tile: values changed left of the diagonal are never read.
    """
    r0, r1, r2, r3 = i * width, (i + 1) * width, (i + 2) * width, (i + 3) * width
    for j in range(i // _TILE * _TILE, width, _TILE):
        j2 = j + LANES
        a00, a01, a10, a11 = load(a, r0 + j), load(a, r0 + j2), load(a, r1 + j), load(a, r1 + j2)
        a20, a21, a30, a31 = load(a, r2 + j), load(a, r2 + j2), load(a, r3 + j), load(a, r3 + j2)
        for k in range(i):
            row = k * width
            u0, u1 = load(a, row + j), load(a, row + j2)
            c = splat(a[row + i])
            a00, a01 = a00 - c * u0, a01 - c * u1
            c = splat(a[row + i + 1])
            a10, a11 = a10 - c * u0, a11 - c * u1
            c = splat(a[row + i + 2])
            a20, a21 = a20 - c * u0, a21 - c * u1
            c = splat(a[row + i + 3])
            a30, a31 = a30 - c * u0, a31 - c * u1
        store(a, r0 + j, a00)
        store(a, r0 + j2, a01)
        store(a, r1 + j, a10)
        store(a, r1 + j2, a11)
        store(a, r2 + j, a20)
        store(a, r2 + j2, a21)
        store(a, r3 + j, a30)
        store(a, r3 + j2, a31)


@kernel(inner=True)
def _finish_rows(a: F32, i: Scalar, width: Scalar) -> Scalar:
    """The same among the four rows, each divided by the root of its pivot; False if a pivot is not positive."""
    first = i // LANES * LANES
    for r in range(i, i + _ROWS):
        for k in range(i, r):
            c = splat(a[k * width + r])
            for j in range(first, width, LANES):
                store(a, r * width + j, load(a, r * width + j) - c * load(a, k * width + j))
        pivot = a[r * width + r]
        if not pivot > 0:
            return False
        scale = splat(_UNIT / np.sqrt(pivot))
        for j in range(first, width, LANES):
            store(a, r * width + j, load(a, r * width + j) * scale)
    return True


@kernel(inner=True)
def _substitute_back(a: F32, height: Scalar, width: Scalar) -> None:
    """Solve U x = y, with x in row `height`: zeros where not yet known, so that sums can start at a whole vector."""
    x = height * width
    for j in range(0, width, LANES):
        store(a, x + j, splat(_ZERO))
    for i in range(height - 1, -1, -1):
        sums = splat(_ZERO)
        for j in range(i // LANES * LANES, height, LANES):
            sums = sums + load(a, i * width + j) * load(a, x + j)
        a[x + i] = (a[i * width + height] - total(sums)) / a[i * width + i]
