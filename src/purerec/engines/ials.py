"""The half-steps of iALS: with one side fixed, an exact solution for every row of the other.

An epoch solves a dim x dim system for each user and item by Cholesky. Rows are independent, so threads and processes
can share them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from purerec.jit.arrays import constant
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, splat, store, total
from purerec.types import F32, I32, I64

_WORTH_A_THREAD = 5_000_000
"""Multiplications below which starting a second thread costs more than it saves."""


class AlternationSide:
    """The positives by user or by item, and the penalty of each row."""

    def __init__(self, indptr: I64, indices: I32, penalty: F32) -> None:
        self.indptr, self.indices, self.penalty = constant(indptr, np.int64), constant(indices, np.int32), penalty

    def solve(self, fixed: F32, out: F32, alpha: float, dim: int, gram: F32 | None = None) -> None:
        """out[r] = argmin, given the vectors of the other side. The result does not depend on the number of threads.

        `gram`: alpha fixed' fixed, if already computed.
        """
        width = fixed.shape[1]
        if gram is None:
            gram = np.float32(alpha) * (fixed.T @ fixed)
        work = len(self.indices) * dim**2 + len(out) * dim**3 // 3
        threads = min(os.cpu_count() or 1, 1 + work // _WORTH_A_THREAD)
        # Equal shares of the positives, which are most of the work.
        ends = np.searchsorted(self.indptr, np.linspace(0, len(self.indices), threads + 1)[1:-1])
        ends = np.concatenate([[0], ends, [len(out)]])

        def part(k: int, gram: F32 = gram) -> None:
            scratch = np.empty((dim + 3) * (width + LANES) + 2 * width, dtype=np.float32)
            solve_rows(
                self.indptr, self.indices, ends[k], ends[k + 1], fixed.ravel(), gram.ravel(), self.penalty,
                dim, width, scratch, out.ravel(),
            )  # fmt: skip

        if threads == 1:
            part(0)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(part, range(threads)))


@kernel()
def solve_rows(
    indptr: I64,
    indices: I32,
    first: Scalar,
    last: Scalar,
    fixed: F32,
    gram: F32,
    penalty: F32,
    dim: Scalar,
    width: Scalar,
    scratch: F32,
    out: F32,
) -> None:
    """Rows first to last of `out`: (gram + sum of q q' + penalty I) x = sum of q, over the q of the row's pairs.

    Vectors are `width` apart, rows of the system `stride`: at a power of two, they would compete for the same cache
    lines. `scratch` ((dim + 3) * stride + 2 * width,) holds the system and the solver's working memory.
    """
    a, stride = scratch, width + LANES
    b = (dim + 3) * stride
    for row in range(first, last):
        lo, hi = indptr[row], indptr[row + 1]
        # Four rows of the upper half at a time, so that each vector loaded is used four times.
        for j in range(0, dim, 4):
            for k in range(j // LANES * LANES, width, LANES):
                s0, s1 = load(gram, j * width + k), load(gram, (j + 1) * width + k)
                s2, s3 = load(gram, (j + 2) * width + k), load(gram, (j + 3) * width + k)
                for n in range(lo, hi):
                    q = np.int64(indices[n]) * width
                    v = load(fixed, q + k)
                    s0, s1 = s0 + v * fixed[q + j], s1 + v * fixed[q + j + 1]
                    s2, s3 = s2 + v * fixed[q + j + 2], s3 + v * fixed[q + j + 3]
                store(a, j * stride + k, s0)
                store(a, (j + 1) * stride + k, s1)
                store(a, (j + 2) * stride + k, s2)
                store(a, (j + 3) * stride + k, s3)
        for k in range(0, width, LANES):
            s0 = splat(np.float32(0.0))
            for n in range(lo, hi):
                s0 = s0 + load(fixed, np.int64(indices[n]) * width + k)
            store(a, b + k, s0)
        for j in range(dim):
            a[j * stride + j] += penalty[row]
        cholesky_solve(a, b, dim, width, stride)
        for k in range(dim):
            out[row * width + k] = a[b + k]


@kernel(inner=True)
def cholesky_solve(a: F32, b: Scalar, dim: Scalar, width: Scalar, stride: Scalar) -> None:
    """Solve U'U x = y in place: the matrix is a[:b], of which only the upper half is read; y (then x) follows it.

    Rows of U are zero up to and including the diagonal, so that they can be used in whole vectors. The inverses of
    the diagonal come last.
    """
    inverse = b + width
    for j in range(dim):
        row, start = j * stride, j // LANES * LANES
        k = start
        while k + 4 * LANES <= width:  # four sums at a time, since each only waits for its own last step
            s0, s1 = load(a, row + k), load(a, row + k + LANES)
            s2, s3 = load(a, row + k + 2 * LANES), load(a, row + k + 3 * LANES)
            for m in range(j):
                at, value = m * stride + k, a[m * stride + j]
                s0, s1 = s0 - load(a, at) * value, s1 - load(a, at + LANES) * value
                s2, s3 = s2 - load(a, at + 2 * LANES) * value, s3 - load(a, at + 3 * LANES) * value
            store(a, row + k, s0)
            store(a, row + k + LANES, s1)
            store(a, row + k + 2 * LANES, s2)
            store(a, row + k + 3 * LANES, s3)
            k += 4 * LANES
        while k < width:
            s0 = load(a, row + k)
            for m in range(j):
                s0 = s0 - load(a, m * stride + k) * a[m * stride + j]
            store(a, row + k, s0)
            k += LANES
        scale = np.float32(1.0) / np.sqrt(a[row + j])
        a[inverse + j] = scale
        for k in range(start, j + 1):
            a[row + k] = np.float32(0.0)
        y = a[b + j] * scale
        a[b + j] = y
        for k in range(start, width, LANES):
            v = load(a, row + k) * scale
            store(a, row + k, v)
            store(a, b + k, load(a, b + k) - v * y)
    for j in range(dim - 1, -1, -1):
        row = j * stride
        s0 = splat(np.float32(0.0))
        for k in range(j // LANES * LANES, width, LANES):
            s0 = s0 + load(a, row + k) * load(a, b + k)
        a[b + j] = (a[b + j] - total(s0)) * a[inverse + j]


@kernel()
def squared_errors(indptr: I64, indices: I32, user: F32, item: F32, width: Scalar) -> Scalar:
    """The sum of (p.q - 1)^2 over the positives."""
    found = 0.0
    for row in range(indptr.size - 1):
        for n in range(indptr[row], indptr[row + 1]):
            q, p = np.int64(indices[n]) * width, row * width
            acc = load(user, p) * load(item, q)
            for k in range(LANES, width, LANES):
                acc = acc + load(user, p + k) * load(item, q + k)
            found += (total(acc) - 1.0) ** 2
    return found
