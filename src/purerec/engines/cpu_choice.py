"""Dynamic negatives of the discriminator, compiled: each unlabeled item is chosen among several by its score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from purerec.compiled import Scalar, kernel
from purerec.drawing import Tables, draw_items, draw_popular_items, prefetch, splitmix64
from purerec.engines.cpu_kernels import BILINEAR, F32, FM, I32, Model, Rules, dot3, turn
from purerec.engines.cpu_rows import IN_CACHE
from purerec.engines.negatives import BEST, best_of, softmax_of, unit
from purerec.engines.vectors import total

BLOCK = 128
"""Pairs whose candidates are drawn together."""
_USES = (
    "purerec.engines.vectors",
    "purerec.engines.negatives",
    "purerec.engines.cpu_kernels",
    "purerec.engines.cpu_rows",
    "purerec.drawing",
)


class Choice(NamedTuple):
    """The rule and its scratch. Kernels that are given None in its place are compiled without any of this."""

    rule: int
    """BEST or SOFTMAX of `negatives`."""
    candidates: int
    by_popularity: bool
    users: I32
    """(BLOCK * (candidates - 1),)"""
    items: I32
    scores: F32
    """(candidates,)"""
    row: F32
    """(d_i,): e_u times the bilinear relation."""
    ones: F32


@kernel(depends_on=_USES, inner=True)
def _score(m: Model, c: Rules, row: F32, row_at: Scalar, relation: F32, item: Scalar) -> Scalar:
    """phi less what all items of a user share, which changes neither rule."""
    score = total(dot3(row, row_at, m.item, item * 3 * c.i_dim, relation, c.i_dim))
    return score + m.item_bias[item * 4] if c.scorer == FM else score


@kernel(depends_on=_USES)
def choose_unlabeled(
    t: Tables,
    m: Model,
    c: Rules,
    choice: Choice,
    users: I32,
    items: I32,
    n: Scalar,
    candidate_key: Scalar,
    choice_key: Scalar,
    counter: Scalar,
) -> None:
    """items[k], k < n, have been drawn for users[k]; each may give way to one of `candidates` - 1 further draws.

    The users draw again from their own unobserved items, also where pairs came from all users alike: given its
    user, a pair drawn from all is a uniform draw from the user's.
    """
    more = np.int64(choice.candidates - 1)
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
        for k in range(size):
            soon = min(k + 1, size - 1) * more
            for j in range(soon, soon + more if reach > 0 else soon):
                for q in range(0, reach, 16):
                    prefetch(m.item, np.int64(choice.items[j]) * 3 * c.i_dim + q)
            row, row_at, relation = m.user, np.int64(users[first + k]) * 3 * c.u_dim, m.relation
            if c.scorer == BILINEAR:
                turn(m.user, row_at, m.relation, choice.row, np.int64(0), c.u_dim, c.i_dim)
                row, row_at, relation = choice.row, np.int64(0), choice.ones
            choice.scores[0] = _score(m, c, row, row_at, relation, np.int64(items[first + k]))
            for j in range(more):
                item = np.int64(choice.items[k * more + j])
                choice.scores[j + 1] = _score(m, c, row, row_at, relation, item)
            if choice.rule == BEST:
                chosen = best_of(choice.scores, choice.candidates)
            else:
                x = unit(splitmix64(choice_key, counter + np.uint64(first + k)))
                chosen = softmax_of(choice.scores, choice.candidates, x)
            if chosen > 0:
                items[first + k] = choice.items[k * more + chosen - 1]
