"""Kernels of ranking: scores of factor models in tiles, counts of what stands before a positive, top-k lists.

They walk through the items in the tie order of `purerec.ranking`; an item's position in it is its `place`. The
first arguments are always: the range of rows to work on, `rows` (the user of each row), and scratch memory of
`scratch_size` values. The result is the first row with a NaN or infinite score, or -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from purerec.compiled import Scalar, intrinsic, kernel

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

TILE = 704
"""Items scored at a time: four users' scores of a tile (11 kB) stay in the first-level cache.

Not a power of two, which would put the rows of a tile on the same cache lines."""
BLOCK = 64
"""Tiles end at multiples of this, so that vector loops have no remainder."""
PANEL = 64
"""Users that go through a tile together, while it is in the second-level cache."""
MANY = 768
"""From so many positives on, items are sorted into the gaps between them instead of compared with each."""


def scratch_size(dim: int) -> int:
    """Float32 values that a kernel needs: a tile for four users, and the vectors of a panel."""
    return 4 * TILE + PANEL * padded(dim)


def padded(dim: int) -> int:
    return -(-dim // 4) * 4


# ---------------------------------------------------------------------- scores


@intrinsic
def _fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once: the same bits in vector and scalar code."""
    f32 = types.float32
    return f32(f32, f32, f32), lambda context, builder, signature, args: builder.fma(*args)


@kernel()
def _dot(users: F32, u: Scalar, items: F32, i: Scalar, bias: F32) -> Scalar:
    """Score of one pair, with the bits that `_score_tile` gives it."""
    s = bias[i]
    for k in range(users.shape[1]):
        s = _fma(users[u, k], items[i, k], s)
    return s


@kernel()
def score_pairs(rows: I64, users: F32, items: F32, bias: F32, panel: F32) -> None:
    """(len(rows), n_items) scores, one pair at a time: for few users, who are not worth a slab."""
    for r in range(len(rows)):
        for i in range(len(items)):
            panel[r, i] = _dot(users, rows[r], items, i, bias)


@kernel()
def _fetch_vectors(rows: I64, first: Scalar, last: Scalar, users: F32, scratch: F32) -> Scalar:
    """Copies the vectors of up to PANEL users behind the tiles, padded with zeros; returns their length."""
    dim = users.shape[1]
    length = (dim + 3) // 4 * 4
    scratch[4 * TILE : 4 * TILE + PANEL * length] = 0
    for r in range(first, last):
        for k in range(dim):
            scratch[4 * TILE + (r - first) * length + k] = users[rows[r], k]
    return length


@kernel()
def _score_tile(
    scratch: F32, row: Scalar, length: Scalar, slab: F32, base: Scalar, bias: F32, first: Scalar, width: Scalar
) -> None:
    """Scores (4, TILE), flat, of four users for the items of one tile.

    Offsets are constants and indices are unsigned, without which the loops are not vectorised. Four dimensions
    at a time: 16 user values stay in registers.
    """
    for j in range(width):
        a = np.uint64(j)
        scratch[a] = bias[np.uint64(first) + a]
        scratch[a + np.uint64(TILE)] = bias[np.uint64(first) + a]
        scratch[a + np.uint64(2 * TILE)] = bias[np.uint64(first) + a]
        scratch[a + np.uint64(3 * TILE)] = bias[np.uint64(first) + a]
    for k in range(0, length, 4):
        v = 4 * TILE + row * length + k
        a0, a1, a2, a3 = scratch[v], scratch[v + 1], scratch[v + 2], scratch[v + 3]
        v += length
        b0, b1, b2, b3 = scratch[v], scratch[v + 1], scratch[v + 2], scratch[v + 3]
        v += length
        c0, c1, c2, c3 = scratch[v], scratch[v + 1], scratch[v + 2], scratch[v + 3]
        v += length
        d0, d1, d2, d3 = scratch[v], scratch[v + 1], scratch[v + 2], scratch[v + 3]
        at = np.uint64(base + k * TILE)
        for j in range(width):
            a = np.uint64(j)
            b, c, d = a + np.uint64(TILE), a + np.uint64(2 * TILE), a + np.uint64(3 * TILE)
            v0, v1, v2, v3 = slab[at + a], slab[at + b], slab[at + c], slab[at + d]
            scratch[a] = _fma(a3, v3, _fma(a2, v2, _fma(a1, v1, _fma(a0, v0, scratch[a]))))
            scratch[b] = _fma(b3, v3, _fma(b2, v2, _fma(b1, v1, _fma(b0, v0, scratch[b]))))
            scratch[c] = _fma(c3, v3, _fma(c2, v2, _fma(c1, v1, _fma(c0, v0, scratch[c]))))
            scratch[d] = _fma(d3, v3, _fma(d2, v2, _fma(d1, v1, _fma(d0, v0, scratch[d]))))


@kernel()
def _fetch_tile(panel: F32, at: Scalar, order: I32, first: Scalar, scratch: F32) -> Scalar:
    """Copies given scores of a tile in the tie order, and -inf up to the next full block; returns the width."""
    n = min(TILE, len(order) - first)
    for j in range(n):
        scratch[j] = panel[at + order[first + j]]
    width = (n + BLOCK - 1) // BLOCK * BLOCK
    scratch[n:width] = -np.inf
    return width


@kernel()
def _all_finite(scores: F32, first: Scalar, n: Scalar) -> Scalar:
    bad = np.int32(0)
    for j in range(n):
        bad = np.int32(bad + np.int32(not (abs(scores[np.uint64(first) + np.uint64(j)]) < np.float32(np.inf))))
    return bad == 0


@kernel()
def _above(scores: F32, first: Scalar, n: Scalar, bar: Scalar) -> Scalar:
    """How many of n scores are higher than the bar. A 32-bit count: sixteen to a vector register."""
    count = np.int32(0)
    for j in range(n):
        count = np.int32(count + np.int32(scores[np.uint64(first) + np.uint64(j)] > bar))
    return count


@kernel()
def _not_below(scores: F32, first: Scalar, n: Scalar, bar: Scalar) -> Scalar:
    count = np.int32(0)
    for j in range(n):
        count = np.int32(count + np.int32(scores[np.uint64(first) + np.uint64(j)] >= bar))
    return count


@kernel()
def _before(s: Scalar, p: Scalar, score: Scalar, place: Scalar) -> Scalar:
    """The order of all lists: higher scores first, equal ones by place. Without branches."""
    return (s > score) | ((s == score) & (p < place))


# ---------------------------------------------------------------------- ranks


@kernel()
def _gap(s: Scalar, p: Scalar, bar: F32, place: I32, a: Scalar, b: Scalar) -> Scalar:
    """The first of the positives a to b (best first) that comes after an item; b if none does.

    The number of steps depends on b - a only and no step branches, so that the next item need not wait.
    """
    n = b - a
    while n > 1:
        half = n >> 1
        a += half * (not _before(s, p, bar[a + half - 1], place[a + half - 1]))
        n -= half
    return a + (not _before(s, p, bar[a], place[a]))


@kernel()
def _count_one(s: Scalar, p: Scalar, by: Scalar, bar: F32, place: I32, count: I32, a: Scalar, b: Scalar) -> None:
    """Counts one item for (or, with by = -1, against) each of the positives a to b that it precedes.

    With many positives it is counted only in the gap that it falls into; `finish_ranks` adds up the gaps.
    """
    if b - a < MANY:
        for q in range(a, b):
            count[q] += by * _before(s, p, bar[q], place[q])
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
    """Counts n items in any order, idx[first] and following, whose scores stand in the scratch memory."""
    if b - a < MANY:
        width = (n + BLOCK - 1) // BLOCK * BLOCK
        scratch[n:width] = -np.inf
        for q in range(a, b):
            above = _above(scratch, 0, width, bar[q])
            if _not_below(scratch, 0, width, bar[q]) > above:
                for j in range(n):
                    above += (scratch[j] == bar[q]) & (place_of[idx[first + j]] < place[q])
            count[q] += by * above
    else:
        for j in range(n):
            _count_one(scratch[j], place_of[idx[first + j]], by, bar, place, count, a, b)


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
    """Counts the items of a tile, whose first one has the place `first`, for each of the positives a to b."""
    if b - a < MANY:
        for q in range(a, b):
            own = place[q] - first
            # Equal scores count before the positive's own place, not after it; in its own block, one by one.
            split = min(max(own, 0), width) // BLOCK * BLOCK
            n = _not_below(tile, at, split, bar[q]) + _above(tile, at + split, width - split, bar[q])
            if 0 <= own < width:
                here = at + split
                if _not_below(tile, here, BLOCK, bar[q]) - _above(tile, here, BLOCK, bar[q]) > 1:
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
    """Scores the positives and sorts them; counts the others for them (a pool) or against them (excluded)."""
    for r in range(first, last):
        u = rows[r]
        a, b = ptr[u], ptr[u + 1]
        for q in range(a, b):
            bar[q] = _dot(users, u, items, idx[q], bias)
            place[q] = place_of[idx[q]]
        if not _all_finite(bar, a, b - a):
            return r
        _sort(bar, place, a, b - a)
        if is_pool:
            for q in range(a, b):
                _count_one(bar[q], place[q], 1, bar, place, count, a, b)
        for o in range(other_ptr[u], other_ptr[u + 1], TILE):
            n = min(TILE, other_ptr[u + 1] - o)
            for j in range(n):
                scratch[j] = _dot(users, u, items, other_idx[o + j], bias)
            if not _all_finite(scratch, 0, n):
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
    """Counts all items of a slab (places from `start` on) for the positives of each user."""
    for p in range(first, last, PANEL):
        end = min(p + PANEL, last)
        length = _fetch_vectors(rows, p, end, users, scratch)
        for t in range(0, n_items, TILE):
            real = min(TILE, n_items - t)
            width = (real + BLOCK - 1) // BLOCK * BLOCK
            for g in range(p, end, 4):
                _score_tile(scratch, g - p, length, slab, t * length, slab_bias, t, width)
                for r in range(g, min(g + 4, end)):
                    at = (r - g) * TILE
                    if check and not _all_finite(scratch, at, real):
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
    """Both of the above for given scores: row r of the panel (n, n_items), flat, is that of user rows[r]."""
    for r in range(first, last):
        if not _all_finite(panel, r * n_items, n_items):
            return r
        u = rows[r]
        a, b = ptr[u], ptr[u + 1]
        for q in range(a, b):
            bar[q] = panel[r * n_items + idx[q]]
            place[q] = place_of[idx[q]]
        _sort(bar, place, a, b - a)
        if is_pool:
            for q in range(a, b):
                _count_one(bar[q], place[q], 1, bar, place, count, a, b)
        for o in range(other_ptr[u], other_ptr[u + 1], TILE):
            n = min(TILE, other_ptr[u + 1] - o)
            for j in range(n):
                scratch[j] = panel[r * n_items + other_idx[o + j]]
            by = 1 if is_pool else -1
            _count_others(scratch, n, other_idx, o, place_of, by, bar, place, count, a, b)
        if not is_pool:
            for t in range(0, n_items, TILE):
                width = _fetch_tile(panel, r * n_items, order, t, scratch)
                _count_tile(scratch, 0, width, t, bar, place, count, a, b)
    return -1


@kernel()
def finish_ranks(first: Scalar, last: Scalar, rows: I64, scratch: F32, ptr: I64, count: I32) -> Scalar:
    """Counts of what stands before -> 1-based ranks."""
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
    """Writes the pairs that are not among the others (rows sorted in both); returns their number."""
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


# ---------------------------------------------------------------------- lists


@kernel()
def _sift(score: F32, place: I32, base: Scalar, root: Scalar, size: Scalar) -> None:
    """Moves an element of a heap down to where it belongs; the root is the worst of all."""
    s, p = score[base + root], place[base + root]
    child = 2 * root + 1
    while child < size:
        c = base + child
        if child + 1 < size and _before(score[c], place[c], score[c + 1], place[c + 1]):
            child += 1
            c += 1
        if not _before(s, p, score[c], place[c]):
            break
        score[base + root], place[base + root] = score[c], place[c]
        root = child
        child = 2 * root + 1
    score[base + root], place[base + root] = s, p


@kernel()
def _unwind(score: F32, place: I32, base: Scalar, size: Scalar) -> None:
    """A heap -> a list, best first."""
    for end in range(size - 1, 0, -1):
        e = base + end
        score[base], score[e] = score[e], score[base]
        place[base], place[e] = place[e], place[base]
        _sift(score, place, base, 0, end)


@kernel()
def _sort(score: F32, place: I32, base: Scalar, size: Scalar) -> None:
    """Sorts in place, best first."""
    for root in range(size // 2 - 1, -1, -1):
        _sift(score, place, base, root, size)
    _unwind(score, place, base, size)


@kernel()
def _push(s: Scalar, p: Scalar, score: F32, place: I32, base: Scalar, size: Scalar, k: Scalar) -> Scalar:
    """Puts an item into a heap, in place of the worst one if there are k already; returns the new size."""
    if size == k:
        score[base], place[base] = s, p
        _sift(score, place, base, 0, k)
        return k
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if not _before(score[base + parent], place[base + parent], s, p):
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
    """Offers the items of a tile to the list of row r; most blocks hold nothing better than its worst item."""
    base, n = r * k, size[r]
    bar = score[base] if n == k else np.float32(-np.inf)
    for block in range(0, width, BLOCK):
        if _above(tile, at + block, BLOCK, bar) == 0:
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
    """Offers all items of a slab (places from `start` on) to the list of each user."""
    for p in range(first, last, PANEL):
        end = min(p + PANEL, last)
        length = _fetch_vectors(rows, p, end, users, scratch)
        for t in range(0, n_items, TILE):
            real = min(TILE, n_items - t)
            width = (real + BLOCK - 1) // BLOCK * BLOCK
            for g in range(p, end, 4):
                _score_tile(scratch, g - p, length, slab, t * length, slab_bias, t, width)
                for r in range(g, min(g + 4, end)):
                    at = (r - g) * TILE
                    if check and not _all_finite(scratch, at, real):
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
    """The same for given scores: row r of the panel (n, n_items), flat, is that of user rows[r]."""
    for r in range(first, last):
        if not _all_finite(panel, r * n_items, n_items):
            return r
        a, b = ptr[rows[r]], ptr[rows[r] + 1]
        for t in range(0, len(order), TILE):
            width = _fetch_tile(panel, r * n_items, order, t, scratch)
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
    """Heaps -> lists, best first, and places -> items."""
    for r in range(first, last):
        _unwind(score, place, r * k, size[r])
        for c in range(r * k, r * k + size[r]):
            place[c] = order[place[c]]
    return -1
