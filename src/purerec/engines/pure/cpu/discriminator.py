"""The discriminator's step, compiled: slots, scores, coefficients, gradients, Adam. Formulas: see `spec`.

A step works on the distinct rows of its batch. Each gets a slot; gradients accumulate in the slots without the
relation, which is applied once per slot, not once per pair:

    d phi / d e_u = r * e_i   so   grad e_u = r * G_u   with   G_u = sum of c_k * e_i   (c_k = dL/dphi of pair k)
    d phi / d r   = e_u * e_i so   grad r   = sum over slots of e_u * G_u

and likewise, with a matrix, for a bilinear relation. All gradients are taken at the old parameters.

Two threads share a step by sides: one handles the users' rows, the other the items', and each scores half of the
pairs. Each sum that a parameter depends on is computed by one thread, in the same order as without the other, so
results are bit-identical. With a grid (see `grid`), the unlabeled are not pairs but rows and columns: their scores
and gradients are matrix products.
"""

from __future__ import annotations

import math

import numpy as np

from purerec.engines.pure.cpu.generators import make_fakes
from purerec.engines.pure.cpu.grid import (
    Grid,
    finish_columns,
    forget_columns,
    gather_grid,
    score_rows,
    take_items,
    take_users,
    total_of_rows,
)
from purerec.engines.pure.cpu.kernels import (
    BILINEAR,
    FM,
    GMF,
    GeneratorMemory,
    KernelSettings,
    Model,
    Work,
    activate,
    aligned,
    dense_adam,
    matrix_times_row,
    power,
    row_times_matrix,
    scalar_adam,
    sparse_step_size,
)
from purerec.engines.pure.cpu.pairs import (
    gather_fake_items,
    gather_fake_users,
    gather_pairs,
    gather_side,
    score_fake_items,
    score_fake_users,
    score_pairs,
)
from purerec.engines.pure.cpu.rows import assign_slots, turn_gradients, update_biases, update_rows
from purerec.engines.pure.cpu.softmax import share_out
from purerec.engines.pure.cpu.team import N_ITEMS, N_USERS, TeamMember, wait_for_other
from purerec.engines.pure.spec import D_FAKE, D_POSITIVE, D_UNLABELED, FAKE_NORM, N_UNLABELED, PENALTY
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES
from purerec.sampling.draws import Tables

_ZERO = np.float32(0.0)


@kernel(inner=True)
def _gather_alone(
    m: Model,
    w: Work,
    c: KernelSettings,
    of_users: Scalar,
    first: Scalar,
    n: Scalar,
    slope: Scalar,
    offset: Scalar,
) -> None:
    if of_users:
        gather_side(
            m.item, w.items, w.user_slots, w.user_grads, w.user_bias_grads, w.user_counts, w.sigma, c.i_dim,
            c, first, n, slope, offset,
        )  # fmt: skip
    else:
        gather_side(
            m.user, w.users, w.item_slots, w.item_grads, w.item_bias_grads, w.item_counts, w.sigma, c.u_dim,
            c, first, n, slope, offset,
        )  # fmt: skip


@kernel(inline=True)
def discriminator_step(
    m: Model,
    w: Work,
    c: KernelSettings,
    item_side: GeneratorMemory | None,
    user_side: GeneratorMemory | None,
    team: TeamMember | None,
    grid: Grid | None,
    t: Tables,
    n_pos: Scalar,
    n_unl: Scalar,
    n_columns: Scalar,
    n_fake_items: Scalar,
    n_fake_users: Scalar,
    learning_rate: Scalar,
    step: Scalar,
) -> Scalar:
    """Take one step on the batch in `w`; return L_D before it, without the penalty. `step` counts from 1.

    There are `n_unl` unlabeled pairs; with a grid, `n_unl` users and `n_columns` items. Fakes use the noise stored in
    the sides. Branches for arguments that are None are not compiled.
    """
    u_dim, i_dim = c.u_dim, c.i_dim
    stride = max(u_dim, i_dim)
    pos = np.int64(0)  # not a literal, for which helpers would be compiled again
    unl = aligned(n_pos)
    n_unl_items = n_unl
    if grid is not None:
        n_unl_items = n_columns
    fake_item = unl + aligned(max(n_unl, n_unl_items))
    fake_user = fake_item + aligned(n_fake_items)
    sees_users = sees_items = True
    if team is not None:
        sees_users, sees_items = team.number == 0, team.number == 1

    n_users = n_items = np.int64(0)
    if sees_users:
        n_users = assign_slots(w.users, pos, n_pos, w.slot_of_user, w.user_slots, w.slot_users, pos, m.user, u_dim)
        n_users = assign_slots(
            w.users, unl, n_unl, w.slot_of_user, w.user_slots, w.slot_users, n_users, m.user, u_dim
        )
    if sees_items:
        n_items = assign_slots(w.items, pos, n_pos, w.slot_of_item, w.item_slots, w.slot_items, pos, m.item, i_dim)
        n_items = assign_slots(
            w.items, unl, n_unl_items, w.slot_of_item, w.item_slots, w.slot_items, n_items, m.item, i_dim
        )
    if c.scorer == BILINEAR:  # always one thread: two would have to wait for each other once more
        for slot in range(n_users):
            at = np.int64(w.slot_users[slot]) * 3 * u_dim
            row_times_matrix(m.user, at, m.relation, w.user_turned, slot * i_dim, u_dim, c.i_dim)
        if user_side is not None:
            for slot in range(n_items):
                at = np.int64(w.slot_items[slot]) * 3 * i_dim
                matrix_times_row(m.item, at, m.relation, w.item_turned, slot * u_dim, u_dim, c.i_dim)

    if grid is not None:
        if sees_users:
            take_users(m, w, c, grid, unl, n_unl)
        if sees_items:
            take_items(m, w, c, grid, unl, n_columns)
    pos_start, pos_end, unl_start, unl_end = pos, n_pos, pos, n_unl  # what this thread scores
    if team is not None:
        team.board[N_USERS if sees_users else N_ITEMS] = n_users + n_items
        wait_for_other(team.board)  # the other's slots, and the last step's parameters
        n_users, n_items = team.board[N_USERS], team.board[N_ITEMS]
        if sees_users:
            pos_end, unl_end = n_pos // 2, n_unl // 2
        else:
            pos_start, unl_start = n_pos // 2, n_unl // 2
    score_pairs(m, w, c, pos_start, pos_end - pos_start)
    if grid is not None:
        score_rows(t, m, w, c, grid, unl, unl_start, unl_end, n_columns)
    else:
        score_pairs(m, w, c, unl + unl_start, unl_end - unl_start)
    w.report[FAKE_NORM] = 0.0
    if item_side is not None and sees_users:
        w.report[FAKE_NORM] += make_fakes(item_side, m, w.users, unl, n_fake_items)
        score_fake_items(m, w, c, item_side.fakes, fake_item, unl, n_fake_items)
    if user_side is not None and sees_items:
        w.report[FAKE_NORM] += make_fakes(user_side, m, w.items, unl, n_fake_users)
        score_fake_users(m, w, c, user_side.fakes, fake_user, unl, n_fake_users)
    if team is not None:
        wait_for_other(team.board)  # the other's scores
    if grid is not None:
        middle = n_columns // 2 // LANES * LANES
        if team is None:
            finish_columns(c, grid, pos, n_columns, n_unl, n_columns)
        elif sees_users:
            finish_columns(c, grid, pos, middle, n_unl, n_columns)
        else:
            finish_columns(c, grid, middle, n_columns, n_unl, n_columns)
        if team is not None:
            wait_for_other(team.board)  # the other's columns
    # c_k = slope * sigma + offset, with sigma = D, or a share for the softmax risk; the loss is divided by the prior.
    # Each thread fills its own `sigma`: cheaper than waiting for one to do it for both.
    per_pos, n_free = 1.0 / max(n_pos, 1), np.float64(n_unl)
    if c.temperature > 0.0:
        pos_slope = unl_slope = per_pos / c.temperature
        pos_offset = -pos_slope
        loss, pos_sigma, unl_sigma = share_out(w.phi, w.sigma, c, n_pos, unl, n_unl)
        loss *= per_pos
    else:
        pos_phi, pos_sigma, pos_plus = activate(w.phi, w.sigma, pos, n_pos)
        if grid is not None:
            unl_sigma, unl_plus, n_free = total_of_rows(grid, n_unl)
        else:
            _, unl_sigma, unl_plus = activate(w.phi, w.sigma, unl, n_unl)
        pos_slope, pos_offset, unl_slope = c.positive * per_pos, -per_pos, c.unlabeled / max(n_free, 1.0)
        loss = pos_slope * pos_plus - per_pos * pos_phi + unl_slope * unl_plus
        negative = unl_slope * unl_plus - (per_pos - pos_slope) * pos_plus
        if c.is_clamped and negative < 0.0:
            loss = -negative
            pos_slope, pos_offset, unl_slope = per_pos - pos_slope, 0.0, -unl_slope
    fi_sigma = fi_plus = fu_sigma = fu_plus = 0.0
    if item_side is not None:
        _, fi_sigma, fi_plus = activate(w.phi, w.sigma, fake_item, n_fake_items)
    if user_side is not None:
        _, fu_sigma, fu_plus = activate(w.phi, w.sigma, fake_user, n_fake_users)
    w.report[D_POSITIVE], w.report[D_UNLABELED], w.report[D_FAKE] = pos_sigma, unl_sigma, fi_sigma + fu_sigma
    w.report[N_UNLABELED] = n_free

    fi_slope = c.fake / max(n_fake_items, 1)
    fu_slope = c.fake / max(n_fake_users, 1)
    loss += fi_slope * fi_plus + fu_slope * fu_plus

    if team is None:
        gather_pairs(m, w, c, pos, n_pos, pos_slope, pos_offset)
        if grid is None:
            gather_pairs(m, w, c, unl, n_unl, unl_slope, 0.0)
    else:
        _gather_alone(m, w, c, sees_users, pos, n_pos, pos_slope, pos_offset)
        if grid is None:
            _gather_alone(m, w, c, sees_users, unl, n_unl, unl_slope, 0.0)
    if grid is not None:
        if sees_users:
            gather_grid(
                w.user_slots, unl, grid.user_pulls, c.i_dim, grid.row_sigma, grid.row_free, w.user_grads,
                w.user_bias_grads, w.user_counts, c, n_unl, unl_slope, n_free,
            )  # fmt: skip
        if sees_items:
            gather_grid(
                w.item_slots, unl, grid.item_pulls, c.u_dim, grid.column_sigma, grid.column_free, w.item_grads,
                w.item_bias_grads, w.item_counts, c, n_columns, unl_slope, n_free,
            )  # fmt: skip
            forget_columns(grid, w.items, unl, n_columns)
    if item_side is not None and sees_users:
        gather_fake_items(w, c, item_side.fakes, fake_item, unl, n_fake_items, fi_slope)
    if user_side is not None and sees_items:
        gather_fake_users(m, w, c, user_side.fakes, fake_user, unl, n_fake_users, fu_slope)
    if team is not None:
        wait_for_other(team.board)  # from here on rows change

    step_size = sparse_step_size(c, learning_rate, step)
    is_gmf = c.scorer == GMF
    relation = w.ones if c.scorer == BILINEAR else m.relation
    if c.scorer == BILINEAR:
        turn_gradients(m, w, c, n_users, n_items)
    squares = 0.0
    first_item, end_item = pos, n_items
    if team is not None:  # if there are few user rows, their thread also takes some item rows
        first_item = max(pos, (n_items - n_users) // 2)
        if sees_users:
            first_item, end_item = pos, first_item
    if sees_users:
        squares = update_rows(
            m.user, w.user_grads, w.slot_users, w.slot_of_user, w.user_counts, pos, n_users, stride, relation,
            w.relation_grad, is_gmf, c.u_dim, c, step_size,
        )  # fmt: skip
    squares += update_rows(
        m.item, w.item_grads, w.slot_items, w.slot_of_item, w.item_counts, first_item, end_item, stride, relation,
        w.relation_grad, False, c.i_dim, c, step_size,
    )  # fmt: skip
    w.report[PENALTY] = 0.5 * c.regularization * squares
    if sees_users:
        if c.scorer == FM and c.temperature == 0.0:
            update_biases(m.user_bias, w.user_bias_grads, w.slot_users, n_users, c, step_size)
        if c.scorer == FM or n_fake_items > 0:
            w.user_bias_grads[:n_users] = _ZERO
    if sees_items:
        if c.scorer == FM:
            update_biases(m.item_bias, w.item_bias_grads, w.slot_items, n_items, c, step_size)
        if c.scorer == FM or n_fake_users > 0:
            w.item_bias_grads[:n_items] = _ZERO
    if team is not None:
        wait_for_other(team.board)  # nobody needs the old relation any more
    if sees_users:
        if c.scorer in (GMF, BILINEAR):
            n = u_dim if is_gmf else u_dim * i_dim
            dense_adam(m.relation, w.relation_grad, n, c, learning_rate, step)
            w.relation_grad[:n] = _ZERO
        if c.train_bias:
            gradient = pos_slope * pos_sigma + pos_offset * n_pos + unl_slope * unl_sigma
            gradient += fi_slope * fi_sigma + fu_slope * fu_sigma
            rate = learning_rate / (1.0 - power(c.beta1, step))
            scalar_adam(m.bias, pos, gradient, c, rate, 1.0 / math.sqrt(1.0 - power(c.beta2, step)))
    return loss
