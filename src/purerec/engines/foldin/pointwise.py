"""The vector of one person under a logistic risk, with the items fixed: Newton's method in one compiled call.

    f(e) = sum_i w_i softplus(e.q_i + b_i) - pull.e + 1/2 sum_k penalty_k e_k^2

over all items; the person's own items have a different weight. For a large catalogue, the sum is first taken over a
fixed sample, on which Newton's method converges in a few passes; a few steps with the exact gradient and the sample's
Hessian then remove the sampling error. If they do not contract, Newton's method continues over all items.

Tables hold eight items side by side: element (block, k, lane) is dimension k of item 8 * block + lane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, sigmoid_softplus, splat, store, total
from purerec.types import F32, F64

TILE = 8
"""Blocks whose Hessians are summed together, so that each sum is loaded and stored once for all of them."""
_NEWTON_STEPS, _EXACT_STEPS = 50, 12
_ROUGH, _CLOSE = 1e-4, 1e-6
"""A search ends with a step whose gain is at most this fraction of the curvature e'He: about the square of the error
of e before that step. Coarser on the sample, whose minimum is not the final one."""


class Table(NamedTuple):
    """Items in blocks of eight, padded with items of weight zero."""

    items: F32
    """(blocks * dim * LANES,)"""
    offset: F32
    """(blocks * LANES,) b_i"""
    weight: F32
    """(blocks * LANES,) w_i, before it is scaled for a person"""


class Own(NamedTuple):
    """A person's own items."""

    items: F32
    """(n, dim)"""
    offset: F32
    """(n,)"""
    change: F32
    """(n,) the difference between their weight and the table's"""


class Sums(NamedTuple):
    """The results of a pass over the items, and its working memory."""

    gradient: F64
    """(dim,)"""
    hessian: F64
    """(dim, dim) only the lower half is used"""
    lower: F64
    """(dim, dim) its Cholesky factor"""
    step: F64
    """(dim,)"""
    lanes: F32
    """((dim * (dim + 1) + 2 * TILE) * LANES,) sums by lane: the gradient, the Hessian, and two rows of a tile"""
    trial: F32
    """(dim,)"""
    start: F32
    """(dim,) where the exact gradient was first computed"""


def make_table(items: F32, offset: F32, weight: F32) -> Table:
    """Make a table from items (n, dim), their offsets and weights (n,)."""
    n, dim = items.shape
    blocks = -(-n // LANES)
    padded = np.zeros((blocks * LANES, dim), dtype=np.float32)
    padded[:n] = items
    flat = np.zeros((2, blocks * LANES), dtype=np.float32)
    flat[0, :n], flat[1, :n] = offset, weight
    turned = np.ascontiguousarray(padded.reshape(blocks, LANES, dim).transpose(0, 2, 1)).ravel()
    return Table(turned, flat[0], flat[1])


def make_sums(dim: int) -> Sums:
    return Sums(
        np.empty(dim), np.empty((dim, dim)), np.empty((dim, dim)), np.empty(dim),
        np.empty((dim * (dim + 1) + 2 * TILE) * LANES, dtype=np.float32), np.empty(dim, dtype=np.float32),
        np.empty(dim, dtype=np.float32),
    )  # fmt: skip


@kernel()
def add_up(t: Table, own: Own, scale: Scalar, pull: F64, penalty: F64, e: F32, s: Sums, curved: Scalar) -> Scalar:
    """Return f(e); compute its gradient and, if `curved`, its Hessian."""
    dim = e.size
    value = 0.0
    for k in range(0, dim * (dim + 1 if curved else 1) * LANES, LANES):
        store(s.lanes, k, splat(np.float32(0.0)))
    curves = dim * (dim + 1) * LANES  # of a tile's blocks, followed by one row of the tile times these
    bent = curves + TILE * LANES
    n_blocks = t.offset.size // LANES
    for first in range(0, n_blocks, TILE):
        last = min(first + TILE, n_blocks)
        for block in range(first, last):
            at = block * dim * LANES
            phi = load(t.offset, block * LANES)
            for k in range(dim):
                phi = phi + load(t.items, at + k * LANES) * e[k]
            sigma, soft = sigmoid_softplus(phi)
            weight = load(t.weight, block * LANES)
            value += total(soft * weight)
            slope = sigma * weight
            for k in range(dim):
                store(s.lanes, k * LANES, load(s.lanes, k * LANES) + load(t.items, at + k * LANES) * slope)
            store(s.lanes, curves + (block - first) * LANES, slope - slope * sigma)
        if curved:
            n = (last - first) * LANES
            start = first * dim * LANES
            for k in range(dim):
                for b in range(0, n, LANES):
                    store(s.lanes, bent + b, load(t.items, start + b * dim + k * LANES) * load(s.lanes, curves + b))
                for j in range(k + 1):
                    here = ((k + 1) * dim + j) * LANES
                    found = load(s.lanes, here)
                    for b in range(0, n, LANES):
                        found = found + load(t.items, start + b * dim + j * LANES) * load(s.lanes, bent + b)
                    store(s.lanes, here, found)
    value *= scale
    for k in range(dim):
        s.gradient[k] = scale * total(load(s.lanes, k * LANES)) - pull[k] + penalty[k] * e[k]
        value += (0.5 * penalty[k] * e[k] - pull[k]) * e[k]
        if curved:
            for j in range(k + 1):
                s.hessian[k, j] = scale * total(load(s.lanes, ((k + 1) * dim + j) * LANES))
            s.hessian[k, k] += penalty[k]
    for n in range(own.offset.size):
        phi_own = np.float64(own.offset[n])
        for k in range(dim):
            phi_own += own.items[n, k] * e[k]
        small = np.exp(-abs(phi_own))
        sigma_own = 1.0 / (1.0 + small) if phi_own > 0 else small / (1.0 + small)
        value += own.change[n] * (max(phi_own, 0.0) + np.log1p(small))
        slope_own = own.change[n] * sigma_own
        for k in range(dim):
            s.gradient[k] += slope_own * own.items[n, k]
            if curved:
                bent_own = slope_own * (1.0 - sigma_own) * own.items[n, k]
                for j in range(k + 1):
                    s.hessian[k, j] += bent_own * own.items[n, j]
    return value


@kernel(inner=True)
def _factor(s: Sums) -> None:
    """hessian = lower lower'; a pivot made too small by rounding is replaced by a tiny positive one."""
    dim = s.gradient.size
    for k in range(dim):
        for j in range(k + 1):
            found = s.hessian[k, j]
            for m in range(j):
                found -= s.lower[k, m] * s.lower[j, m]
            if j < k:
                s.lower[k, j] = found / s.lower[j, j]
            else:
                s.lower[k, k] = np.sqrt(max(found, 1e-9 * abs(s.hessian[k, k]) + 1e-12))


@kernel(inner=True)
def _solve(s: Sums) -> Scalar:
    """step = hessian^-1 gradient; return gradient.step, twice the expected gain of the step."""
    dim = s.gradient.size
    for k in range(dim):
        found = s.gradient[k]
        for j in range(k):
            found -= s.lower[k, j] * s.step[j]
        s.step[k] = found / s.lower[k, k]
    gain = 0.0
    for k in range(dim - 1, -1, -1):
        gain += s.step[k] * s.step[k]
        found = s.step[k]
        for j in range(k + 1, dim):
            found -= s.lower[j, k] * s.step[j]
        s.step[k] = found / s.lower[k, k]
    return gain


@kernel(inner=True)
def _curvature(s: Sums, e: F32) -> Scalar:
    """e' hessian e"""
    found = 0.0
    for k in range(e.size):
        row = 0.5 * s.hessian[k, k] * e[k]
        for j in range(k):
            row += s.hessian[k, j] * e[j]
        found += 2.0 * row * e[k]
    return found


@kernel()
def newton(t: Table, own: Own, scale: Scalar, pull: F64, penalty: F64, e: F32, s: Sums, close: Scalar) -> None:
    """Minimise f over the items of one table, starting from e, in place. Halves steps until f decreases."""
    dim = e.size
    value = add_up(t, own, scale, pull, penalty, e, s, True)
    for _ in range(_NEWTON_STEPS):
        _factor(s)
        gain = _solve(s)
        enough = gain <= close * _curvature(s, e) or gain < 1e-14
        rate = 1.0
        for k in range(dim):
            s.trial[k] = e[k] - s.step[k]
        after = add_up(t, own, scale, pull, penalty, s.trial, s, True)
        while not after <= value - 1e-4 * rate * gain and rate > 1e-6:
            rate *= 0.5
            for k in range(dim):
                s.trial[k] = e[k] - rate * s.step[k]
            after = add_up(t, own, scale, pull, penalty, s.trial, s, True)
        if not after < value:
            break  # no improvement in single precision
        value = after
        for k in range(dim):
            e[k] = s.trial[k]
        if enough:
            break
    _factor(s)


@kernel()
def minimise(
    sample: Table, everything: Table, own: Own, scale: Scalar, pull: F64, penalty: F64, e: F32, s: Sums
) -> None:
    """Minimise f over all items, starting from e, in place."""
    is_all = sample.offset.size == everything.offset.size
    newton(sample, own, scale, pull, penalty, e, s, _CLOSE if is_all else _ROUGH)
    if is_all:
        return
    before = np.inf
    for k in range(e.size):
        s.start[k] = e[k]
    for _ in range(_EXACT_STEPS):
        add_up(everything, own, scale, pull, penalty, e, s, False)
        gain = _solve(s)
        if not gain < 0.5 * before:
            for k in range(e.size):
                e[k] = s.start[k]
            newton(everything, own, scale, pull, penalty, e, s, _CLOSE)
            return
        for k in range(e.size):
            e[k] -= s.step[k]
        if gain <= _CLOSE * _curvature(s, e):
            return
        before = gain
