"""Whole epochs in one compiled call: shuffling, drawing, generating and stepping, without a return to Python."""

from __future__ import annotations

import numpy as np

from purerec.engines.pure.cpu.discriminator import discriminator_step
from purerec.engines.pure.cpu.dynamic_negatives import Choice, choose_unlabeled
from purerec.engines.pure.cpu.generators import fill_noise, step_both
from purerec.engines.pure.cpu.grid import Grid, draw_columns
from purerec.engines.pure.cpu.kernels import GeneratorMemory, KernelSettings, Model, Work, aligned
from purerec.engines.pure.cpu.team import TeamMember, wait_for_other
from purerec.engines.pure.spec import (
    D_FAKE,
    D_POSITIVE,
    D_UNLABELED,
    FAKE_NORM,
    LOSS,
    N_FAKES,
    N_POSITIVE,
    N_STEPS,
    N_UNLABELED,
    PENALTY,
)
from purerec.jit.counter_rng import mulhi, shuffle, splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.sampling.draws import (
    ITEM_MASK,
    USER_SHIFT,
    Tables,
    draw_items,
    draw_pairs,
    draw_popular_items,
    shuffle_pairs,
)
from purerec.types import F64, I32, U64

PER_USER, GLOBAL, POPULARITY, SHARED = 0, 1, 2, 3
DRAWS = {"per_user": PER_USER, "global": GLOBAL, "popularity": POPULARITY, "shared": SHARED}
SHUFFLE, DRAW, ITEM_NOISE, USER_NOISE, CANDIDATES, CHOICE, ASKED = range(7)
"""Places in the array of an epoch's keys."""


@kernel(inner=True)
def _draw_unlabeled(
    t: Tables, how: Scalar, users: I32, items: I32, n: Scalar, key: Scalar, counter: Scalar
) -> Scalar:
    """Draw n unlabeled pairs, for given users unless `how` is GLOBAL; return how many are left without those users
    who have no unobserved item."""
    if how == GLOBAL:
        draw_pairs(t, n, key, counter, users, items)
        return n
    if how == POPULARITY:
        draw_popular_items(t, users, n, key, counter, items)
    else:
        draw_items(t, users, n, key, counter, items)
    kept = np.int64(0)
    for k in range(n):
        users[kept], items[kept] = users[k], items[k]
        kept += np.int64(items[k] >= 0)
    return kept


@kernel()
def discriminator_epoch(
    t: Tables,
    pairs: U64,
    m: Model,
    w: Work,
    c: KernelSettings,
    item_side: GeneratorMemory | None,
    user_side: GeneratorMemory | None,
    choice: Choice | None,
    team: TeamMember | None,
    grid: Grid | None,
    asked: I32 | None,
    how: Scalar,
    batch_size: Scalar,
    n_unlabeled: Scalar,
    n_columns: Scalar,
    fake_ratio: Scalar,
    learning_rate: Scalar,
    n_steps_before: Scalar,
    keys: U64,
    sums: F64,
) -> None:
    """Run one epoch over all positives (Algorithm 1, lines 5 to 9) and add to `sums`. A fake ratio of 0 leaves the
    generators out.

    With a team, two threads call this at the same time, each with its own `sums`; every user must have an unobserved
    item.
    Unlabeled pairs are drawn for random users among `asked`; None: for those of the batch's positives in turn.
    With a grid, a batch has as many users as positives, once each, and `n_columns` items for all of them.
    """
    sees_users = sees_items = True
    if team is not None:
        sees_users, sees_items = team.number == 0, team.number == 1
    if sees_users:
        shuffle_pairs(t, keys[SHUFFLE], pairs)
    if grid is not None and sees_items:
        shuffle(grid.order, keys[DRAW])  # an epoch cycles through it: every item is drawn equally often
    if team is not None:
        wait_for_other(team.board)
    n_batches = (pairs.size + batch_size - 1) // batch_size
    item_counter = user_counter = np.uint64(0)
    for b in range(n_batches):
        first = b * batch_size
        n_pos = min(batch_size, pairs.size - first)
        if sees_users:
            for k in range(n_pos):
                w.users[k] = np.int32(pairs[first + k] >> USER_SHIFT)
                w.items[k] = np.int32(pairs[first + k] & ITEM_MASK)
        unl = aligned(n_pos)
        drawn = b * n_unlabeled // n_batches
        n_unl = (b + 1) * n_unlabeled // n_batches - drawn
        if grid is not None:
            drawn, n_unl = first, n_pos
        start, end = np.int64(0), n_unl  # range of the unlabeled pairs that this thread draws
        if team is not None:
            start, end = (start, n_unl // 2) if sees_users else (n_unl // 2, n_unl)
        if asked is not None:
            for k in range(start, end):
                x = splitmix64(keys[ASKED], np.uint64(drawn + k))
                w.users[unl + k] = asked[np.int64(mulhi(x, np.uint64(asked.size)))]
        elif how != GLOBAL:
            for again in range(0, n_unl, n_pos):  # cycle through the positives' users
                for k in range(max(start - again, np.int64(0)), min(n_pos, end - again)):
                    w.users[unl + again + k] = np.int32(pairs[first + k] >> USER_SHIFT)
        users, items = w.users[unl + start :], w.items[unl + start :]
        counter, n_drawn = np.uint64(drawn + start), n_unl
        if grid is not None:
            if sees_items:
                draw_columns(grid, w.items, unl, b * n_columns, n_columns)
        else:
            n_drawn = _draw_unlabeled(t, how, users, items, end - start, keys[DRAW], counter)
        if choice is not None:
            if team is not None:
                wait_for_other(team.board)  # the other's part of the last step
            choose_unlabeled(t, m, c, choice, users, items, n_drawn, keys[CANDIDATES], keys[CHOICE], counter)
        if team is not None:
            wait_for_other(team.board)  # the other's draws
        else:
            n_unl = n_drawn

        n_fakes = np.int64(np.rint(fake_ratio * n_unl))
        if grid is not None:
            n_fakes = np.int64(np.rint(fake_ratio * min(n_unl, n_columns)))
        n_fake_items = n_fake_users = np.int64(0)
        if item_side is not None:
            n_fake_items = n_fakes
            if sees_users:
                item_counter = fill_noise(item_side, n_fakes, keys[ITEM_NOISE], item_counter)
        if user_side is not None:
            n_fake_users = n_fakes
            if sees_items:
                user_counter = fill_noise(user_side, n_fakes, keys[USER_NOISE], user_counter)
        sums[LOSS] += discriminator_step(
            m, w, c, item_side, user_side, team, grid, t, n_pos, n_unl, n_columns, n_fake_items, n_fake_users,
            learning_rate, n_steps_before + b + 1,
        )  # fmt: skip
        sums[PENALTY] += w.report[PENALTY]
        sums[D_POSITIVE] += w.report[D_POSITIVE]
        sums[D_UNLABELED] += w.report[D_UNLABELED]
        sums[D_FAKE] += w.report[D_FAKE]
        sums[FAKE_NORM] += w.report[FAKE_NORM]
        sums[N_STEPS] += 1
        sums[N_POSITIVE] += n_pos
        sums[N_UNLABELED] += np.int64(w.report[N_UNLABELED])
        sums[N_FAKES] += n_fake_items + n_fake_users


@kernel()
def generators_epoch(
    t: Tables,
    m: Model,
    w: Work,
    c: KernelSettings,
    item_side: GeneratorMemory | None,
    user_side: GeneratorMemory | None,
    how: Scalar,
    batch_size: Scalar,
    steps: Scalar,
    learning_rate: Scalar,
    n_steps_before: Scalar,
    keys: U64,
    sums: F64,
) -> None:
    """Run `steps` generator steps (Algorithm 1, lines 12 to 15), each on a batch of unlabeled pairs for the users of
    random positives."""
    item_counter = user_counter = np.uint64(0)
    for step in range(steps):
        counter = np.uint64(step) * np.uint64(batch_size)
        if how != GLOBAL:
            for k in range(batch_size):
                x = splitmix64(keys[SHUFFLE], counter + np.uint64(k))
                w.users[k] = _user_of(t, np.int64(mulhi(x, np.uint64(t.indices.size))))
        n = _draw_unlabeled(t, how, w.users, w.items, batch_size, keys[DRAW], counter)
        if n == 0:
            continue
        n_items = n_users = 0
        if item_side is not None:
            n_items = n
            item_counter = fill_noise(item_side, n, keys[ITEM_NOISE], item_counter)
        if user_side is not None:
            n_users = n
            user_counter = fill_noise(user_side, n, keys[USER_NOISE], user_counter)
        before = n_steps_before + np.int64(sums[N_STEPS])
        step_both(item_side, user_side, m, w, c, n_items, n_users, learning_rate, before + 1, sums)


@kernel(inner=True)
def _user_of(t: Tables, k: Scalar) -> Scalar:
    """The user of positive number k."""
    lo, hi = 0, t.n_users
    while lo < hi:
        mid = (lo + hi) >> 1
        if t.indptr[mid + 1] <= k:
            lo = mid + 1
        else:
            hi = mid
    return lo
