"""Ranks under several mixtures of two scores, one + weight * other, from one pass over each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from purerec.data.pairs import Csr
from purerec.jit.arrays import constant
from purerec.jit.decorator import Scalar, kernel
from purerec.ranking.scorers import Workers
from purerec.ranking.tiles import not_below
from purerec.types import F32, I32, I64


def ranks_of_mixtures(one: F32, other: F32, weights: Sequence[float], positives: Csr) -> I32:
    """(len(weights), n_positives) 1-based ranks for each mixture, ascending within each user.

    `one`, `other`: (n_users, n_items); an item with -inf in `one` is not a candidate. Ties count against a positive:
    a mixture that scores items equally must not look good.
    """
    found = np.empty((len(weights), len(positives)), dtype=np.int32)
    rows = constant(np.arange(len(one)), np.int64)
    pairs = constant(positives.indptr, np.int64), constant(positives.indices, np.int32)
    scores = np.empty_like(one)
    with Workers("the mixture", None, None) as workers:
        for n, weight in enumerate(weights):
            workers.run(_rank, rows, one, other, np.float32(weight), *pairs, scores, found[n])
    return found


@kernel()
def _rank(
    first: Scalar,
    last: Scalar,
    rows: I64,
    scratch: F32,
    one: F32,
    other: F32,
    weight: Scalar,
    ptr: I64,
    idx: I32,
    scores: F32,
    found: I32,
) -> Scalar:
    n_items = one.shape[1]
    for r in range(first, last):
        for i in range(n_items):
            scores[r, i] = one[r, i] + weight * other[r, i]
        for q in range(ptr[r], ptr[r + 1]):
            rank = not_below(scores[r], 0, n_items, scores[r, idx[q]])
            p = q
            while p > ptr[r] and found[p - 1] > rank:
                found[p] = found[p - 1]
                p -= 1
            found[p] = rank
    return -1
