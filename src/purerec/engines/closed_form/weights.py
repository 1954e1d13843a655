"""Weights between items, S: the score of item i for a person with items J is the sum of S[j, i] over j in J."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from purerec.data.pairs import Csr
from purerec.jit.arrays import constant
from purerec.jit.decorator import kernel
from purerec.storage import Layout, Part, check_csr
from purerec.types import F32, I32, I64, Array, State


class ItemWeights(ABC):
    """All weights (`DenseWeights`), or only the nonzero ones (`SparseWeights`)."""

    layout: ClassVar[Layout]
    """The layout of `state`; a model with further arrays adds them."""

    @abstractmethod
    def scores(self, positives: Csr, user_idx: I64) -> F32:
        """(len(user_idx), n_items) for these users, each with their own positives"""

    @abstractmethod
    def of_history(self, item_idx: I32) -> F32:
        """(n_items,) scores for a person with these items"""

    @abstractmethod
    def shares(self, item_idx: I32, target_idx: I64) -> F32:
        """(len(item_idx), len(target_idx)) what each of these items adds to the score of each target"""

    @abstractmethod
    def row(self, item_idx: int) -> F32:
        """(n_items,) what an item adds to the scores of all"""

    @abstractmethod
    def scaled(self, factor: float) -> ItemWeights:
        """All weights times a factor."""

    @abstractmethod
    def state(self) -> State:
        """As arrays; the inverse of `from_state`."""

    @staticmethod
    def kind_of(state: Mapping[str, Array]) -> type[DenseWeights] | type[SparseWeights]:
        """The class of a state, by its array names; check its `layout` before calling `from_state`."""
        return SparseWeights if SparseWeights.layout.keys() & state.keys() else DenseWeights

    @staticmethod
    def from_state(state: Mapping[str, Array], n_items: int) -> ItemWeights:
        """Weights from arrays of the right layout, possibly from a damaged folder; other arrays are ignored."""
        if ItemWeights.kind_of(state) is DenseWeights:
            return DenseWeights(state["weights"])
        starts, items, values = (state[name] for name in SparseWeights.layout)
        check_csr("weights", starts, items, (n_items, n_items))
        return SparseWeights(starts, items, values)


class DenseWeights(ItemWeights):
    layout: ClassVar[Layout] = {"weights": Part(("items", "items"))}

    def __init__(self, matrix: F32) -> None:
        self.matrix: F32 = constant(matrix, np.float32)
        """(n_items, n_items)"""

    def scores(self, positives: Csr, user_idx: I64) -> F32:
        found = np.zeros((len(user_idx), len(self.matrix)), dtype=np.float32)
        _add_dense(constant(user_idx, np.int64), *_rows(positives), self.matrix, found)
        return found

    def of_history(self, item_idx: I32) -> F32:
        found: F32 = self.matrix[item_idx].sum(axis=0)
        return found

    def shares(self, item_idx: I32, target_idx: I64) -> F32:
        found: F32 = self.matrix[np.ix_(item_idx, target_idx)]
        return found

    def row(self, item_idx: int) -> F32:
        found: F32 = self.matrix[item_idx].copy()
        return found

    def scaled(self, factor: float) -> ItemWeights:
        return DenseWeights(np.multiply(self.matrix, np.float32(factor)))

    def state(self) -> State:
        return {"weights": self.matrix}


class SparseWeights(ItemWeights):
    layout: ClassVar[Layout] = {
        "weight_starts": Part(("weight_rows",), np.int64),
        "weight_items": Part(("weight_pairs",), np.int32),
        "weight_values": Part(("weight_pairs",)),
    }

    def __init__(self, starts: I64, items: I32, values: F32) -> None:
        """Rows of S without zeros: item j adds `values` to `items` (ascending), from starts[j] to starts[j + 1]."""
        self.starts: I64 = constant(starts, np.int64)
        self.items: I32 = constant(items, np.int32)
        self.values: F32 = constant(values, np.float32)

    @property
    def n_items(self) -> int:
        return len(self.starts) - 1

    def scores(self, positives: Csr, user_idx: I64) -> F32:
        found = np.zeros((len(user_idx), self.n_items), dtype=np.float32)
        rows = constant(user_idx, np.int64)
        _add_sparse(rows, *_rows(positives), self.starts, self.items, self.values, found)
        return found

    def of_history(self, item_idx: I32) -> F32:
        only = Csr(np.array([0, len(item_idx)]), np.array(item_idx, dtype=np.int32), (1, self.n_items))
        found: F32 = self.scores(only, np.zeros(1, dtype=np.int64))[0]
        return found

    def shares(self, item_idx: I32, target_idx: I64) -> F32:
        found = np.zeros((len(item_idx), len(target_idx)), dtype=np.float32)
        for n, j in enumerate(item_idx):
            items, values = self._row(int(j))
            if len(items):
                at = np.minimum(np.searchsorted(items, target_idx), len(items) - 1)
                found[n] = np.where(items[at] == target_idx, values[at], 0)
        return found

    def row(self, item_idx: int) -> F32:
        found = np.zeros(self.n_items, dtype=np.float32)
        items, values = self._row(item_idx)
        found[items] = values
        return found

    def scaled(self, factor: float) -> ItemWeights:
        return SparseWeights(self.starts, self.items, np.multiply(self.values, np.float32(factor)))

    def state(self) -> State:
        return dict(zip(self.layout, (self.starts, self.items, self.values), strict=True))

    def _row(self, item_idx: int) -> tuple[I32, F32]:
        part = slice(self.starts[item_idx], self.starts[item_idx + 1])
        return self.items[part], self.values[part]


def _rows(positives: Csr) -> tuple[I64, I32]:
    return constant(positives.indptr, np.int64), constant(positives.indices, np.int32)


@kernel()
def _add_dense(rows: I64, begins: I64, own: I32, matrix: F32, found: F32) -> None:
    n = matrix.shape[1]
    for r in range(len(rows)):
        for p in range(begins[rows[r]], begins[rows[r] + 1]):
            j = own[p]
            for i in range(n):
                found[r, i] += matrix[j, i]


@kernel()
def _add_sparse(rows: I64, begins: I64, own: I32, starts: I64, items: I32, values: F32, found: F32) -> None:
    for r in range(len(rows)):
        for p in range(begins[rows[r]], begins[rows[r] + 1]):
            for q in range(starts[own[p]], starts[own[p] + 1]):
                found[r, items[q]] += values[q]
