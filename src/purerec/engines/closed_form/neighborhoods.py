"""Weights between items from small systems: one per item, over the items it was most often liked with.

Steck (2019), Markov Random Fields for Collaborative Filtering; Ning and Karypis (2011), SLIM with feature selection.

    N = the `neighbors` items j != i with the largest G[j, i] > 0
    (G[N, N] + regularization I) b = G[N, i]

    S[j, i] = b[j] pop_i^item_power / pop_j^item_power

If N is all items, this is EASE, column by column. Among items with equal products, the less popular come first; among
equally popular ones, those with the lower index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.closed_form.cholesky import clear, padded_height, padded_width, scratch_size, solve
from purerec.engines.closed_form.gram import (
    Fans,
    Gram,
    GramRow,
    Weighting,
    add_row,
    gram,
    new_row,
    row_lengths,
    starts_of,
)
from purerec.engines.closed_form.parts import in_parts
from purerec.jit.arrays import constant
from purerec.jit.decorator import Scalar, kernel
from purerec.types import F32, I32, I64, U32, Mask


class WeightColumns(NamedTuple):
    """S by column, for each regularization: item i has weights from items[starts[i] : starts[i+1]], in no order."""

    starts: I64
    items: I32
    values: F32
    """(n_regularizations, n_weights)"""
    solved: Mask
    """(n_regularizations, n_items) False where the system was singular in single precision"""


class Neighborhoods:
    """The systems of all items for a number of neighbours, with known sizes and ready to solve."""

    def __init__(self, positives: Csr, weight: Weighting, neighbors: int, threads: int) -> None:
        self._positives, self._weight, self._threads = positives, weight, threads
        self._order = np.argsort(positives.item_counts, kind="stable")
        self._fans = Fans.of(positives, self._order)
        self._lengths = row_lengths(self._fans, threads)
        self._sizes = np.minimum(self._lengths.all, neighbors)

    def needed_bytes(self, n_regularizations: int = 1) -> int:
        """Peak memory, while columns are solved: the data from both sides, G, the weights, and the threads' memory.

        Or afterwards, when G is freed and there are two copies of the weights.
        """
        n, widest = self._fans.n_items, int(self._sizes.max(initial=0))
        data = 12 * len(self._positives) + 64 * n
        weights = 4 * (1 + n_regularizations) * int(self._sizes.sum())
        scratch = self._threads * (16 * n + 4 * widest + 8 * int(scratch_size(widest)))
        return data + max(8 * int(self._lengths.kept.sum()) + weights + scratch, 2 * weights)

    def solve(self, regularizations: Sequence[float]) -> WeightColumns:
        n, widest, fans = self._fans.n_items, int(self._sizes.max(initial=0)), self._fans
        user = constant(self._weight.user**2, np.float32)
        item = constant(self._weight.item[self._order], np.float32)
        diagonal = self._weight.diagonal(self._positives)[self._order]
        diagonals = constant(np.add.outer(np.array(regularizations), diagonal), np.float32)
        products = gram(fans, user, item, self._lengths, self._threads)
        order = constant(self._order, np.int32)
        sizes = np.empty(n, dtype=np.int64)
        sizes[self._order] = self._sizes
        starts = starts_of(sizes)
        found = WeightColumns(
            starts,
            np.empty(starts[-1], dtype=np.int32),
            np.empty((len(diagonals), starts[-1]), dtype=np.float32),
            np.ones((len(diagonals), n), dtype=np.bool_),
        )

        def work(first: int, last: int) -> None:
            _solve_columns(first, last, fans, user, item, products, diagonals, order, _new_scratch(n, widest), found)

        in_parts(n, self._threads, work)
        return found


# ---------------------------------------------------------------------- kernels


class _Scratch(NamedTuple):
    """The working memory of one thread."""

    row: GramRow
    place: U32
    """(n_items,) the place of an item among the neighbours; 0 for all others. Unsigned, like the items of `Gram`: for
    an index that may be negative, the compiler adds the length, which would cost a sixth of the total time."""
    chosen: I32
    """(neighbors,) ascending"""
    values: F32
    """(n_items,) for selection, which reorders them"""
    collected: F32
    """The system without its diagonal; see `cholesky` for the layout."""
    system: F32
    """The same with one of the diagonals, then solved"""


def _new_scratch(n_items: int, widest: int) -> _Scratch:
    return _Scratch(
        new_row(n_items),
        np.zeros(n_items, dtype=np.uint32),
        np.empty(widest, dtype=np.int32),
        np.empty(n_items, dtype=np.float32),
        np.empty(scratch_size(widest), dtype=np.float32),
        np.empty(scratch_size(widest), dtype=np.float32),
    )


@kernel()
def _solve_columns(
    first: Scalar,
    last: Scalar,
    fans: Fans,
    user: F32,
    item: F32,
    products: Gram,
    diagonals: F32,
    order: I32,
    scratch: _Scratch,
    found: WeightColumns,
) -> None:
    for i in range(first, last):
        at = found.starts[order[i]]
        n = found.starts[order[i] + 1] - at
        height = padded_height(n)
        width = padded_width(height)
        clear(scratch.collected, n)
        n_row = add_row(i, 0, fans, user, scratch.row)
        _choose(i, n, n_row, item, scratch, height, width)
        _collect(n, products, scratch, width)
        for a in range(n):
            found.items[at + a] = order[scratch.chosen[a]]
        for r in range(len(diagonals)):
            for p in range(height * width):
                scratch.system[p] = scratch.collected[p]
            for a in range(n):
                scratch.system[a * width + a] = diagonals[r, scratch.chosen[a]]
            found.solved[r, order[i]] = solve(scratch.system, n)
            for a in range(n):
                found.values[r, at + a] = scratch.system[height * width + a] * (item[scratch.chosen[a]] / item[i])


@kernel(inner=True)
def _choose(i: Scalar, n: Scalar, n_row: Scalar, item: F32, scratch: _Scratch, height: Scalar, width: Scalar) -> None:
    """Choose the n neighbours of item i, ascending, with their products as the right-hand side; clear the row."""
    items, sums, values = scratch.row.items, scratch.row.sums, scratch.values
    sums[i] = 0  # an item is not its own neighbour
    if n == 0:
        return
    for p in range(n_row):
        sums[items[p]] *= item[i] * item[items[p]]
        values[p] = sums[items[p]]
    least = _largest(values, n_row, n)
    ties = n
    for p in range(n_row):
        ties -= values[p] > least
    a = 0
    for p in range(n_row):
        value = sums[items[p]]
        if value > least or (value == least and ties > 0):
            ties -= value == least
            scratch.chosen[a] = items[p]
            scratch.collected[a * width + height] = value
            a += 1
        sums[items[p]] = 0


@kernel(inner=True)
def _largest(x: F32, n: Scalar, k: Scalar) -> Scalar:
    """The k-th largest of the first n numbers, which are reordered (Hoare's selection)."""
    low, high, goal = 0, n - 1, k - 1
    while low < high:
        pivot = x[(low + high) >> 1]
        a, b = low, high
        while a <= b:
            while x[a] > pivot:
                a += 1
            while x[b] < pivot:
                b -= 1
            if a <= b:
                x[a], x[b] = x[b], x[a]
                a += 1
                b -= 1
        if goal <= b:
            high = b
        elif goal >= a:
            low = a
        else:
            break
    return x[goal]


@kernel(inner=True)
def _collect(n: Scalar, products: Gram, scratch: _Scratch, width: Scalar) -> None:
    """G[N, N] right of its diagonal.

    No branches: products with other items go to place 0, on or below the diagonal, which is never read. Place 0 is
    also the first neighbour's, but it has the lowest rank, so no other row needs a product with it.
    """
    chosen, place, collected = scratch.chosen, scratch.place, scratch.collected
    for a in range(n):
        place[chosen[a]] = a
    for a in range(n):
        row, j = np.uint64(a * width), chosen[a]
        for p in range(products.starts[j], products.starts[j + 1]):
            collected[row + place[products.items[p]]] = products.values[p]
    for a in range(n):
        place[chosen[a]] = 0
