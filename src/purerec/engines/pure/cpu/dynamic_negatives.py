"""Dynamic negatives of the discriminator, compiled: each unlabeled item is chosen from several by its score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from purerec.engines.pure.cpu.kernels import BILINEAR, FM, KernelSettings, Model, dot3, row_times_matrix
from purerec.engines.pure.cpu.rows import IN_CACHE
from purerec.jit.counter_rng import splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import total
from purerec.sampling.draws import Tables, draw_items, draw_popular_items, prefetch
from purerec.sampling.dynamic import BEST, best_of, softmax_of, unit
from purerec.types import F32, I32

BLOCK = 128
"""Pairs whose candidates are drawn together."""
_LINE = 16  # floats in a line of the cache


class Choice(NamedTuple):
    """The rule and its scratch. Kernels that get None instead are compiled without any of this."""

    rule: int
    """BEST or SOFTMAX of `purerec.sampling.dynamic`."""
    candidates: int
    by_popularity: bool
    users: I32
    """(BLOCK * candidates,)"""
    items: I32
    scores: F32
    row: F32
    """(d_i,): e_u times the bilinear relation."""
    ones: F32


@kernel(inner=True)
def _score_candidates(m: Model, c: KernelSettings, choice: Choice, n: Scalar) -> None:
    """Set scores[k] of (users[k], items[k]), k < n: phi without a user's constant terms, which affect neither rule.

    One loop over all, since a score takes long but does not depend on the previous one.
    """
    u_dim, i_dim = c.u_dim, c.i_dim
    if c.scorer == BILINEAR:
        for k in range(n):
            if k % choice.candidates == 0:
                row_times_matrix(
                    m.user, np.int64(choice.users[k]) * 3 * u_dim, m.relation, choice.row, 0, u_dim, c.i_dim
                )
            at = np.int64(choice.items[k]) * 3 * i_dim
            choice.scores[k] = total(dot3(choice.row, np.int64(0), m.item, at, choice.ones, c.i_dim))
        return
    for k in range(n):
        u, i = np.int64(choice.users[k]), np.int64(choice.items[k])
        choice.scores[k] = total(dot3(m.user, u * 3 * u_dim, m.item, i * 3 * i_dim, m.relation, c.u_dim))
    if c.scorer == FM:
        for k in range(n):
            choice.scores[k] += m.item_bias[np.int64(choice.items[k]) * 4]


@kernel()
def choose_unlabeled(
    t: Tables,
    m: Model,
    c: KernelSettings,
    choice: Choice,
    users: I32,
    items: I32,
    n: Scalar,
    candidate_key: Scalar,
    choice_key: Scalar,
    counter: Scalar,
) -> None:
    """Choose among each items[k], k < n, already drawn for users[k], and `candidates` - 1 further draws.

    Further draws come from the user's own unobserved items, even if the pairs were drawn from all users: given its
    user, a pair drawn from all is a uniform draw from the user's.
    """
    each = np.int64(choice.candidates)
    more = each - 1
    reach = c.i_dim if m.item.size > IN_CACHE else 0
    for first in range(0, n, BLOCK):
        size = min(BLOCK, n - first)
        for k in range(size):
            for j in range(more):
                choice.users[k * more + j] = users[first + k]
        start = (counter + np.uint64(first)) * np.uint64(more)
        if choice.by_popularity:
            draw_popular_items(t, choice.users, size * more, candidate_key, start, choice.items)
        else:
            draw_items(t, choice.users, size * more, candidate_key, start, choice.items)
        for k in range(size - 1, -1, -1):  # backwards, to make room for the first candidate
            for j in range(more - 1, -1, -1):
                item = choice.items[k * more + j]
                choice.items[k * each + j + 1], choice.users[k * each + j + 1] = item, users[first + k]
                for q in range(0, reach, _LINE):
                    prefetch(m.item, np.int64(item) * 3 * c.i_dim + q)
            choice.items[k * each], choice.users[k * each] = items[first + k], users[first + k]
        _score_candidates(m, c, choice, size * each)
        for k in range(size):
            scores = choice.scores[k * each :]
            if choice.rule == BEST:
                chosen = best_of(scores, each)
            else:
                chosen = softmax_of(scores, each, unit(splitmix64(choice_key, counter + np.uint64(first + k))))
            items[first + k] = choice.items[k * each + chosen]
