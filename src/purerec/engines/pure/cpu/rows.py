"""The distinct rows of a batch: a slot for each, where its gradient accumulates, and SparseAdam from the slots."""

from __future__ import annotations

import numpy as np

from purerec.engines.pure.cpu.kernels import (
    KernelSettings,
    Model,
    Work,
    matrix_times_row,
    row_times_matrix,
    scalar_adam,
)
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, root, splat, store, total
from purerec.sampling.draws import prefetch
from purerec.types import F32, I32

IN_CACHE = 1 << 18
"""A table of this many floats (1 MB) stays in the second-level cache; rows of a larger one are prefetched."""
_ZERO = np.float32(0.0)
_LINE = 16  # floats in a line of the cache
_AHEAD = 6


@kernel(inner=True)
def assign_slots(
    ids: I32,
    first: Scalar,
    n: Scalar,
    slot_of: I32,
    slots: I32,
    slot_ids: I32,
    n_slots: Scalar,
    table: F32,
    dim: Scalar,
) -> Scalar:
    """Give every distinct id a slot; without branches, because which id is new is unpredictable."""
    reach = dim if table.size > IN_CACHE else 0
    for k in range(first, first + n):
        id_ = ids[k]
        for j in range(0, reach, _LINE):
            prefetch(table, np.int64(id_) * 3 * dim + j)
        slot = slot_of[id_]
        is_new = slot < 0
        slot = n_slots if is_new else slot
        slot_of[id_] = slot
        slots[k] = slot
        slot_ids[n_slots] = id_
        n_slots += np.int64(is_new)
    return n_slots


@kernel(inner=True)
def turn_gradients(m: Model, w: Work, c: KernelSettings, n_users: Scalar, n_items: Scalar) -> None:
    """Bilinear: grad R = sum e_u G_u^T, grad e_u = R G_u, grad e_i = R^T G_i, the last two in place."""
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    for slot in range(n_users):
        user_at, at = np.int64(w.slot_users[slot]) * 3 * u_dim, slot * stride
        for q in range(u_dim):
            for j in range(0, i_dim, LANES):
                g = load(w.relation_grad, q * i_dim + j) + load(w.user_grads, at + j) * m.user[user_at + q]
                store(w.relation_grad, q * i_dim + j, g)
        matrix_times_row(w.user_grads, at, m.relation, w.row, 0, u_dim, c.i_dim)
        for j in range(0, stride, LANES):
            store(w.user_grads, at + j, load(w.row, j) if j < u_dim else splat(_ZERO))
    for slot in range(n_items):
        at = slot * stride
        row_times_matrix(w.item_grads, at, m.relation, w.row, 0, u_dim, c.i_dim)
        for j in range(0, stride, LANES):
            store(w.item_grads, at + j, load(w.row, j) if j < i_dim else splat(_ZERO))


@kernel(inner=True)
def update_rows(
    table: F32,
    grads: F32,
    slot_ids: I32,
    slot_of: I32,
    counts: F32,
    first_slot: Scalar,
    end_slot: Scalar,
    stride: Scalar,
    relation: F32,
    relation_grad: F32,
    is_gmf_user: Scalar,
    dim: Scalar,
    c: KernelSettings,
    step_size: Scalar,
) -> Scalar:
    """Apply SparseAdam to rows of one side, empty their slots, and return the sum of weighted squares penalised."""
    gain1, gain2, epsilon = np.float32(1.0 - c.beta1), np.float32(1.0 - c.beta2), np.float32(c.epsilon)
    penalty = np.float32(c.regularization)
    squares = 0.0
    reach = 3 * dim if table.size > IN_CACHE else 0
    for slot in range(first_slot, end_slot):
        ahead = np.int64(slot_ids[min(slot + _AHEAD, end_slot - 1)]) * 3 * dim
        for j in range(0, reach, _LINE):
            prefetch(table, ahead + j)
        id_ = np.int64(slot_ids[slot])
        slot_of[id_] = -1
        row, at = id_ * 3 * dim, slot * stride
        for j in range(0, dim, LANES):
            e, raw = load(table, row + j), load(grads, at + j)
            store(grads, at + j, splat(_ZERO))
            g = raw * load(relation, j)
            if is_gmf_user:
                store(relation_grad, j, load(relation_grad, j) + raw * e)
            if penalty > _ZERO:
                g = g + e * (penalty * counts[slot])
                squares += np.float64(counts[slot] * total(e * e))
            m, v = load(table, row + dim + j), load(table, row + 2 * dim + j)
            m = m + (g - m) * gain1
            v = v + (g * g - v) * gain2
            store(table, row + dim + j, m)
            store(table, row + 2 * dim + j, v)
            store(table, row + j, e - m / (root(v) + epsilon) * step_size)
        counts[slot] = _ZERO
    return squares


@kernel(inner=True)
def update_biases(
    table: F32, grads: F32, slot_ids: I32, n_slots: Scalar, c: KernelSettings, step_size: Scalar
) -> None:
    for slot in range(n_slots):
        scalar_adam(table, np.int64(slot_ids[slot]) * 4, grads[slot], c, step_size, 1.0)
