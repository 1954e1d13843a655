"""The pairwise risk of one person, with the items fixed: value, gradient and Hessian in one compiled pass.

    f(e) = mean_{i own, g} softplus(s_g - s_i) + penalty/2 |e|^2,      s_g = T log sum_{j in g} exp(s_j / T)

s_g is a smooth maximum over the items of a group, so f is convex and has a Hessian; without smoothing, the best item
changes from step to step, and Newton's method cycles. With p the softmax of a group and m_g its mean item,

    f'  = mean S_ig (m_g - q_i) + penalty e,      S = sigmoid(s_g - s_i)
    f'' = mean S_ig (1 - S_ig) (m_g - q_i)(m_g - q_i)' + S_ig / T (sum_j p_j q_j q_j' - m_g m_g')  +  penalty I

Rows are padded with zeros to `width`, a multiple of `LANES`; the number of groups is also a multiple of `LANES`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, sigmoid_softplus, splat, store, total
from purerec.types import F32, F64

TAKEN = np.float32(-1e30)
"""Bias of an item that is not a candidate."""


class HistoryPairs(NamedTuple):
    """Own items and groups of other items as flat arrays, and working memory."""

    own: F32
    """(n_own * width,)"""
    own_bias: F32
    """(n_own,)"""
    drawn: F32
    """(n_groups * size * width,)"""
    drawn_bias: F32
    """(n_groups * size,)"""
    width: int
    size: int
    """Items per group"""
    temperature: float
    share: F32
    """(n_groups * size,) p"""
    mean: F32
    """(n_groups * width,) m_g"""
    score: F32
    """(n_groups,) s_g"""
    slopes: F32
    """(n_groups,) sums of S over own items"""
    curves: F32
    """(n_groups,) sums of S (1 - S)"""
    row: F32
    """(n_groups,) S (1 - S) of one own item"""
    square: F32
    """(width * width,)"""


@kernel(inner=True)
def _dot(a: F32, i: Scalar, b: F32, j: Scalar, width: Scalar) -> Scalar:
    acc = load(a, i) * load(b, j)
    for k in range(LANES, width, LANES):
        acc = acc + load(a, i + k) * load(b, j + k)
    return total(acc)


@kernel(inner=True)
def _add_square(square: F32, rows: F32, at: Scalar, weight: Scalar, width: Scalar) -> None:
    """square += weight q q'"""
    for a in range(width):
        by = weight * rows[at + a]
        for k in range(0, width, LANES):
            here = a * width + k
            store(square, here, load(square, here) + load(rows, at + k) * by)


@kernel()
def find_groups(p: HistoryPairs, e: F32) -> Scalar:
    """Compute shares, means and scores of all groups; return the number of groups with a candidate."""
    width, count = p.width, 0
    for g in range(p.score.size):
        first = g * p.size
        best = TAKEN
        for c in range(first, first + p.size):
            s = _dot(p.drawn, c * width, e, 0, width) + p.drawn_bias[c]
            p.share[c] = s
            best = max(best, s)
        mean = g * width
        for k in range(0, width, LANES):
            store(p.mean, mean + k, splat(np.float32(0.0)))
        p.score[g] = TAKEN
        if best < np.float32(0.5) * TAKEN:
            p.share[first : first + p.size] = 0
            continue
        count += 1
        mass = 0.0
        for c in range(first, first + p.size):
            p.share[c] = np.exp((p.share[c] - best) / p.temperature)
            mass += p.share[c]
        for c in range(first, first + p.size):
            p.share[c] /= np.float32(mass)
            for k in range(0, width, LANES):
                store(p.mean, mean + k, load(p.mean, mean + k) + load(p.drawn, c * width + k) * p.share[c])
        p.score[g] = best + p.temperature * np.log(mass)
    return count


@kernel()
def pairwise(p: HistoryPairs, e: F32, penalty: Scalar, gradient: F64, hessian: F64) -> Scalar:
    """Return f(e); write its gradient (dim,) and Hessian (dim, dim)."""
    width, dim = p.width, gradient.size
    n_own, n_groups = p.own_bias.size, p.score.size
    count = find_groups(p, e)
    for g in range(0, n_groups, LANES):
        store(p.slopes, g, splat(np.float32(0.0)))
        store(p.curves, g, splat(np.float32(0.0)))
    for k in range(0, width * width, LANES):
        store(p.square, k, splat(np.float32(0.0)))
    gradient[:] = 0.0
    value = 0.0
    scale = 1.0 / (n_own * max(count, 1))
    for i in range(n_own):
        at = i * width
        own = splat(_dot(p.own, at, e, 0, width) + p.own_bias[i])
        soft_sum, slope_sum, curve_sum = splat(np.float32(0.0)), splat(np.float32(0.0)), splat(np.float32(0.0))
        for g in range(0, n_groups, LANES):
            slope, soft = sigmoid_softplus(load(p.score, g) - own)
            curve = slope - slope * slope
            soft_sum, slope_sum, curve_sum = soft_sum + soft, slope_sum + slope, curve_sum + curve
            store(p.slopes, g, load(p.slopes, g) + slope)
            store(p.curves, g, load(p.curves, g) + curve)
            store(p.row, g, curve)
        value += total(soft_sum)
        for k in range(dim):
            gradient[k] -= total(slope_sum) * p.own[at + k]
        # Half of the cross terms: the other half is their transpose, and the sum is halved again at the end.
        for k in range(0, width, LANES):
            cross = splat(np.float32(0.0))
            for g in range(n_groups):
                cross = cross + load(p.mean, g * width + k) * p.row[g]
            for a in range(dim):
                here = a * width + k
                by = load(p.own, at + k) * total(curve_sum) - cross * np.float32(2.0)
                store(p.square, here, load(p.square, here) + by * p.own[at + a])
    sharp = np.float32(1.0 / p.temperature)
    for g in range(n_groups):
        for k in range(dim):
            gradient[k] += p.slopes[g] * p.mean[g * width + k]
        _add_square(p.square, p.mean, g * width, p.curves[g] - sharp * p.slopes[g], width)
        for c in range(g * p.size, (g + 1) * p.size):
            if p.share[c] > np.float32(1e-4):
                _add_square(p.square, p.drawn, c * width, sharp * p.slopes[g] * p.share[c], width)
    value *= scale
    for k in range(dim):
        gradient[k] = scale * gradient[k] + penalty * e[k]
        value += 0.5 * penalty * e[k] * e[k]
        for j in range(dim):
            hessian[k, j] = 0.5 * scale * (p.square[k * width + j] + p.square[j * width + k])
        hessian[k, k] += penalty
    return value
