"""Products of small matrices inside kernels, at much of a core's peak speed and always summed in the same order.

BLAS would be as fast, but splits its sums among threads, so results would depend on their number.
"""

from __future__ import annotations

import numpy as np

from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, splat, store
from purerec.types import F32

_ZERO = np.float32(0.0)
_ROWS, WIDE = 6, 2 * LANES
"""Size of the block of the result that stays in registers"""
_DEPTH = 256
"""Rows of b that are used for all of a before the next ones: a block of their columns stays in the L1 cache"""
_LINE = 16  # floats in a cache line


@kernel(inner=True)
def stride_of(width: Scalar) -> Scalar:
    """Floats per row of a matrix of this width: an odd number of lines, so that columns do not share cache sets."""
    return ((width + _LINE - 1) // _LINE | 1) * _LINE


@kernel(inner=True)
def multiply(
    a: F32,
    a_at: Scalar,
    a_row: Scalar,
    a_column: Scalar,
    b: F32,
    b_row: Scalar,
    out: F32,
    out_at: Scalar,
    out_row: Scalar,
    n: Scalar,
    depth: Scalar,
    width: Scalar,
) -> None:
    """out (n, width) = a (n, depth) @ b (depth, width), each a flat array with these strides between rows.

    `a` may have either layout: `a_column` is its stride between columns. `width` is a multiple of LANES.
    """
    for start in range(0, depth, _DEPTH):
        end = min(depth, start + _DEPTH)
        for j in range(0, width, WIDE):
            is_wide = j + WIDE <= width
            r = np.int64(0)
            while is_wide and r + _ROWS <= n:
                _block(
                    a, a_at + r * a_row, a_row, a_column, b, b_row, out, out_at + r * out_row, out_row, start, end, j
                )
                r += _ROWS
            while r < n:
                _strip(a, a_at + r * a_row, a_column, b, b_row, out, out_at + r * out_row, start, end, j)
                if is_wide:
                    _strip(a, a_at + r * a_row, a_column, b, b_row, out, out_at + r * out_row, start, end, j + LANES)
                r += 1


@kernel(inner=True)
def _strip(
    a: F32, a_at: Scalar, a_column: Scalar, b: F32, b_row: Scalar, out: F32, out_at: Scalar,
    start: Scalar, end: Scalar, j: Scalar,
) -> None:  # fmt: skip
    """LANES columns of one row of the result."""
    acc = load(out, out_at + j) if start > 0 else splat(_ZERO)
    for q in range(start, end):
        acc = acc + load(b, q * b_row + j) * a[a_at + q * a_column]
    store(out, out_at + j, acc)


@kernel(inner=True)
def _block(
    a: F32, a_at: Scalar, a_row: Scalar, a_column: Scalar, b: F32, b_row: Scalar, out: F32, out_at: Scalar,
    out_row: Scalar, start: Scalar, end: Scalar, j: Scalar,
) -> None:  # fmt: skip
    """WIDE columns of _ROWS rows of the result, all in registers."""
    zero = splat(_ZERO)
    l0 = l1 = l2 = l3 = l4 = l5 = r0 = r1 = r2 = r3 = r4 = r5 = zero
    if start > 0:
        at = out_at + j
        l0, r0 = load(out, at), load(out, at + LANES)
        l1, r1 = load(out, at + out_row), load(out, at + out_row + LANES)
        l2, r2 = load(out, at + 2 * out_row), load(out, at + 2 * out_row + LANES)
        l3, r3 = load(out, at + 3 * out_row), load(out, at + 3 * out_row + LANES)
        l4, r4 = load(out, at + 4 * out_row), load(out, at + 4 * out_row + LANES)
        l5, r5 = load(out, at + 5 * out_row), load(out, at + 5 * out_row + LANES)
    for q in range(start, end):
        left, right = load(b, q * b_row + j), load(b, q * b_row + j + LANES)
        at = a_at + q * a_column
        x = a[at]
        l0, r0 = l0 + left * x, r0 + right * x
        x = a[at + a_row]
        l1, r1 = l1 + left * x, r1 + right * x
        x = a[at + 2 * a_row]
        l2, r2 = l2 + left * x, r2 + right * x
        x = a[at + 3 * a_row]
        l3, r3 = l3 + left * x, r3 + right * x
        x = a[at + 4 * a_row]
        l4, r4 = l4 + left * x, r4 + right * x
        x = a[at + 5 * a_row]
        l5, r5 = l5 + left * x, r5 + right * x
    at = out_at + j
    store(out, at, l0)
    store(out, at + LANES, r0)
    store(out, at + out_row, l1)
    store(out, at + out_row + LANES, r1)
    store(out, at + 2 * out_row, l2)
    store(out, at + 2 * out_row + LANES, r2)
    store(out, at + 3 * out_row, l3)
    store(out, at + 3 * out_row + LANES, r3)
    store(out, at + 4 * out_row, l4)
    store(out, at + 4 * out_row + LANES, r4)
    store(out, at + 5 * out_row, l5)
    store(out, at + 5 * out_row + LANES, r5)
