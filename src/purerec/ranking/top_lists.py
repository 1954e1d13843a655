"""Kernels for top-k lists: a heap for each user. Arguments: see `ranking.tiles`."""

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
    fetch_tile,
    fetch_vectors,
    score_tile,
    sift,
    unwind,
)
from purerec.types import F32, I32, I64


@kernel()
def _push(s: Scalar, p: Scalar, score: F32, place: I32, base: Scalar, size: Scalar, k: Scalar) -> Scalar:
    """Put an item into a heap, replacing the worst one if there are already k; return the new size."""
    if size == k:
        score[base], place[base] = s, p
        sift(score, place, base, 0, k)
        return k
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if not before(score[base + parent], place[base + parent], s, p):
            break
        score[base + child], place[base + child] = score[base + parent], place[base + parent]
        child = parent
    score[base + child], place[base + child] = s, p
    return size + 1


@kernel()
def _contains(idx: I32, a: Scalar, b: Scalar, i: Scalar) -> Scalar:
    end = b
    while a < b:
        middle = (a + b) >> 1
        if idx[middle] < i:
            a = middle + 1
        else:
            b = middle
    return a < end and idx[a] == i


@kernel()
def _search_tile(
    tile: F32,
    at: Scalar,
    width: Scalar,
    first: Scalar,
    order: I32,
    excluded: I32,
    a: Scalar,
    b: Scalar,
    score: F32,
    place: I32,
    size: I64,
    r: Scalar,
    k: Scalar,
) -> None:
    """Offer the items of a tile to the list of row r; most blocks have nothing better than its worst item."""
    base, n = r * k, size[r]
    bar = score[base] if n == k else np.float32(-np.inf)
    for block in range(0, width, BLOCK):
        if above(tile, at + block, BLOCK, bar) == 0:
            continue
        for j in range(block, block + BLOCK):
            s = tile[at + j]
            if s > bar and not _contains(excluded, a, b, order[first + j]):
                n = _push(s, first + j, score, place, base, n, k)
                if n == k:
                    bar = score[base]
    size[r] = n


@kernel()
def search_products(
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
    order: I32,
    ptr: I64,
    excluded: I32,
    score: F32,
    place: I32,
    size: I64,
    k: Scalar,
) -> Scalar:
    """Offer all items of a slab (places from `start` on) to the list of each user."""
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
                    _search_tile(scratch, at, width, start + t, order, excluded, a, b, score, place, size, r, k)
    return -1


@kernel()
def search_panel(
    first: Scalar,
    last: Scalar,
    rows: I64,
    scratch: F32,
    panel: F32,
    n_items: Scalar,
    order: I32,
    ptr: I64,
    excluded: I32,
    score: F32,
    place: I32,
    size: I64,
    k: Scalar,
) -> Scalar:
    """The same for given scores: row r of the panel (n, n_items), flat, belongs to user rows[r]."""
    for r in range(first, last):
        if not all_finite(panel, r * n_items, n_items):
            return r
        a, b = ptr[rows[r]], ptr[rows[r] + 1]
        for t in range(0, len(order), TILE):
            width = fetch_tile(panel, r * n_items, order, t, scratch)
            _search_tile(scratch, 0, width, t, order, excluded, a, b, score, place, size, r, k)
    return -1


@kernel()
def sort_lists(
    first: Scalar,
    last: Scalar,
    rows: I64,
    scratch: F32,
    order: I32,
    score: F32,
    place: I32,
    size: I64,
    k: Scalar,
) -> Scalar:
    """Turn heaps into lists, best first, and places into items."""
    for r in range(first, last):
        unwind(score, place, r * k, size[r])
        for c in range(r * k, r * k + size[r]):
            place[c] = order[place[c]]
    return -1
