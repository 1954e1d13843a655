"""Draws of unlabeled pairs inside kernels; `unlabeled` is the Python interface.

A draw first tries a few random items and looks each up in a filter of observed pairs; if all are observed, the last
random number picks the rank-th free item by binary search. Both are uniform over the free items, so their mixture is
too, and a user with a single free item costs no more than the search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from purerec.jit.counter_rng import mulhi, splitmix64
from purerec.jit.decorator import Scalar, intrinsic, kernel
from purerec.types import I32, I64, U64

TRIES = 7
"""Random tries of a uniform draw; one more number is kept for the exact fallback."""
POPULAR_TRIES = 15
"""More for draws by popularity, where observed items come up more often and the fallback is slow."""
USER_SHIFT, ITEM_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)
"""Where the user and the item of a positive are in a word of `shuffle_pairs`."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_S30 = np.uint64(30)
_ONE, _SIX_BITS = np.uint64(1), np.uint64(63)
_STRIDE, _POPULAR_STRIDE = np.uint64(TRIES + 1), np.uint64(POPULAR_TRIES + 1)
_BLOCK = 128  # draws whose filter words are prefetched at once
_BLOOM_WORD, _BLOOM_A, _BLOOM_B = np.uint64(40), np.uint64(20), np.uint64(27)


class Tables(NamedTuple):
    """Everything the compiled draws read; a plain tuple, so that kernels can take it as one argument."""

    indptr: I64
    """(n_users + 1,) row starts of the positives."""
    indices: I32
    """(n_positive,) items, ascending within a row."""
    n_users: int
    n_items: int
    row_words: int
    """Words of the bitmap per user; 0: `filter` holds Bloom filters."""
    filter: U64
    """Bitmap (n_users * row_words,), or all users' Bloom filters one after the other."""
    filter_start: I64
    """(n_users + 1,) first word of a user's Bloom filter (whose length is a power of two, or 0)."""
    total_weight: int
    free_weight: I64
    """(n_users,) total weight of the items that a user has not touched."""
    weight: I64
    """(n_items,) number of positives."""
    cutoff: U64
    """(n_items,) alias table: below it (out of total_weight), the column's own item, else its alias."""
    alias: I32


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Request the cache line of array[index] without waiting for it; never faults."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        shape = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
        builder.call(hint, [address, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


@kernel(inner=True)
def bloom_place(item: Scalar) -> tuple[Scalar, Scalar]:
    """Hash of an item (to be masked to a word index) and the two bits that it sets in that word."""
    h = np.uint64(item) * _GAMMA
    h = (h ^ (h >> _S30)) * _MIX_1
    bits = (_ONE << ((h >> _BLOOM_A) & _SIX_BITS)) | (_ONE << ((h >> _BLOOM_B) & _SIX_BITS))
    return h >> _BLOOM_WORD, bits


@kernel(inner=True)
def is_observed(t: Tables, user: Scalar, item: Scalar) -> Scalar:
    """Return whether (user, item) is a positive; exact, with or without the bitmap."""
    if t.row_words > 0:
        word = t.filter[user * t.row_words + (item >> 6)]
        return (word >> (np.uint64(item) & _SIX_BITS)) & _ONE != 0
    first = t.filter_start[user]
    n_words = t.filter_start[user + 1] - first
    if n_words == 0:
        return False
    place, bits = bloom_place(item)
    if t.filter[first + np.int64(place & np.uint64(n_words - 1))] & bits != bits:
        return False
    lo, hi = t.indptr[user], t.indptr[user + 1]
    while lo < hi:
        mid = (lo + hi) >> 1
        if t.indices[mid] < item:
            lo = mid + 1
        else:
            hi = mid
    return lo < t.indptr[user + 1] and t.indices[lo] == item


@kernel(inner=True)
def free_item(t: Tables, user: Scalar, rank: Scalar) -> Scalar:
    """The rank-th (from 0) item that the user has not touched."""
    start = t.indptr[user]
    lo, hi = np.int64(0), t.indptr[user + 1] - start
    while lo < hi:  # the number of positives before the answer: those with indices[j] - j <= rank
        mid = (lo + hi) >> 1
        if t.indices[start + mid] - mid <= rank:
            lo = mid + 1
        else:
            hi = mid
    return rank + lo


@kernel(inner=True)
def _prefetch_filter(t: Tables, user: Scalar, item: Scalar) -> None:
    """Prefetch the word that `is_observed` will read: in large tables, nearly every draw misses the cache."""
    if t.row_words > 0:
        prefetch(t.filter, user * t.row_words + (item >> 6))
    else:
        first = t.filter_start[user]
        mask = np.uint64(t.filter_start[user + 1] - first - 1)
        prefetch(t.filter, first + np.int64(bloom_place(item)[0] & mask))


@kernel(inner=True)
def _item_try(t: Tables, key: Scalar, number: Scalar) -> Scalar:
    return np.int64(mulhi(splitmix64(key, number), np.uint64(t.n_items)))


@kernel(inner=True)
def _popular_try(t: Tables, key: Scalar, number: Scalar) -> Scalar:
    x = splitmix64(key, number)
    item = np.int64(mulhi(x, np.uint64(t.n_items)))
    if mulhi(x * np.uint64(t.n_items), np.uint64(t.total_weight)) >= t.cutoff[item]:
        item = np.int64(t.alias[item])  # decided by the fraction left over from picking the column
    return item


@kernel(inner=True)
def _pair_try(t: Tables, key: Scalar, number: Scalar) -> tuple[Scalar, Scalar]:
    x = splitmix64(key, number)
    n_users = np.uint64(t.n_users)
    return np.int64(mulhi(x, n_users)), np.int64(mulhi(x * n_users, np.uint64(t.n_items)))


@kernel(inner=True)
def _draw_item_again(t: Tables, user: Scalar, key: Scalar, base: Scalar) -> Scalar:
    """The later tries and the fallback of one uniform draw; -1 if the user has touched everything."""
    for k in range(1, TRIES):
        item = _item_try(t, key, base + np.uint64(k))
        if not is_observed(t, user, item):
            return item
    n_free = t.n_items - (t.indptr[user + 1] - t.indptr[user])
    if n_free <= 0:
        return np.int64(-1)
    return free_item(t, user, np.int64(mulhi(splitmix64(key, base + np.uint64(TRIES)), np.uint64(n_free))))


@kernel(inner=True)
def _draw_popular_again(t: Tables, user: Scalar, key: Scalar, base: Scalar) -> Scalar:
    if t.free_weight[user] == 0:  # no untouched item has a positive: draw one uniformly
        return _draw_item_again(t, user, key, base)
    for k in range(1, POPULAR_TRIES):
        item = _popular_try(t, key, base + np.uint64(k))
        if not is_observed(t, user, item):
            return item
    x = splitmix64(key, base + np.uint64(POPULAR_TRIES))
    left = np.int64(mulhi(x, np.uint64(t.free_weight[user])))
    at, end = t.indptr[user], t.indptr[user + 1]
    for item in range(t.n_items):
        if at < end and t.indices[at] == item:
            at += 1
            continue
        left -= t.weight[item]
        if left < 0:
            return item
    return np.int64(-1)


@kernel(inner=True)
def _draw_pair_again(t: Tables, key: Scalar, base: Scalar) -> tuple[Scalar, Scalar]:
    for k in range(1, TRIES):
        user, item = _pair_try(t, key, base + np.uint64(k))
        if not is_observed(t, user, item):
            return user, item
    n_free = t.n_users * t.n_items - t.indptr[t.n_users]
    rank = np.int64(mulhi(splitmix64(key, base + np.uint64(TRIES)), np.uint64(n_free)))
    lo, hi = np.int64(0), np.int64(t.n_users)
    while lo < hi:  # the first user whose free pairs end after the rank
        mid = (lo + hi) >> 1
        if (mid + 1) * t.n_items - t.indptr[mid + 1] <= rank:
            lo = mid + 1
        else:
            hi = mid
    return lo, free_item(t, lo, rank - (lo * t.n_items - t.indptr[lo]))


@kernel()
def draw_items(t: Tables, users: I32, n: Scalar, key: Scalar, counter: Scalar, out: I32) -> None:
    """out[k], k < n: an item uniform over those that users[k] has not touched; -1 if there is none."""
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        for k in range(first, last):
            item = _item_try(t, key, (counter + np.uint64(k)) * _STRIDE)
            _prefetch_filter(t, np.int64(users[k]), item)
            out[k] = item
        for k in range(first, last):
            if is_observed(t, np.int64(users[k]), np.int64(out[k])):
                out[k] = _draw_item_again(t, np.int64(users[k]), key, (counter + np.uint64(k)) * _STRIDE)


@kernel()
def draw_popular_items(t: Tables, users: I32, n: Scalar, key: Scalar, counter: Scalar, out: I32) -> None:
    """As `draw_items`, in proportion to the items' numbers of positives."""
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        for k in range(first, last):
            item = _popular_try(t, key, (counter + np.uint64(k)) * _POPULAR_STRIDE)
            _prefetch_filter(t, np.int64(users[k]), item)
            out[k] = item
        for k in range(first, last):
            if is_observed(t, np.int64(users[k]), np.int64(out[k])):
                out[k] = _draw_popular_again(t, np.int64(users[k]), key, (counter + np.uint64(k)) * _POPULAR_STRIDE)


@kernel()
def draw_pairs(t: Tables, n: Scalar, key: Scalar, counter: Scalar, users: I32, items: I32) -> None:
    """users[k], items[k], k < n: uniform over all unobserved pairs; there must be at least one."""
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        for k in range(first, last):
            users[k], items[k] = _pair_try(t, key, (counter + np.uint64(k)) * _STRIDE)
            _prefetch_filter(t, np.int64(users[k]), np.int64(items[k]))
        for k in range(first, last):
            if is_observed(t, np.int64(users[k]), np.int64(items[k])):
                users[k], items[k] = _draw_pair_again(t, key, (counter + np.uint64(k)) * _STRIDE)


@kernel(inner=True)
def shuffle_pairs(t: Tables, key: Scalar, pairs: U64) -> None:
    """Put all positives in random order, user in the upper and item in the lower half of a word.

    Always starts from the same order, so that an epoch's order depends only on its key.
    """
    for user in range(t.n_users):
        for k in range(t.indptr[user], t.indptr[user + 1]):
            pairs[k] = (np.uint64(user) << USER_SHIFT) | np.uint64(t.indices[k])
    for k in range(pairs.size - 1, 0, -1):
        other = np.int64(mulhi(splitmix64(key, np.uint64(k)), np.uint64(k + 1)))
        pairs[k], pairs[other] = pairs[other], pairs[k]
