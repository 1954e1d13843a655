"""Constraints that keep the fakes near the real embeddings: their mean norm, or their mean and covariance."""

from __future__ import annotations

import math

import numpy as np

from purerec.engines.pure.cpu.kernels import GeneratorMemory, aligned
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, splat, store, total
from purerec.types import F64

NO_CONSTRAINT, NORM, RECOLOUR = 0, 1, 2
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


@kernel(inner=True)
def _cholesky(a: F64, n: Scalar, stride: Scalar) -> None:
    """Replace the leading (n, n) block with its lower Cholesky factor."""
    for i in range(n):
        for j in range(i + 1):
            s = a[i * stride + j]
            for k in range(j):
                s -= a[i * stride + k] * a[j * stride + k]
            a[i * stride + j] = math.sqrt(s) if i == j else s / a[j * stride + j]


@kernel(inner=True)
def _find_colour(g: GeneratorMemory, n: Scalar) -> None:
    """Find the mean of the raw fakes and L_r inv(L_b); fewer than two fakes have no covariance: only shift."""
    d, width = g.dim, aligned(g.dim)
    for q in range(d):
        g.mean[q] = 0.0
        for p in range(q + 1):
            g.factor[q * width + p] = 0.0
    for k in range(n):
        for q in range(d):
            g.mean[q] += np.float64(g.raw[k * width + q])
    for q in range(d):
        g.mean[q] /= n
    for k in range(n):
        for q in range(d):
            g.row[q] = np.float64(g.raw[k * width + q]) - g.mean[q]
        for q in range(d):
            for p in range(q + 1):
                g.factor[q * width + p] += g.row[q] * g.row[p]
    trace = 0.0
    for q in range(d):
        for p in range(q + 1):
            g.factor[q * width + p] /= n
        trace += g.factor[q * width + q]
    for q in range(d):
        g.factor[q * width + q] += 1e-6 * trace / d + 1e-12
    _cholesky(g.factor, d, width)
    for q in range(d):
        if n < 2:
            for p in range(d):
                g.colour[q * width + p] = 1.0 if p == q else 0.0
            continue
        for p in range(d - 1, -1, -1):  # one row of X, from X L_b = L_r
            s = g.real_factor[q * width + p]
            for k in range(p + 1, d):
                s -= g.colour[q * width + k] * g.factor[k * width + p]
            g.colour[q * width + p] = s / g.factor[p * width + p]
    for q in range(d):
        g.mean32[q] = g.mean[q]
        g.real_mean32[q] = g.real_mean[q]
        for p in range(d):
            g.colour32[q * width + p] = g.colour[q * width + p]
            g.colour32_turned[p * width + q] = g.colour[q * width + p]


@kernel(inner=True)
def constrain(g: GeneratorMemory, n: Scalar) -> Scalar:
    """Turn raw into fakes; return the sum of the fakes' norms."""
    d = aligned(g.dim)
    norms = 0.0
    if g.constraint == RECOLOUR:
        _find_colour(g, n)
    for k in range(n):
        squares = splat(_ZERO)
        if g.constraint == RECOLOUR:
            for j in range(0, d, LANES):
                acc = load(g.real_mean32, j)
                for q in range(g.dim):
                    acc = acc + load(g.colour32_turned, q * d + j) * (g.raw[k * d + q] - g.mean32[q])
                store(g.fakes, k * d + j, acc)
                squares = squares + acc * acc
            norms += math.sqrt(np.float64(total(squares)))
            continue
        for j in range(0, d, LANES):
            x = load(g.raw, k * d + j)
            store(g.fakes, k * d + j, x)
            squares = squares + x * x
        norm = math.sqrt(np.float64(total(squares)))
        if g.constraint == NORM:
            scale = np.float32(g.real_norm[0] / norm) if norm > g.real_norm[0] else _ONE
            g.scale[k] = scale
            norm = norm * float(scale)
            for j in range(0, d, LANES):
                store(g.fakes, k * d + j, load(g.raw, k * d + j) * scale)
        norms += norm
    return norms
