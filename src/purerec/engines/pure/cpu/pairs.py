"""The pairs of a batch: their scores, and the gradients that each adds to the slots of its rows."""

from __future__ import annotations

import numpy as np

from purerec.engines.pure.cpu.kernels import BILINEAR, FM, GMF, KernelSettings, Model, Work, dot3
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, store, total
from purerec.types import F32, I32


@kernel(inner=True)
def score_pairs(m: Model, w: Work, c: KernelSettings, first: Scalar, n: Scalar) -> None:
    u_dim, i_dim = c.u_dim, c.i_dim
    bias = m.bias[0]
    if c.scorer == BILINEAR:
        for k in range(first, first + n):
            at = w.items[k] * 3 * i_dim
            w.phi[k] = total(dot3(w.user_turned, w.user_slots[k] * i_dim, m.item, at, w.ones, c.i_dim)) + bias
        return
    for k in range(first, first + n):
        u, i = np.int64(w.users[k]), np.int64(w.items[k])
        w.phi[k] = total(dot3(m.user, u * 3 * u_dim, m.item, i * 3 * i_dim, m.relation, c.u_dim)) + bias
    if c.scorer == FM:
        for k in range(first, first + n):
            w.phi[k] += m.user_bias[np.int64(w.users[k]) * 4] + m.item_bias[np.int64(w.items[k]) * 4]


@kernel(inner=True)
def score_fake_items(
    m: Model, w: Work, c: KernelSettings, fakes: F32, first: Scalar, pair: Scalar, n: Scalar
) -> None:
    """Compute phi(u, i') of n pairs, starting at `pair`; a fake has no bias of its own."""
    u_dim, i_dim = c.u_dim, c.i_dim
    for k in range(n):
        u = np.int64(w.users[pair + k])
        if c.scorer == BILINEAR:
            acc = dot3(w.user_turned, w.user_slots[pair + k] * i_dim, fakes, k * i_dim, w.ones, c.i_dim)
        else:
            acc = dot3(m.user, u * 3 * u_dim, fakes, k * i_dim, m.relation, c.u_dim)
        w.phi[first + k] = total(acc) + m.bias[0]
        if c.scorer == FM:
            w.phi[first + k] += m.user_bias[u * 4]


@kernel(inner=True)
def score_fake_users(
    m: Model, w: Work, c: KernelSettings, fakes: F32, first: Scalar, pair: Scalar, n: Scalar
) -> None:
    u_dim, i_dim = c.u_dim, c.i_dim
    for k in range(n):
        i = np.int64(w.items[pair + k])
        if c.scorer == BILINEAR:
            acc = dot3(w.item_turned, w.item_slots[pair + k] * u_dim, fakes, k * u_dim, w.ones, c.u_dim)
        else:
            acc = dot3(m.item, i * 3 * i_dim, fakes, k * u_dim, m.relation, c.u_dim)
        w.phi[first + k] = total(acc) + m.bias[0]
        if c.scorer == FM:
            w.phi[first + k] += m.item_bias[i * 4]


@kernel(inner=True)
def gather_pairs(
    m: Model, w: Work, c: KernelSettings, first: Scalar, n: Scalar, slope: Scalar, offset: Scalar
) -> None:
    """Add c_k * e_i to the users' slots and c_k * e_u to the items', with c_k = slope * D + offset."""
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    slope32, offset32 = np.float32(slope), np.float32(offset)
    for k in range(first, first + n):
        coefficient = w.sigma[k] * slope32 + offset32
        user_at, item_at = np.int64(w.users[k]) * 3 * u_dim, np.int64(w.items[k]) * 3 * i_dim
        user_grad, item_grad = np.int64(w.user_slots[k]) * stride, np.int64(w.item_slots[k]) * stride
        for j in range(0, i_dim, LANES):
            g = load(w.user_grads, user_grad + j) + load(m.item, item_at + j) * coefficient
            store(w.user_grads, user_grad + j, g)
        for j in range(0, u_dim, LANES):
            g = load(w.item_grads, item_grad + j) + load(m.user, user_at + j) * coefficient
            store(w.item_grads, item_grad + j, g)
    if c.scorer == FM:
        for k in range(first, first + n):
            coefficient = w.sigma[k] * slope32 + offset32
            w.user_bias_grads[w.user_slots[k]] += coefficient
            w.item_bias_grads[w.item_slots[k]] += coefficient
    if c.regularization > 0.0:
        share = np.float32(1.0 / max(n, 1))
        for k in range(first, first + n):
            w.user_counts[w.user_slots[k]] += share
            w.item_counts[w.item_slots[k]] += share


@kernel(inner=True)
def gather_side(
    table: F32,
    others: I32,
    slots: I32,
    grads: F32,
    bias_grads: F32,
    counts: F32,
    sigma: F32,
    dim: Scalar,
    c: KernelSettings,
    first: Scalar,
    n: Scalar,
    slope: Scalar,
    offset: Scalar,
) -> None:
    """Do what `gather_pairs` does for one side, if two threads share the work: the same sums in the same order.

    `table` and `others` are those of the other side, whose padded width is `dim`.
    """
    stride = max(c.u_dim, c.i_dim)
    slope32, offset32 = np.float32(slope), np.float32(offset)
    share = np.float32(1.0 / max(n, 1))
    for k in range(first, first + n):
        coefficient = sigma[k] * slope32 + offset32
        at, grad = np.int64(others[k]) * 3 * dim, np.int64(slots[k]) * stride
        for j in range(0, dim, LANES):
            store(grads, grad + j, load(grads, grad + j) + load(table, at + j) * coefficient)
        if c.scorer == FM:
            bias_grads[slots[k]] += coefficient
        if c.regularization > 0.0:
            counts[slots[k]] += share


@kernel(inner=True)
def gather_fake_items(
    w: Work, c: KernelSettings, fakes: F32, first: Scalar, pair: Scalar, n: Scalar, slope: Scalar
) -> None:
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    for k in range(n):
        coefficient = w.sigma[first + k] * np.float32(slope)
        slot = np.int64(w.user_slots[pair + k])
        for j in range(0, i_dim, LANES):
            g = load(w.user_grads, slot * stride + j) + load(fakes, k * i_dim + j) * coefficient
            store(w.user_grads, slot * stride + j, g)
        w.user_bias_grads[slot] += coefficient


@kernel(inner=True)
def gather_fake_users(
    m: Model, w: Work, c: KernelSettings, fakes: F32, first: Scalar, pair: Scalar, n: Scalar, slope: Scalar
) -> None:
    """Unlike fake items, whose user slot knows e_u, fake users have to add their share of grad r here."""
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    for k in range(n):
        coefficient = w.sigma[first + k] * np.float32(slope)
        slot, item_at = np.int64(w.item_slots[pair + k]), np.int64(w.items[pair + k]) * 3 * i_dim
        for j in range(0, u_dim, LANES):
            fake = load(fakes, k * u_dim + j) * coefficient
            store(w.item_grads, slot * stride + j, load(w.item_grads, slot * stride + j) + fake)
            if c.scorer == GMF:
                store(w.relation_grad, j, load(w.relation_grad, j) + fake * load(m.item, item_at + j))
        if c.scorer == BILINEAR:
            for q in range(u_dim):
                x = fakes[k * u_dim + q] * coefficient
                for j in range(0, i_dim, LANES):
                    g = load(w.relation_grad, q * i_dim + j) + load(m.item, item_at + j) * x
                    store(w.relation_grad, q * i_dim + j, g)
        w.item_bias_grads[slot] += coefficient
