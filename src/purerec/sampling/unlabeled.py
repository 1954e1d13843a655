"""Unlabeled pairs (section 4.2), drawn exactly and in bounded time.

`draws` has the draws themselves, for kernels; `purerec.paper.theory.unlabeled_needed` bounds their number.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from purerec.data.pairs import Csr
from purerec.data.vocabulary import indices_of
from purerec.errors import ConfigError, DataError
from purerec.jit.arrays import constant
from purerec.jit.decorator import Scalar, kernel
from purerec.rng import key64
from purerec.sampling.draws import Tables, bloom_place, draw_items, draw_pairs, draw_popular_items
from purerec.types import I32, I64, U64

FullUsers = Literal["error", "skip"]
_ONE, _SIX_BITS = np.uint64(1), np.uint64(63)


def without_full_users(positives: Csr) -> Csr:
    """The positives of users who have at least one unobserved item; all positives if nobody has."""
    degree = positives.counts
    kept = degree < positives.shape[1]
    if kept.all() or not degree[kept].any():
        return positives
    indptr = np.concatenate([[0], np.cumsum(degree * kept)])
    return Csr(indptr, positives.indices[np.repeat(kept, degree)], positives.shape)


class UnlabeledSampler:
    """Draws pairs that are not among the positives, exactly.

    The positives are `indptr` (n_users + 1,) and `indices` (n_positive,), ascending and unique in each row.
    A bitmap of all pairs is kept if it fits in `memory_mb` and is not mostly empty; otherwise a Bloom filter per user
    (about 3 bytes per positive, regardless of `memory_mb`) avoids most binary searches. Both give the same draws.

    `full_users`: what to do with a user who has touched every item. "error" raises DataError; "skip" returns -1
    for them. Draws over all pairs never include them.
    """

    def __init__(
        self,
        indptr: npt.ArrayLike,
        indices: npt.ArrayLike,
        n_items: int,
        *,
        memory_mb: float = 256.0,
        full_users: FullUsers = "error",
    ) -> None:
        if full_users not in ("error", "skip"):
            raise ConfigError(f"full_users must be 'error' or 'skip', not {full_users!r}")
        rows, columns = constant(indptr, np.int64), constant(indices, np.int32)
        _check(rows, columns, n_items)
        self.full_users: FullUsers = full_users
        self.tables = _tables(rows, columns, n_items, memory_mb)

    @property
    def has_bitmap(self) -> bool:
        return self.tables.row_words > 0

    @property
    def n_unobserved(self) -> int:
        return self.tables.n_users * self.tables.n_items - self.tables.indices.size

    def items_for(self, user_idx: npt.ArrayLike, *, seed: int, counter: int = 0) -> I32:
        """One item for each user, uniform over those not touched. Draw n is number counter + n of the seed."""
        return self._for_users(draw_items, user_idx, seed, counter)

    def popular_items_for(self, user_idx: npt.ArrayLike, *, seed: int, counter: int = 0) -> I32:
        """One untouched item for each user, in proportion to the items' numbers of positives.

        If none of a user's untouched items has positives, one of them is drawn uniformly.
        """
        return self._for_users(draw_popular_items, user_idx, seed, counter)

    def pairs(self, n: int, *, seed: int, counter: int = 0) -> tuple[I32, I32]:
        """`n` pairs (user_idx, item_idx), uniform over all unobserved pairs."""
        if self.n_unobserved == 0:
            raise DataError("every user has touched every item, so there is no unlabeled pair; use more items")
        users, items = np.empty(n, np.int32), np.empty(n, np.int32)
        draw_pairs(self.tables, n, key64(seed, "sampling"), np.uint64(counter), users, items)
        return users, items

    def _for_users(self, draw: Any, user_idx: npt.ArrayLike, seed: int, counter: int) -> I32:
        users = indices_of(user_idx, self.tables.n_users, "user").astype(np.int32)
        items = np.empty(users.size, np.int32)
        draw(self.tables, users, users.size, key64(seed, "sampling"), np.uint64(counter), items)
        if self.full_users == "error" and items.size and items.min() < 0:
            user = int(users[np.argmin(items)])
            raise DataError(
                f"user index {user} has touched all {self.tables.n_items} items, so nothing is left to draw; "
                "leave the user out or use full_users='skip'"
            )
        return items


def _check(indptr: I64, indices: I32, n_items: int) -> None:
    if indptr.ndim != 1 or indptr.size < 2 or n_items < 1 or indices.ndim != 1:
        raise DataError("positives need at least one user and one item")
    if indptr[0] != 0 or indptr[-1] != indices.size or np.any(np.diff(indptr) < 0):
        raise DataError("indptr must ascend from 0 to the number of positives")
    if indices.size and (indices.min() < 0 or indices.max() >= n_items):
        raise DataError(f"item indices must lie in range({n_items})")
    ascending = np.diff(indices) > 0
    starts = indptr[1:-1]
    ascending[starts[(starts > 0) & (starts < indices.size)] - 1] = True
    if not ascending.all():
        raise DataError("item indices must ascend, without repeats, within each user")


def _tables(indptr: I64, indices: I32, n_items: int, memory_mb: float) -> Tables:
    n_users = indptr.size - 1
    row_words = (n_items + 63) // 64
    filter_start = np.zeros(n_users + 1, np.int64)
    # Beyond 16 bytes per positive, the bitmap only evicts other data from the caches: with 25,677 x 25,815 pairs and
    # 467,000 positives, draws are a third faster with Bloom filters (1.3 MB) than with the bitmap (83 MB).
    sensible = max(1e6, 16.0 * indices.size)
    if n_users * row_words * 8 <= min(memory_mb * 1e6, sensible):
        words = np.zeros(n_users * row_words, np.uint64)
        _fill_bitmap(indptr, indices, row_words, words)
    else:
        row_words = 0
        degree = np.diff(indptr)
        # About four positives per word (16 bits each): one false positive in 50.
        size = np.where(degree > 0, 1 << np.ceil(np.log2(np.maximum(degree / 4, 1))).astype(np.int64), 0)
        np.cumsum(size, out=filter_start[1:])
        words = np.zeros(int(filter_start[-1]), np.uint64)
        _fill_bloom(indptr, indices, filter_start, words)
    weight = np.bincount(indices, minlength=n_items).astype(np.int64)
    return Tables(
        indptr, indices, n_users, n_items, row_words, words, filter_start, **_by_weight(indptr, indices, weight)
    )


def weighted(tables: Tables, shares: npt.NDArray[np.float64]) -> Tables:
    """The same tables, with draws by weight using `shares` (n_items,) instead of popularity."""
    # Integers, so that the alias table is exact; the largest product stays below 2^63.
    weight = np.maximum(1, np.rint(shares / shares.max() * 2**24)).astype(np.int64)
    return tables._replace(**_by_weight(tables.indptr, tables.indices, weight))


def _by_weight(indptr: I64, indices: I32, weight: I64) -> dict[str, Any]:
    """The fields of `Tables` that draws by weight need."""
    n_items, total = weight.size, int(weight.sum())
    free_weight = np.empty(indptr.size - 1, np.int64)
    _free_weights(indptr, indices, weight, total, free_weight)
    cutoff, alias = np.zeros(n_items, np.uint64), np.zeros(n_items, np.int32)
    _fill_alias(weight * n_items, total, np.empty(n_items, np.int64), cutoff, alias)
    return {
        "total_weight": total,
        "free_weight": free_weight,
        "weight": weight,
        "cutoff": cutoff,
        "alias": alias,
    }


@kernel()
def _fill_bitmap(indptr: I64, indices: I32, row_words: Scalar, out: U64) -> None:
    for user in range(indptr.size - 1):
        for k in range(indptr[user], indptr[user + 1]):
            item = indices[k]
            out[user * row_words + (item >> 6)] |= _ONE << (np.uint64(item) & _SIX_BITS)


@kernel()
def _fill_bloom(indptr: I64, indices: I32, start: I64, out: U64) -> None:
    for user in range(indptr.size - 1):
        mask = np.uint64(start[user + 1] - start[user] - 1)
        for k in range(indptr[user], indptr[user + 1]):
            place, bits = bloom_place(np.int64(indices[k]))
            out[start[user] + np.int64(place & mask)] |= bits


@kernel()
def _free_weights(indptr: I64, indices: I32, weight: I64, total: Scalar, out: I64) -> None:
    for user in range(indptr.size - 1):
        left = total
        for k in range(indptr[user], indptr[user + 1]):
            left -= weight[indices[k]]
        out[user] = left


@kernel()
def _fill_alias(height: I64, total: Scalar, stack: I64, cutoff: U64, alias: I32) -> None:
    """Vose's alias table in integers: n columns of height `total`, where item i fills `height[i]` in total.

    Overwrites `height`. `stack` (n,) is scratch: columns that are too low from the left, too high from the right.
    """
    n = height.size
    n_low, first_high = 0, n
    for i in range(n):
        alias[i] = i
        if height[i] < total:
            stack[n_low] = i
            n_low += 1
        else:
            first_high -= 1
            stack[first_high] = i
    while n_low > 0 and first_high < n:
        low, high = stack[n_low - 1], stack[first_high]
        cutoff[low] = height[low]
        alias[low] = high
        height[high] -= total - height[low]
        if height[high] < total:
            stack[n_low - 1] = high
            first_high += 1
        else:
            n_low -= 1
    for k in range(first_high, n):
        cutoff[stack[k]] = total
    for k in range(n_low):
        cutoff[stack[k]] = total
