"""How often two items were liked by the same people, from sparse positives.

    G = W'W,   W = diag(n_u^-user_power) X diag(pop_i^-item_power)

n_u is the number of positives of a user, and pop_i that of an item. With powers above 0, people who like many items,
and items that many people like, count less.

Items are numbered by rank here, the least popular first, and only products with higher ranks are kept. The longest
rows of G, those of popular items, thus become the shortest: finding the products among a few items takes a sixth of
the work and half the memory. Each row is computed by one thread, with users in ascending order, so the result does
not depend on the number of threads, bit for bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from purerec.data.pairs import Csr
from purerec.engines.closed_form.parts import in_parts
from purerec.jit.arrays import constant
from purerec.jit.decorator import Scalar, intrinsic, kernel
from purerec.types import F32, F64, I32, I64, U32, U64

_BIT = np.uint64(1)


class Weighting(NamedTuple):
    """How much users and items count: W[u, i] = user[u] * item[i] where u likes i."""

    user: F64
    """(n_users,)"""
    item: F64
    """(n_items,)"""

    @classmethod
    def of(cls, positives: Csr, user_power: float, item_power: float) -> Weighting:
        n_user, n_item = np.maximum(positives.counts, 1), np.maximum(positives.item_counts, 1)
        return cls(n_user.astype(np.float64) ** -user_power, n_item.astype(np.float64) ** -item_power)

    def diagonal(self, positives: Csr) -> F64:
        """(n_items,) G[i, i]"""
        squares = self.user[positives.users] ** 2
        return self.item**2 * np.bincount(positives.indices, weights=squares, minlength=len(self.item))


def mean_diagonal(positives: Csr, user_power: float = 0.0, item_power: float = 0.0) -> float:
    """The mean of G[i, i] over all items: a scale for regularizations."""
    return float(np.mean(Weighting.of(positives, user_power, item_power).diagonal(positives)))


class Fans(NamedTuple):
    """The positives from both sides, items by rank."""

    user_starts: I64
    items: I32
    item_starts: I64
    users: I32
    """Ascending within each item"""

    @classmethod
    def of(cls, positives: Csr, order: I64) -> Fans:
        """`order`: the items by rank."""
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        items = rank[positives.indices]
        return cls(
            constant(positives.indptr, np.int64),
            constant(items, np.int32),
            starts_of(positives.item_counts[order]),
            constant(positives.users[np.argsort(items, kind="stable")], np.int32),
        )

    @property
    def n_items(self) -> int:
        return len(self.item_starts) - 1


class Gram(NamedTuple):
    """G right of its diagonal, without zeros."""

    starts: I64
    """(n_items + 1,)"""
    items: U32
    """(n_products,) ascending in each row"""
    values: F32
    """(n_products,)"""


class RowLengths(NamedTuple):
    """The number of other items that each item was liked together with."""

    all: I64
    """(n_items,)"""
    kept: I64
    """(n_items,) those of higher rank"""


def starts_of(counts: I64) -> I64:
    """(n + 1,) where n parts of these sizes start."""
    return constant(np.concatenate([[0], np.cumsum(counts)]), np.int64)


def row_lengths(fans: Fans, threads: int) -> RowLengths:
    """The size of G, before memory is allocated for it."""
    n = fans.n_items
    found = RowLengths(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64))
    alike = constant(np.ones(len(fans.user_starts) - 1), np.float32)
    in_parts(n, threads, lambda first, last: _count(first, last, fans, alike, new_row(n), found))
    return found


def gram(fans: Fans, user: F32, item: F32, lengths: RowLengths, threads: int) -> Gram:
    """Compute G from the users' squared weights and the items' weights, by rank."""
    n, starts = fans.n_items, starts_of(lengths.kept)
    items, values = np.empty(starts[-1], dtype=np.uint32), np.empty(starts[-1], dtype=np.float32)

    def work(first: int, last: int) -> None:
        _fill(first, last, fans, user, item, new_row(n), starts, items, values)

    in_parts(n, threads, work)
    return Gram(starts, constant(items, np.uint32), constant(values, np.float32))


# ---------------------------------------------------------------------- kernels


class GramRow(NamedTuple):
    """A row of G under construction.

    There is a bit for each item, and above these, one for each word of bits that is not zero. Setting them costs no
    more than building a list, and the items come out sorted.
    """

    sums: F32
    """(n_items,) zero between rows, like the bits"""
    bits: U64
    words: U64
    items: I32
    """(n_items,) the items found, ascending"""


def new_row(n_items: int) -> GramRow:
    n_words = -(-n_items // 64)
    bits, words = np.zeros(n_words, dtype=np.uint64), np.zeros(-(-n_words // 64), dtype=np.uint64)
    return GramRow(np.zeros(n_items, dtype=np.float32), bits, words, np.empty(n_items, dtype=np.int32))


@intrinsic
def _lowest_bit(typingctx: Any, word: Any) -> Any:
    """The position of the lowest set bit."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.int64(types.uint64), codegen


@kernel(inner=True)
def add_row(i: Scalar, lowest: Scalar, fans: Fans, user: F32, row: GramRow) -> Scalar:
    """Sum `user` over the fans of item i, for each of their items from `lowest` on; return the number of items."""
    for p in range(fans.item_starts[i], fans.item_starts[i + 1]):
        u = fans.users[p]
        for q in range(fans.user_starts[u], fans.user_starts[u + 1]):
            j = np.int64(fans.items[q])
            if j >= lowest:
                word = j >> 6
                row.sums[j] += user[u]
                row.bits[word] |= _BIT << np.uint64(j & 63)
                row.words[word >> 6] |= _BIT << np.uint64(word & 63)
    n = 0
    for top in range(len(row.words)):
        words = row.words[top]
        row.words[top] = 0
        while words:
            word = top * 64 + _lowest_bit(words)
            words &= words - _BIT
            bits = row.bits[word]
            row.bits[word] = 0
            while bits:
                row.items[n] = word * 64 + _lowest_bit(bits)
                bits &= bits - _BIT
                n += 1
    return n


@kernel()
def _count(first: Scalar, last: Scalar, fans: Fans, user: F32, row: GramRow, found: RowLengths) -> None:
    for i in range(first, last):
        n = add_row(i, 0, fans, user, row)
        for p in range(n):
            found.all[i] += row.items[p] != i
            found.kept[i] += row.items[p] > i


@kernel()
def _fill(
    first: Scalar, last: Scalar, fans: Fans, user: F32, item: F32, row: GramRow, starts: I64, items: U32, values: F32
) -> None:
    for i in range(first, last):
        for p in range(add_row(i, i + 1, fans, user, row)):
            j = row.items[p]
            items[starts[i] + p] = j
            values[starts[i] + p] = row.sums[j] * (item[i] * item[j])
            row.sums[j] = 0
