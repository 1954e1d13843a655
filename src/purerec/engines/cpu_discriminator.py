"""The discriminator's step, compiled: slots, scores, coefficients, gradients, Adam. Formulas: see `game`.

A step works on the distinct rows of its batch. Each gets a slot; gradients gather in the slots without the
relation, which is applied once per slot and not once per pair:

    d phi / d e_u = r * e_i   so   grad e_u = r * G_u   with   G_u = sum of c_k * e_i   (c_k = dL/dphi of pair k)
    d phi / d r   = e_u * e_i so   grad r   = sum over slots of e_u * G_u

and for a bilinear relation the same with a matrix. All gradients are taken at the old parameters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from purerec.compiled import Scalar, kernel
from purerec.drawing import prefetch
from purerec.engines.cpu_generators import Side, make_fakes
from purerec.engines.cpu_kernels import (
    BILINEAR,
    FM,
    GMF,
    NNPU,
    PN,
    Model,
    Rules,
    activate,
    aligned,
    dense_adam,
    dot3,
    power,
    scalar_adam,
    sparse_step_size,
    turn,
    turn_back,
)
from purerec.engines.vectors import LANES, load, root, splat, store, total

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

_ZERO = np.float32(0.0)
_LINE = 16  # floats in a line of the cache
_IN_CACHE = 1 << 18
"""A table of so many floats (1 MB) stays in the second-level cache; rows of a larger one are asked for early."""
_AHEAD = 6
_USES = (
    "purerec.engines.vectors",
    "purerec.engines.cpu_kernels",
    "purerec.engines.cpu_generators",
    "purerec.drawing",
)


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
    """(4,): of the last step, sums of D over positives, unlabeled and fakes, and of the norms of the fakes."""


@kernel(inner=True)
def _assign_slots(
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
    """Give every distinct id a slot; without branches, because which id is new cannot be foreseen."""
    reach = dim if table.size > _IN_CACHE else 0
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


@kernel(depends_on=_USES, inner=True)
def _score_pairs(m: Model, w: Work, c: Rules, first: Scalar, n: Scalar) -> None:
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


@kernel(depends_on=_USES, inner=True)
def _score_fake_items(m: Model, w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar) -> None:
    """phi(u, i') of the n pairs from `pair` on; a fake has no bias of its own."""
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


@kernel(depends_on=_USES, inner=True)
def _score_fake_users(m: Model, w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar) -> None:
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


@kernel(depends_on=_USES, inner=True)
def _gather_pairs(m: Model, w: Work, c: Rules, first: Scalar, n: Scalar, slope: Scalar, offset: Scalar) -> None:
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


@kernel(depends_on=_USES, inner=True)
def _gather_fake_items(w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar, slope: Scalar) -> None:
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    for k in range(n):
        coefficient = w.sigma[first + k] * np.float32(slope)
        slot = np.int64(w.user_slots[pair + k])
        for j in range(0, i_dim, LANES):
            g = load(w.user_grads, slot * stride + j) + load(fakes, k * i_dim + j) * coefficient
            store(w.user_grads, slot * stride + j, g)
        w.user_bias_grads[slot] += coefficient


@kernel(depends_on=_USES, inner=True)
def _gather_fake_users(
    m: Model, w: Work, c: Rules, fakes: F32, first: Scalar, pair: Scalar, n: Scalar, slope: Scalar
) -> None:
    """Unlike fake items, whose user slot knows e_u, fake users have to give their share of grad r here."""
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


@kernel(depends_on=_USES, inner=True)
def _turn_gradients(m: Model, w: Work, c: Rules, n_users: Scalar, n_items: Scalar) -> None:
    """Bilinear: grad R = sum e_u G_u^T, grad e_u = R G_u, grad e_i = R^T G_i, the last two in place."""
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    for slot in range(n_users):
        user_at, at = np.int64(w.slot_users[slot]) * 3 * u_dim, slot * stride
        for q in range(u_dim):
            for j in range(0, i_dim, LANES):
                g = load(w.relation_grad, q * i_dim + j) + load(w.user_grads, at + j) * m.user[user_at + q]
                store(w.relation_grad, q * i_dim + j, g)
        turn_back(w.user_grads, at, m.relation, w.row, 0, u_dim, c.i_dim)
        for j in range(0, stride, LANES):
            store(w.user_grads, at + j, load(w.row, j) if j < u_dim else splat(_ZERO))
    for slot in range(n_items):
        at = slot * stride
        turn(w.item_grads, at, m.relation, w.row, 0, u_dim, c.i_dim)
        for j in range(0, stride, LANES):
            store(w.item_grads, at + j, load(w.row, j) if j < i_dim else splat(_ZERO))


@kernel(depends_on=_USES, inner=True)
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
    dim: Scalar,
    c: Rules,
    step_size: Scalar,
) -> Scalar:
    """SparseAdam on the rows of one side; empties the slots; returns the sum of weighted squares penalised."""
    gain1, gain2, epsilon = np.float32(1.0 - c.beta1), np.float32(1.0 - c.beta2), np.float32(c.epsilon)
    penalty = np.float32(c.regularization)
    squares = 0.0
    reach = 3 * dim if table.size > _IN_CACHE else 0
    for slot in range(n_slots):
        ahead = np.int64(slot_ids[min(slot + _AHEAD, n_slots - 1)]) * 3 * dim
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


@kernel(depends_on=_USES, inner=True)
def _update_biases(table: F32, grads: F32, slot_ids: I32, n_slots: Scalar, c: Rules, step_size: Scalar) -> None:
    for slot in range(n_slots):
        scalar_adam(table, np.int64(slot_ids[slot]) * 4, grads[slot], c, step_size, 1.0)


@kernel(depends_on=_USES, inline=True)
def discriminator_step(
    m: Model,
    w: Work,
    c: Rules,
    item_side: Side | None,
    user_side: Side | None,
    n_pos: Scalar,
    n_unl: Scalar,
    n_fake_items: Scalar,
    n_fake_users: Scalar,
    learning_rate: Scalar,
    t: Scalar,
) -> Scalar:
    """One step on the batch that lies in `w`; returns L_D before it. `t` counts steps from 1.

    Fakes are made from the noise that lies in the sides. A side that is None is not even compiled.
    """
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    pos = np.int64(0)  # not a literal, for which helpers would be compiled anew
    unl = aligned(n_pos)
    fake_item = unl + aligned(n_unl)
    fake_user = fake_item + aligned(n_fake_items)

    n_users = _assign_slots(w.users, pos, n_pos, w.slot_of_user, w.user_slots, w.slot_users, pos, m.user, u_dim)
    n_users = _assign_slots(w.users, unl, n_unl, w.slot_of_user, w.user_slots, w.slot_users, n_users, m.user, u_dim)
    n_items = _assign_slots(w.items, pos, n_pos, w.slot_of_item, w.item_slots, w.slot_items, pos, m.item, i_dim)
    n_items = _assign_slots(w.items, unl, n_unl, w.slot_of_item, w.item_slots, w.slot_items, n_items, m.item, i_dim)
    if c.scorer == BILINEAR:
        for slot in range(n_users):
            at = np.int64(w.slot_users[slot]) * 3 * u_dim
            turn(m.user, at, m.relation, w.user_turned, slot * i_dim, u_dim, c.i_dim)
        if user_side is not None:
            for slot in range(n_items):
                at = np.int64(w.slot_items[slot]) * 3 * i_dim
                turn_back(m.item, at, m.relation, w.item_turned, slot * u_dim, u_dim, c.i_dim)

    _score_pairs(m, w, c, pos, n_pos)
    _score_pairs(m, w, c, unl, n_unl)
    pos_phi, pos_sigma, pos_plus = activate(w.phi, w.sigma, pos, n_pos)
    _, unl_sigma, unl_plus = activate(w.phi, w.sigma, unl, n_unl)
    w.report[3] = 0.0
    fi_sigma = fi_plus = fu_sigma = fu_plus = 0.0
    if item_side is not None:
        w.report[3] += make_fakes(item_side, m, w.users, unl, n_fake_items)
        _score_fake_items(m, w, c, item_side.fakes, fake_item, unl, n_fake_items)
        _, fi_sigma, fi_plus = activate(w.phi, w.sigma, fake_item, n_fake_items)
    if user_side is not None:
        w.report[3] += make_fakes(user_side, m, w.items, unl, n_fake_users)
        _score_fake_users(m, w, c, user_side.fakes, fake_user, unl, n_fake_users)
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

    _gather_pairs(m, w, c, pos, n_pos, pos_slope, pos_offset)
    _gather_pairs(m, w, c, unl, n_unl, unl_slope, 0.0)
    if item_side is not None:
        _gather_fake_items(w, c, item_side.fakes, fake_item, unl, n_fake_items, fi_slope)
    if user_side is not None:
        _gather_fake_users(m, w, c, user_side.fakes, fake_user, unl, n_fake_users, fu_slope)

    step_size = sparse_step_size(c, learning_rate, t)
    is_gmf = c.scorer == GMF
    relation = w.ones if c.scorer == BILINEAR else m.relation
    if c.scorer == BILINEAR:
        _turn_gradients(m, w, c, n_users, n_items)
    squares = _update_rows(
        m.user, w.user_grads, w.slot_users, w.slot_of_user, w.user_counts, n_users, stride, relation,
        w.relation_grad, is_gmf, c.u_dim, c, step_size,
    )  # fmt: skip
    squares += _update_rows(
        m.item, w.item_grads, w.slot_items, w.slot_of_item, w.item_counts, n_items, stride, relation,
        w.relation_grad, False, c.i_dim, c, step_size,
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
        scalar_adam(m.bias, pos, gradient, c, rate, 1.0 / math.sqrt(1.0 - power(c.beta2, t)))
    return loss + 0.5 * c.regularization * squares
