"""Kernels shared by ranks and lists: scores of factor models in tiles, and the order of items.

Ranking kernels go through the items in the tie order of `purerec.ranking.ranks`; an item's position in it is its
`place`. Kernels called from Python always take these arguments first: the range of rows to work on, `rows` (the user
of each row), and scratch memory of `scratch_size` values. They return the first row with a NaN or infinite score, or
-1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from purerec.jit.decorator import Scalar, intrinsic, kernel
from purerec.types import F32, I32, I64

TILE = 704
"""Items scored at a time: four users' scores of a tile (11 kB) stay in the L1 cache.

Not a power of two, which would map the rows of a tile to the same cache lines."""
BLOCK = 64
"""Tiles end at multiples of this, so that vector loops have no remainder."""
PANEL = 64
"""Users that share a tile while it is in the L2 cache."""
_LARGEST = np.finfo(np.float32).max


def scratch_size(dim: int) -> int:
    """The number of float32 values that a kernel needs: a tile for four users, and the vectors of a panel."""
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
def dot(users: F32, u: Scalar, items: F32, i: Scalar, bias: F32) -> Scalar:
    """Score of one pair, bit for bit as in `score_tile`."""
    s = bias[i]
    for k in range(users.shape[1]):
        s = _fma(users[u, k], items[i, k], s)
    return s


@kernel()
def score_pairs(rows: I64, users: F32, items: F32, bias: F32, panel: F32) -> None:
    """(len(rows), n_items) scores, one pair at a time: for too few users to be worth a slab."""
    for r in range(len(rows)):
        for i in range(len(items)):
            panel[r, i] = dot(users, rows[r], items, i, bias)


@kernel()
def fetch_vectors(rows: I64, first: Scalar, last: Scalar, users: F32, scratch: F32) -> Scalar:
    """Copy the vectors of up to PANEL users behind the tiles, padded with zeros; return their length."""
    dim = users.shape[1]
    length = (dim + 3) // 4 * 4
    scratch[4 * TILE : 4 * TILE + PANEL * length] = 0
    for r in range(first, last):
        for k in range(dim):
            scratch[4 * TILE + (r - first) * length + k] = users[rows[r], k]
    return length


@kernel()
def score_tile(
    scratch: F32, row: Scalar, length: Scalar, slab: F32, base: Scalar, bias: F32, first: Scalar, width: Scalar
) -> None:
    """Scores (4, TILE), flat, of four users for the items of one tile.

    Offsets are constants and indices are unsigned; otherwise the loops are not vectorised. Four dimensions at a time:
    16 user values stay in registers.
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
def fetch_tile(panel: F32, at: Scalar, order: I32, first: Scalar, scratch: F32) -> Scalar:
    """Copy given scores of a tile in tie order, and -inf up to the next full block; return the width."""
    n = min(TILE, len(order) - first)
    for j in range(n):
        scratch[j] = panel[at + order[first + j]]
    width = (n + BLOCK - 1) // BLOCK * BLOCK
    scratch[n:width] = -np.inf
    return width


@kernel()
def all_finite(scores: F32, first: Scalar, n: Scalar) -> Scalar:
    """Whether n scores are numbers that float32 holds, also if they are float64."""
    bad = np.int32(0)
    for j in range(n):
        bad = np.int32(bad + np.int32(not (abs(scores[np.uint64(first) + np.uint64(j)]) <= _LARGEST)))
    return bad == 0


@kernel()
def above(scores: F32, first: Scalar, n: Scalar, bar: Scalar) -> Scalar:
    """The number of n scores above the bar. A 32-bit count: sixteen per vector register."""
    count = np.int32(0)
    for j in range(n):
        count = np.int32(count + np.int32(scores[np.uint64(first) + np.uint64(j)] > bar))
    return count


@kernel()
def not_below(scores: F32, first: Scalar, n: Scalar, bar: Scalar) -> Scalar:
    count = np.int32(0)
    for j in range(n):
        count = np.int32(count + np.int32(scores[np.uint64(first) + np.uint64(j)] >= bar))
    return count


# ---------------------------------------------------------------------- order


@kernel()
def before(s: Scalar, p: Scalar, score: Scalar, place: Scalar) -> Scalar:
    """The order of all lists: higher scores first, equal ones by place. No branches."""
    return (s > score) | ((s == score) & (p < place))


@kernel()
def sift(score: F32, place: I32, base: Scalar, root: Scalar, size: Scalar) -> None:
    """Move an element of a heap down to its place; the root is the worst of all."""
    s, p = score[base + root], place[base + root]
    child = 2 * root + 1
    while child < size:
        c = base + child
        if child + 1 < size and before(score[c], place[c], score[c + 1], place[c + 1]):
            child += 1
            c += 1
        if not before(s, p, score[c], place[c]):
            break
        score[base + root], place[base + root] = score[c], place[c]
        root = child
        child = 2 * root + 1
    score[base + root], place[base + root] = s, p


@kernel()
def unwind(score: F32, place: I32, base: Scalar, size: Scalar) -> None:
    """Turn a heap into a list, best first."""
    for end in range(size - 1, 0, -1):
        e = base + end
        score[base], score[e] = score[e], score[base]
        place[base], place[e] = place[e], place[base]
        sift(score, place, base, 0, end)


@kernel()
def sort(score: F32, place: I32, base: Scalar, size: Scalar) -> None:
    """Sort in place, best first."""
    for root in range(size // 2 - 1, -1, -1):
        sift(score, place, base, root, size)
    unwind(score, place, base, size)
