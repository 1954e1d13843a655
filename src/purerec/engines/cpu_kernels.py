"""The discriminator's step, compiled: slots, scores, coefficients, gradients, Adam. Formulas: see `game`.

A step works on the distinct rows of its batch. Each gets a slot; gradients gather in the slots without the
relation, which is applied once per slot and not once per pair:

    d phi / d e_u = r * e_i   so   grad e_u = r * G_u   with   G_u = sum of c_k * e_i   (c_k = dL/dphi of pair k)
    d phi / d r   = e_u * e_i so   grad r   = sum over slots of e_u * G_u

and for a bilinear relation the same with a matrix. All gradients are taken at the old parameters.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from purerec.compiled import Scalar, kernel
from purerec.engines.vectors import (
    LANES,
    Vector,
    first_lanes,
    load,
    root,
    sigmoid_softplus,
    splat,
    store,
    total,
)

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

MF, GMF, BILINEAR, FM = 0, 1, 2, 3
PU, NNPU, PN = 0, 1, 2
_ZERO = np.float32(0.0)
_VECTORS = ("purerec.engines.vectors", "purerec.sampling")


class Model(NamedTuple):
    """The discriminator. Every value lies beside its two Adam moments, since a step needs all three."""

    user: F32
    """(n_users * 3 * d_u,): per user the embedding, its first and its second moment; d_u is padded."""
    item: F32
    relation: F32
    """(3 * n,): n values, then their moments; gmf: d_u, bilinear: d_u * d_i row by row, else d_u ones."""
    bias: F32
    """(3,)"""
    user_bias: F32
    """(n_users * 4,): value, moments, nothing; fm only."""
    item_bias: F32


class Rules(NamedTuple):
    """The settings, as kernels want them. Tuples of blocks have a length that the compiler knows."""

    u_blocks: tuple[int, ...]
    """One zero for every `LANES` of the padded user embedding."""
    i_blocks: tuple[int, ...]
    scorer: int
    risk: int
    train_bias: bool
    prior: float
    regularization: float
    fake_weight: float
    beta1: float
    beta2: float
    epsilon: float


class Work(NamedTuple):
    """A step's batch and scratch, allocated once.

    Arrays over pairs hold the positives from 0 and the unlabeled from the next multiple of `LANES`; `phi` and
    `sigma` go on with pairs of fake items and pairs of fake users, aligned likewise.
    """

    users: I32
    items: I32
    user_slots: I32
    item_slots: I32
    phi: F32
    sigma: F32
    slot_of_user: I32
    """(n_users,): -1 between steps."""
    slot_of_item: I32
    slot_users: I32
    slot_items: I32
    user_grads: F32
    """(slots * max(d_u, d_i),)"""
    item_grads: F32
    user_counts: F32
    """(slots,): the weight of a row in the mean squares that are penalised."""
    item_counts: F32
    user_bias_grads: F32
    item_bias_grads: F32
    user_turned: F32
    """(slots * d_i,): e_u times the bilinear relation."""
    item_turned: F32
    relation_grad: F32
    ones: F32
    row: F32
    report: F64
    """Of the last step: sums of D over positives, unlabeled, fakes."""


@kernel()
def aligned(n: Scalar) -> Scalar:
    return (n + LANES - 1) // LANES * LANES


@kernel()
def power(base: Scalar, exponent: Scalar) -> Scalar:
    return math.exp(math.log(base) * exponent) if base > 0.0 else 0.0


@kernel(depends_on=_VECTORS)
def sparse_step_size(c: Rules, learning_rate: Scalar, t: Scalar) -> Scalar:
    """torch.optim.SparseAdam: both bias corrections sit in the step size, epsilon outside of them."""
    return np.float32(learning_rate * math.sqrt(1.0 - power(c.beta2, t)) / (1.0 - power(c.beta1, t)))


@kernel(depends_on=_VECTORS)
def dense_adam(values: F32, grads: F32, n: Scalar, c: Rules, learning_rate: Scalar, t: Scalar) -> None:
    """torch.optim.Adam on n (a multiple of LANES) values with their moments behind them."""
    step_size = np.float32(learning_rate / (1.0 - power(c.beta1, t)))
    scale = np.float32(1.0 / math.sqrt(1.0 - power(c.beta2, t)))
    gain1, gain2, epsilon = np.float32(1.0 - c.beta1), np.float32(1.0 - c.beta2), np.float32(c.epsilon)
    for k in range(0, n, LANES):
        g, m, v = load(grads, k), load(values, n + k), load(values, 2 * n + k)
        m = m + (g - m) * gain1
        v = v + (g * g - v) * gain2
        store(values, n + k, m)
        store(values, 2 * n + k, v)
        store(values, k, load(values, k) - m / (root(v) * scale + epsilon) * step_size)


@kernel()
def scalar_adam(values: F32, at: Scalar, g: Scalar, c: Rules, step_size: Scalar, scale: Scalar) -> None:
    """One value with its moments behind it; `scale` is what the root of the second moment is multiplied by."""
    m, v = values[at + 1], values[at + 2]
    m += (np.float32(g) - m) * np.float32(1.0 - c.beta1)
    v += (np.float32(g) * np.float32(g) - v) * np.float32(1.0 - c.beta2)
    values[at + 1], values[at + 2] = m, v
    root_v = np.float32(math.sqrt(v)) * np.float32(scale)
    values[at] -= np.float32(step_size) * m / (root_v + np.float32(c.epsilon))


@kernel()
def _assign_slots(
    ids: I32, first: Scalar, n: Scalar, slot_of: I32, slots: I32, slot_ids: I32, n_slots: Scalar
) -> Scalar:
    """Give every distinct id a slot; without branches, because which id is new cannot be foreseen."""
    for k in range(first, first + n):
        id_ = ids[k]
        slot = slot_of[id_]
        is_new = slot < 0
        slot = n_slots if is_new else slot
        slot_of[id_] = slot
        slots[k] = slot
        slot_ids[n_slots] = id_
        n_slots += np.int64(is_new)
    return n_slots


@kernel(depends_on=_VECTORS)
def dot3(a: F32, a0: Scalar, b: F32, b0: Scalar, r: F32, blocks: Any) -> Vector:
    """Lanes of the sum of a * b * r over the blocks."""
    acc = load(a, a0) * load(r, 0) * load(b, b0)
    for j in range(1, len(blocks)):
        acc = acc + load(a, a0 + j * LANES) * load(r, j * LANES) * load(b, b0 + j * LANES)
    return acc


@kernel(depends_on=_VECTORS)
def turn(row: F32, at: Scalar, matrix: F32, out: F32, out_at: Scalar, n_rows: Scalar, blocks: Any) -> None:
    """out = row @ matrix, for a matrix (n_rows, 8 * len(blocks)) stored row by row."""
    width = len(blocks) * LANES
    for j in range(len(blocks)):
        acc = splat(_ZERO)
        for k in range(n_rows):
            acc = acc + load(matrix, k * width + j * LANES) * row[at + k]
        store(out, out_at + j * LANES, acc)


@kernel(depends_on=_VECTORS)
def turn_back(
    row: F32, at: Scalar, matrix: F32, out: F32, out_at: Scalar, n_rows: Scalar, blocks: Any
) -> None:
    """out = matrix @ row."""
    width = len(blocks) * LANES
    for k in range(n_rows):
        acc = splat(_ZERO)
        for j in range(len(blocks)):
            acc = acc + load(matrix, k * width + j * LANES) * load(row, at + j * LANES)
        out[out_at + k] = total(acc)


@kernel(depends_on=_VECTORS)
def _score_pairs(m: Model, w: Work, c: Rules, first: Scalar, n: Scalar) -> None:
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
    bias = m.bias[0]
    if c.scorer == BILINEAR:
        for k in range(first, first + n):
            at = w.items[k] * 3 * i_dim
            w.phi[k] = (
                total(dot3(w.user_turned, w.user_slots[k] * i_dim, m.item, at, w.ones, c.i_blocks)) + bias
            )
        return
    for k in range(first, first + n):
        u, i = np.int64(w.users[k]), np.int64(w.items[k])
        w.phi[k] = total(dot3(m.user, u * 3 * u_dim, m.item, i * 3 * i_dim, m.relation, c.u_blocks)) + bias
    if c.scorer == FM:
        for k in range(first, first + n):
            w.phi[k] += m.user_bias[np.int64(w.users[k]) * 4] + m.item_bias[np.int64(w.items[k]) * 4]


@kernel(depends_on=_VECTORS)
def _score_fake_items(m: Model, w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar) -> None:
    """phi(u, i') of the n pairs from `pair` on; a fake has no bias of its own."""
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
    for k in range(n):
        u = np.int64(w.users[pair + k])
        if c.scorer == BILINEAR:
            acc = dot3(w.user_turned, w.user_slots[pair + k] * i_dim, fakes, k * i_dim, w.ones, c.i_blocks)
        else:
            acc = dot3(m.user, u * 3 * u_dim, fakes, k * i_dim, m.relation, c.u_blocks)
        w.phi[first + k] = total(acc) + m.bias[0]
        if c.scorer == FM:
            w.phi[first + k] += m.user_bias[u * 4]


@kernel(depends_on=_VECTORS)
def _score_fake_users(m: Model, w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar) -> None:
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
    for k in range(n):
        i = np.int64(w.items[pair + k])
        if c.scorer == BILINEAR:
            acc = dot3(w.item_turned, w.item_slots[pair + k] * u_dim, fakes, k * u_dim, w.ones, c.u_blocks)
        else:
            acc = dot3(m.item, i * 3 * i_dim, fakes, k * u_dim, m.relation, c.u_blocks)
        w.phi[first + k] = total(acc) + m.bias[0]
        if c.scorer == FM:
            w.phi[first + k] += m.item_bias[i * 4]


@kernel(depends_on=_VECTORS)
def activate(phi: F32, sigma: F32, first: Scalar, n: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """sigma = D of n pairs; returns the sums of phi, of D and of softplus(phi)."""
    phis, sigmas, losses = splat(_ZERO), splat(_ZERO), splat(_ZERO)
    for k in range(0, n, LANES):
        here = first_lanes(n - k)
        x = load(phi, first + k)
        if n - k < LANES:
            for lane in range(n - k, LANES):  # what lies beyond may be NaN, which no mask removes
                phi[first + k + lane] = _ZERO
            x = load(phi, first + k)
        s, p = sigmoid_softplus(x)
        store(sigma, first + k, s)
        phis, sigmas, losses = phis + x * here, sigmas + s * here, losses + p * here
    return np.float64(total(phis)), np.float64(total(sigmas)), np.float64(total(losses))


@kernel(depends_on=_VECTORS)
def _gather_pairs(m: Model, w: Work, c: Rules, first: Scalar, n: Scalar, slope: Scalar, offset: Scalar) -> None:
    """Add c_k * e_i to the users' slots and c_k * e_u to the items', with c_k = slope * D + offset."""
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
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


@kernel(depends_on=_VECTORS)
def _gather_fake_items(
    w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar, slope: Scalar
) -> None:
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
    stride = max(u_dim, i_dim)
    for k in range(n):
        coefficient = w.sigma[first + k] * np.float32(slope)
        slot = np.int64(w.user_slots[pair + k])
        for j in range(0, i_dim, LANES):
            g = load(w.user_grads, slot * stride + j) + load(fakes, k * i_dim + j) * coefficient
            store(w.user_grads, slot * stride + j, g)
        w.user_bias_grads[slot] += coefficient


@kernel(depends_on=_VECTORS)
def _gather_fake_users(
    m: Model, w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar, slope: Scalar
) -> None:
    """Unlike fake items, whose user slot knows e_u, fake users have to give their share of grad r here."""
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
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


@kernel(depends_on=_VECTORS)
def _turn_gradients(m: Model, w: Work, c: Rules, n_users: Scalar, n_items: Scalar) -> None:
    """Bilinear: grad R = sum e_u G_u^T, grad e_u = R G_u, grad e_i = R^T G_i, the last two in place."""
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
    stride = max(u_dim, i_dim)
    for slot in range(n_users):
        user_at, at = np.int64(w.slot_users[slot]) * 3 * u_dim, slot * stride
        for q in range(u_dim):
            for j in range(0, i_dim, LANES):
                g = load(w.relation_grad, q * i_dim + j) + load(w.user_grads, at + j) * m.user[user_at + q]
                store(w.relation_grad, q * i_dim + j, g)
        turn_back(w.user_grads, at, m.relation, w.row, 0, u_dim, c.i_blocks)
        for j in range(0, stride, LANES):
            store(w.user_grads, at + j, load(w.row, j) if j < u_dim else splat(_ZERO))
    for slot in range(n_items):
        at = slot * stride
        turn(w.item_grads, at, m.relation, w.row, 0, u_dim, c.i_blocks)
        for j in range(0, stride, LANES):
            store(w.item_grads, at + j, load(w.row, j) if j < i_dim else splat(_ZERO))


@kernel(depends_on=_VECTORS)
def _update_rows(
    table: F32,
    grads: F32,
    slot_ids: I32,
    slot_of: I32,
    counts: F32,
    n_slots: Scalar,
    stride: Scalar,
    relation: F32,
    relation_grad: F32,
    is_gmf_user: Scalar,
    blocks: Any,
    c: Rules,
    step_size: Scalar,
) -> Scalar:
    """SparseAdam on the rows of one side; empties the slots; returns the sum of weighted squares penalised."""
    dim = len(blocks) * LANES
    gain1, gain2, epsilon = np.float32(1.0 - c.beta1), np.float32(1.0 - c.beta2), np.float32(c.epsilon)
    penalty = np.float32(c.regularization)
    squares = 0.0
    for slot in range(n_slots):
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


@kernel(depends_on=_VECTORS)
def _update_biases(table: F32, grads: F32, slot_ids: I32, n_slots: Scalar, c: Rules, step_size: Scalar) -> None:
    for slot in range(n_slots):
        scalar_adam(table, np.int64(slot_ids[slot]) * 4, grads[slot], c, step_size, 1.0)


@kernel(depends_on=_VECTORS)
def discriminator_step(
    m: Model,
    w: Work,
    c: Rules,
    fake_items: F32,
    fake_users: F32,
    n_pos: Scalar,
    n_unl: Scalar,
    n_fake_items: Scalar,
    n_fake_users: Scalar,
    learning_rate: Scalar,
    t: Scalar,
) -> Scalar:
    """One step on the batch that lies in `w`; returns L_D before it. `t` counts steps from 1."""
    u_dim, i_dim = len(c.u_blocks) * LANES, len(c.i_blocks) * LANES
    stride = max(u_dim, i_dim)
    unl = aligned(n_pos)
    fake_item = unl + aligned(n_unl)
    fake_user = fake_item + aligned(n_fake_items)

    n_users = _assign_slots(w.users, 0, n_pos, w.slot_of_user, w.user_slots, w.slot_users, 0)
    n_users = _assign_slots(w.users, unl, n_unl, w.slot_of_user, w.user_slots, w.slot_users, n_users)
    n_items = _assign_slots(w.items, 0, n_pos, w.slot_of_item, w.item_slots, w.slot_items, 0)
    n_items = _assign_slots(w.items, unl, n_unl, w.slot_of_item, w.item_slots, w.slot_items, n_items)
    if c.scorer == BILINEAR:
        for slot in range(n_users):
            at = np.int64(w.slot_users[slot]) * 3 * u_dim
            turn(m.user, at, m.relation, w.user_turned, slot * i_dim, u_dim, c.i_blocks)
        if n_fake_users > 0:
            for slot in range(n_items):
                at = np.int64(w.slot_items[slot]) * 3 * i_dim
                turn_back(m.item, at, m.relation, w.item_turned, slot * u_dim, u_dim, c.i_blocks)

    _score_pairs(m, w, c, 0, n_pos)
    _score_pairs(m, w, c, unl, n_unl)
    _score_fake_items(m, w, c, fake_items, fake_item, unl, n_fake_items)
    _score_fake_users(m, w, c, fake_users, fake_user, unl, n_fake_users)
    pos_phi, pos_sigma, pos_plus = activate(w.phi, w.sigma, 0, n_pos)
    _, unl_sigma, unl_plus = activate(w.phi, w.sigma, unl, n_unl)
    _, fi_sigma, fi_plus = activate(w.phi, w.sigma, fake_item, n_fake_items)
    _, fu_sigma, fu_plus = activate(w.phi, w.sigma, fake_user, n_fake_users)
    w.report[0], w.report[1], w.report[2] = pos_sigma, unl_sigma, fi_sigma + fu_sigma

    # c_k = slope * D + offset, by risk; the loss is divided by the prior throughout.
    per_pos, per_unl = 1.0 / max(n_pos, 1), 1.0 / max(n_unl, 1)
    pos_slope, pos_offset, unl_slope = 0.0, -per_pos, per_unl / c.prior
    loss = -per_pos * pos_phi + unl_slope * unl_plus
    if c.risk == PN:
        pos_slope = per_pos
        unl_slope *= 1.0 - c.prior
        loss = per_pos * (pos_plus - pos_phi) + unl_slope * unl_plus
    elif c.risk == NNPU and per_unl * unl_plus - c.prior * per_pos * pos_plus < 0.0:
        loss = per_pos * pos_plus - unl_slope * unl_plus
        pos_slope, pos_offset, unl_slope = per_pos, 0.0, -unl_slope
    fi_slope = c.fake_weight / c.prior / max(n_fake_items, 1)
    fu_slope = c.fake_weight / c.prior / max(n_fake_users, 1)
    loss += fi_slope * fi_plus + fu_slope * fu_plus

    _gather_pairs(m, w, c, 0, n_pos, pos_slope, pos_offset)
    _gather_pairs(m, w, c, unl, n_unl, unl_slope, 0.0)
    _gather_fake_items(w, c, fake_items, fake_item, unl, n_fake_items, fi_slope)
    _gather_fake_users(m, w, c, fake_users, fake_user, unl, n_fake_users, fu_slope)

    step_size = sparse_step_size(c, learning_rate, t)
    is_gmf = c.scorer == GMF
    relation = w.ones if c.scorer == BILINEAR else m.relation
    if c.scorer == BILINEAR:
        _turn_gradients(m, w, c, n_users, n_items)
    squares = _update_rows(
        m.user, w.user_grads, w.slot_users, w.slot_of_user, w.user_counts, n_users, stride, relation,
        w.relation_grad, is_gmf, c.u_blocks, c, step_size,
    )  # fmt: skip
    squares += _update_rows(
        m.item, w.item_grads, w.slot_items, w.slot_of_item, w.item_counts, n_items, stride, relation,
        w.relation_grad, False, c.i_blocks, c, step_size,
    )  # fmt: skip
    if c.scorer == FM:
        _update_biases(m.user_bias, w.user_bias_grads, w.slot_users, n_users, c, step_size)
        _update_biases(m.item_bias, w.item_bias_grads, w.slot_items, n_items, c, step_size)
    if c.scorer == FM or n_fake_items > 0:
        w.user_bias_grads[:n_users] = _ZERO
    if c.scorer == FM or n_fake_users > 0:
        w.item_bias_grads[:n_items] = _ZERO
    if c.scorer in (GMF, BILINEAR):
        n = u_dim if is_gmf else u_dim * i_dim
        dense_adam(m.relation, w.relation_grad, n, c, learning_rate, t)
        w.relation_grad[:n] = _ZERO
    if c.train_bias:
        gradient = pos_slope * pos_sigma + pos_offset * n_pos + unl_slope * unl_sigma
        gradient += fi_slope * fi_sigma + fu_slope * fu_sigma
        rate = learning_rate / (1.0 - power(c.beta1, t))
        scalar_adam(m.bias, 0, gradient, c, rate, 1.0 / math.sqrt(1.0 - power(c.beta2, t)))
    return loss + 0.5 * c.regularization * squares
