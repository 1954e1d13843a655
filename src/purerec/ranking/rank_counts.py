"""Kernels for evaluation: how many items rank before each positive. Arguments: see `ranking.tiles`."""

from __future__ import annotations

import numpy as np

from purerec.jit.decorator import Scalar, kernel
from purerec.ranking.tiles import (
    BLOCK,
    PANEL,
    TILE,
    above,
    all_finite,
    before,
    dot,
    fetch_tile,
    fetch_vectors,
    not_below,
    score_tile,
    sort,
)
from purerec.types import F32, I32, I64

MANY = 768
"""With at least this many positives, items are sorted into the gaps between them instead of compared with each."""


@kernel()
def _gap(s: Scalar, p: Scalar, bar: F32, place: I32, a: Scalar, b: Scalar) -> Scalar:
    """The first of the positives a to b (best first) that comes after an item; b if none does.

    The number of steps depends only on b - a and no step branches, so the CPU can overlap items.
    """
    n = b - a
    while n > 1:
        half = n >> 1
        a += half * (not before(s, p, bar[a + half - 1], place[a + half - 1]))
        n -= half
    return a + (not before(s, p, bar[a], place[a]))


@kernel()
def _count_one(s: Scalar, p: Scalar, by: Scalar, bar: F32, place: I32, count: I32, a: Scalar, b: Scalar) -> None:
    """Count one item (or, with by = -1, uncount it) for each of the positives a to b that it precedes.

    With many positives, count it only in the gap that it falls into; `finish_ranks` adds up the gaps.
    """
    if b - a < MANY:
        for q in range(a, b):
            count[q] += by * before(s, p, bar[q], place[q])
    else:
        gap = _gap(s, p, bar, place, a, b)
        if gap < b:
            count[gap] += by


@kernel()
def _count_others(
    scratch: F32,
    n: Scalar,
    idx: I32,
    first: Scalar,
    place_of: I32,
    by: Scalar,
    bar: F32,
    place: I32,
    count: I32,
    a: Scalar,
    b: Scalar,
) -> None:
    """Count n items in any order, from idx[first] on, whose scores are in the scratch memory."""
    if b - a < MANY:
        width = (n + BLOCK - 1) // BLOCK * BLOCK
        scratch[n:width] = -np.inf
        for q in range(a, b):
            higher = above(scratch, 0, width, bar[q])
            if not_below(scratch, 0, width, bar[q]) > higher:
                for j in range(n):
                    higher += (scratch[j] == bar[q]) & (place_of[idx[first + j]] < place[q])
            count[q] += by * higher
    else:
        for j in range(n):
            _count_one(scratch[j], place_of[idx[first + j]], by, bar, place, count, a, b)


@kernel()
def _sort_positives(is_pool: Scalar, bar: F32, place: I32, count: I32, a: Scalar, b: Scalar) -> None:
    """Sort the positives a to b, best first; with a pool, also count them for each other."""
    sort(bar, place, a, b - a)
    if is_pool:
        for q in range(a, b):
            _count_one(bar[q], place[q], 1, bar, place, count, a, b)


@kernel()
def _count_tile(
    tile: F32,
    at: Scalar,
    width: Scalar,
    first: Scalar,
    bar: F32,
    place: I32,
    count: I32,
    a: Scalar,
    b: Scalar,
) -> None:
    """Count the items of a tile, which starts at place `first`, for each of the positives a to b."""
    if b - a < MANY:
        for q in range(a, b):
            own = place[q] - first
            # Equal scores count before the positive's own place but not after it; in its own block, one by one.
            split = min(max(own, 0), width) // BLOCK * BLOCK
            n = not_below(tile, at, split, bar[q]) + above(tile, at + split, width - split, bar[q])
            if 0 <= own < width:
                here = at + split
                if not_below(tile, here, BLOCK, bar[q]) - above(tile, here, BLOCK, bar[q]) > 1:
                    for j in range(split, own):
                        n += tile[at + j] == bar[q]
            count[q] += n
    else:
        worst = bar[b - 1]
        for j in range(width):
            if tile[at + j] >= worst:
                _count_one(tile[at + j], first + j, 1, bar, place, count, a, b)


@kernel()
def start_ranks_of_products(
    first: Scalar,
    last: Scalar,
    rows: I64,
    scratch: F32,
    users: F32,
    items: F32,
    bias: F32,
    ptr: I64,
    idx: I32,
    other_ptr: I64,
    other_idx: I32,
    place_of: I32,
    is_pool: Scalar,
    bar: F32,
    place: I32,
    count: I32,
) -> Scalar:
    """Score and sort the positives; count the others (a pool), or uncount them (excluded items)."""
    for r in range(first, last):
        u = rows[r]
        a, b = ptr[u], ptr[u + 1]
        for q in range(a, b):
            bar[q] = dot(users, u, items, idx[q], bias)
            place[q] = place_of[idx[q]]
        if not all_finite(bar, a, b - a):
            return r
        _sort_positives(is_pool, bar, place, count, a, b)
        for o in range(other_ptr[u], other_ptr[u + 1], TILE):
            n = min(TILE, other_ptr[u + 1] - o)
            for j in range(n):
                scratch[j] = dot(users, u, items, other_idx[o + j], bias)
            if not all_finite(scratch, 0, n):
                return r
            by = 1 if is_pool else -1
            _count_others(scratch, n, other_idx, o, place_of, by, bar, place, count, a, b)
    return -1


@kernel()
def count_products(
    first: Scalar,
    last: Scalar,
    rows: I64,
    scratch: F32,
    users: F32,
    slab: F32,
    slab_bias: F32,
    start: Scalar,
    n_items: Scalar,
    check: Scalar,
    ptr: I64,
    bar: F32,
    place: I32,
    count: I32,
) -> Scalar:
    """Count all items of a slab (places from `start` on) for the positives of each user."""
    for p in range(first, last, PANEL):
        end = min(p + PANEL, last)
        length = fetch_vectors(rows, p, end, users, scratch)
        for t in range(0, n_items, TILE):
            real = min(TILE, n_items - t)
            width = (real + BLOCK - 1) // BLOCK * BLOCK
            for g in range(p, end, 4):
                score_tile(scratch, g - p, length, slab, t * length, slab_bias, t, width)
                for r in range(g, min(g + 4, end)):
                    at = (r - g) * TILE
                    if check and not all_finite(scratch, at, real):
                        return r
                    a, b = ptr[rows[r]], ptr[rows[r] + 1]
                    _count_tile(scratch, at, width, start + t, bar, place, count, a, b)
    return -1


@kernel()
def count_panel(
    first: Scalar,
    last: Scalar,
    rows: I64,
    scratch: F32,
    panel: F32,
    n_items: Scalar,
    order: I32,
    ptr: I64,
    idx: I32,
    other_ptr: I64,
    other_idx: I32,
    place_of: I32,
    is_pool: Scalar,
    bar: F32,
    place: I32,
    count: I32,
) -> Scalar:
    """Both of the above for given scores: row r of the panel (n, n_items), flat, belongs to user rows[r]."""
    for r in range(first, last):
        if not all_finite(panel, r * n_items, n_items):
            return r
        u = rows[r]
        a, b = ptr[u], ptr[u + 1]
        for q in range(a, b):
            bar[q] = panel[r * n_items + idx[q]]
            place[q] = place_of[idx[q]]
        _sort_positives(is_pool, bar, place, count, a, b)
        for o in range(other_ptr[u], other_ptr[u + 1], TILE):
            n = min(TILE, other_ptr[u + 1] - o)
            for j in range(n):
                scratch[j] = panel[r * n_items + other_idx[o + j]]
            by = 1 if is_pool else -1
            _count_others(scratch, n, other_idx, o, place_of, by, bar, place, count, a, b)
        if not is_pool:
            for t in range(0, n_items, TILE):
                width = fetch_tile(panel, r * n_items, order, t, scratch)
                _count_tile(scratch, 0, width, t, bar, place, count, a, b)
    return -1


@kernel()
def finish_ranks(first: Scalar, last: Scalar, rows: I64, scratch: F32, ptr: I64, count: I32) -> Scalar:
    """Turn counts of preceding items into 1-based ranks."""
    for r in range(first, last):
        a, b = ptr[rows[r]], ptr[rows[r] + 1]
        if b - a >= MANY:
            for q in range(a + 1, b):
                count[q] += count[q - 1]
        for q in range(a, b):
            count[q] += 1
    return -1


@kernel()
def difference(ptr: I64, idx: I32, other_ptr: I64, other_idx: I32, kept_ptr: I64, kept_idx: I32) -> Scalar:
    """Write the pairs that are not among the others (rows sorted in both); return their number."""
    n = 0
    kept_ptr[0] = 0
    for u in range(len(ptr) - 1):
        o, end = other_ptr[u], other_ptr[u + 1]
        for q in range(ptr[u], ptr[u + 1]):
            while o < end and other_idx[o] < idx[q]:
                o += 1
            if o == end or other_idx[o] != idx[q]:
                kept_idx[n] = idx[q]
                n += 1
        kept_ptr[u + 1] = n
    return n
