"""Unlabeled items that a whole batch shares: every user of the batch with every item drawn for it.

    phi = U J^T + biases,   sigma = D(phi), 0 where a pair is observed,   G_u = sigma J,   G_j = sigma^T U

Three matrix products replace a loop over pairs, so that hundreds of unlabeled pairs for each positive cost no more
than a few. Two threads each handle half of the users, then half of the items; each sum is computed by
one of them, in the same order as without the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from purerec.engines.pure.cpu.kernels import BILINEAR, FM, GMF, KernelSettings, Model, Work
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.matmul import WIDE, multiply, stride_of
from purerec.jit.simd import LANES, absolute, exp_negative, load, log_positive, splat, store, total, where_positive
from purerec.sampling.draws import Tables
from purerec.types import F32, F64, I32

_HIDDEN = np.float32(-1e30)
"""Replaces a score that does not count; its D is `_NOTHING` or less"""
_NOTHING = np.float32(1e-37)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_FACTORS = 32  # factors of at most 2 in a product, which stays far below the largest float
_PANEL = 64  # users whose scores are computed and used together, while they are in the second-level cache


class Grid(NamedTuple):
    """The scratch of one engine. Rows are the users of a batch, columns the items drawn for it."""

    order: I32
    """(n_items,) the order in which this epoch draws items."""
    column_of: I32
    """(n_items,): -1 between steps."""
    users: F32
    """(rows, u_dim); the row stride of all matrices is `stride_of` their width."""
    scoring: F32
    """(rows, i_dim): users, with the relation applied."""
    items: F32
    """(columns, i_dim)"""
    turned: F32
    """(i_dim, columns)"""
    item_bias: F32
    sigma: F32
    """(rows, columns)"""
    user_pulls: F32
    """(rows, i_dim): G_u."""
    item_pulls: F32
    """(columns, u_dim): G_j."""
    row_sigma: F32
    """(rows,) sums of D."""
    row_plus: F64
    """(rows,) sums of softplus(phi)."""
    row_free: F32
    """(rows,) numbers of pairs that count."""
    column_sigma: F32
    column_free: F32


def new_grid(n_rows: int, n_columns: int, n_items: int, u_dim: int, i_dim: int) -> Grid:
    """`u_dim` and `i_dim` are padded."""

    def matrix(height: int, width: int) -> F32:
        return np.zeros(height * (((width + 15) // 16) | 1) * 16, np.float32)

    columns = -(-n_columns // WIDE) * WIDE
    return Grid(
        order=np.zeros(n_items, np.int32),
        column_of=np.full(n_items, -1, np.int32),
        users=matrix(n_rows, u_dim),
        scoring=matrix(n_rows, i_dim),
        items=matrix(columns, i_dim),
        turned=matrix(i_dim, columns),
        item_bias=np.zeros(columns, np.float32),
        sigma=matrix(n_rows, columns),
        user_pulls=matrix(n_rows, i_dim),
        item_pulls=matrix(columns, u_dim),
        row_sigma=np.zeros(n_rows, np.float32),
        row_plus=np.zeros(n_rows),
        row_free=np.zeros(n_rows, np.float32),
        column_sigma=np.zeros(columns, np.float32),
        column_free=np.zeros(columns, np.float32),
    )


@kernel(inner=True)
def draw_columns(g: Grid, items: I32, first: Scalar, drawn: Scalar, n: Scalar) -> None:
    """Take the next n items after `drawn`; all different, since n is at most their number."""
    for k in range(n):
        items[first + k] = g.order[(drawn + k) % g.order.size]


@kernel(inner=True)
def take_users(m: Model, w: Work, c: KernelSettings, g: Grid, first: Scalar, n: Scalar) -> None:
    u_dim, i_dim = c.u_dim, c.i_dim
    u_row, i_row = stride_of(u_dim), stride_of(i_dim)
    for r in range(n):
        at = np.int64(w.users[first + r]) * 3 * u_dim
        for j in range(0, u_dim, LANES):
            store(g.users, r * u_row + j, load(m.user, at + j))
        if c.scorer == BILINEAR:
            at = np.int64(w.user_slots[first + r]) * i_dim
            for j in range(0, i_dim, LANES):
                store(g.scoring, r * i_row + j, load(w.user_turned, at + j))
        else:
            for j in range(0, u_dim, LANES):
                e = load(m.user, at + j)
                store(g.scoring, r * i_row + j, e * load(m.relation, j) if c.scorer == GMF else e)


@kernel(inner=True)
def take_items(m: Model, w: Work, c: KernelSettings, g: Grid, first: Scalar, n: Scalar) -> None:
    i_dim = c.i_dim
    i_row, c_row = stride_of(i_dim), stride_of(whole_blocks(n))
    for k in range(n):
        item = np.int64(w.items[first + k])
        at = item * 3 * i_dim
        g.column_of[item] = k
        for j in range(0, i_dim, LANES):
            store(g.items, k * i_row + j, load(m.item, at + j))
        for j in range(i_dim):
            g.turned[j * c_row + k] = m.item[at + j]
        if c.scorer == FM:
            g.item_bias[k] = m.item_bias[item * 4]


@kernel(inner=True)
def whole_blocks(n: Scalar) -> Scalar:
    return (n + WIDE - 1) // WIDE * WIDE


@kernel(inner=True)
def score_rows(
    t: Tables,
    m: Model,
    w: Work,
    c: KernelSettings,
    g: Grid,
    first: Scalar,
    start: Scalar,
    end: Scalar,
    n_columns: Scalar,
) -> None:
    """Compute sigma and G_u of the users from `start` to `end`; `first` is where the grid's users start in `w`."""
    i_dim, columns = c.i_dim, whole_blocks(n_columns)
    i_row, c_row = stride_of(i_dim), stride_of(columns)
    for panel in range(start, end, _PANEL):
        n = min(_PANEL, end - panel)
        multiply(
            g.scoring, panel * i_row, i_row, 1, g.turned, c_row, g.sigma, panel * c_row, c_row, n, i_dim, columns
        )
        for r in range(panel, panel + n):
            _activate_row(t, m, c, g, np.int64(w.users[first + r]), r, n_columns)
        multiply(
            g.sigma, panel * c_row, c_row, 1, g.items, i_row, g.user_pulls, panel * i_row, i_row, n, n_columns, i_dim
        )


@kernel(inner=True)
def _activate_row(
    t: Tables, m: Model, c: KernelSettings, g: Grid, user: Scalar, r: Scalar, n_columns: Scalar
) -> None:
    columns = whole_blocks(n_columns)
    at = r * stride_of(columns)
    for k in range(n_columns, columns):
        g.sigma[at + k] = _HIDDEN
    n_free = n_columns
    for k in range(t.indptr[user], t.indptr[user + 1]):
        column = np.int64(g.column_of[t.indices[k]])
        if column >= 0:
            g.sigma[at + column] = _HIDDEN
            n_free -= 1
    shift = m.bias[0]
    if c.scorer == FM:
        shift += m.user_bias[user * 4]
    sigmas, losses = splat(_ZERO), splat(_ZERO)
    for start in range(0, columns, _FACTORS * LANES):
        # softplus(x) = max(x, 0) + log(1 + exp(-|x|)), with one logarithm for many x: that of the product
        product = splat(_ONE)
        for k in range(start, min(columns, start + _FACTORS * LANES), LANES):
            x = load(g.sigma, at + k) + shift
            if c.scorer == FM:
                x = x + load(g.item_bias, k)
            e = exp_negative(splat(_ZERO) - absolute(x))
            inverse = _ONE / (e + _ONE)
            s = where_positive(x, inverse, e * inverse)
            store(g.sigma, at + k, s)
            sigmas = sigmas + s
            losses = losses + where_positive(x, x, splat(_ZERO))
            product = product * (e + _ONE)
        losses = losses + log_positive(product)
    g.row_sigma[r], g.row_plus[r], g.row_free[r] = total(sigmas), np.float64(total(losses)), n_free


@kernel(inner=True)
def finish_columns(c: KernelSettings, g: Grid, start: Scalar, end: Scalar, n_rows: Scalar, n_columns: Scalar) -> None:
    """Compute G_j and the sums of the columns from `start`, a multiple of LANES, to `end`."""
    u_row, c_row = stride_of(c.u_dim), stride_of(whole_blocks(n_columns))
    multiply(
        g.sigma, start, 1, c_row, g.users, u_row, g.item_pulls, start * u_row, u_row, end - start, n_rows, c.u_dim
    )
    for k in range(start, end, LANES):
        sigmas, free = splat(_ZERO), splat(_ZERO)
        for r in range(n_rows):
            s = load(g.sigma, r * c_row + k)
            sigmas = sigmas + s
            free = free + where_positive(s - _NOTHING, splat(_ONE), splat(_ZERO))
        store(g.column_sigma, k, sigmas)
        store(g.column_free, k, free)


@kernel(inner=True)
def total_of_rows(g: Grid, n_rows: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The sums of D and of softplus(phi) over all pairs that count, and their number."""
    sigmas = losses = n_free = 0.0
    for r in range(n_rows):
        sigmas += np.float64(g.row_sigma[r])
        losses += g.row_plus[r]
        n_free += np.float64(g.row_free[r])
    return sigmas, losses, n_free


@kernel(inner=True)
def gather_grid(
    slots: I32,
    first: Scalar,
    pulls: F32,
    dim: Scalar,
    sigmas: F32,
    free: F32,
    grads: F32,
    bias_grads: F32,
    counts: F32,
    c: KernelSettings,
    n: Scalar,
    slope: Scalar,
    n_free: Scalar,
) -> None:
    """Add the grid's gradients of one side's rows to their slots; `dim` is the width of the other side."""
    stride, row = max(c.u_dim, c.i_dim), stride_of(dim)
    slope32 = np.float32(slope)
    for k in range(n):
        slot = np.int64(slots[first + k])
        for j in range(0, dim, LANES):
            g = load(grads, slot * stride + j) + load(pulls, k * row + j) * slope32
            store(grads, slot * stride + j, g)
        if c.scorer == FM:
            bias_grads[slot] += sigmas[k] * slope32
        if c.regularization > 0.0:
            counts[slot] += np.float32(free[k] / max(n_free, 1.0))


@kernel(inner=True)
def forget_columns(g: Grid, items: I32, first: Scalar, n: Scalar) -> None:
    for k in range(n):
        g.column_of[items[first + k]] = -1
