"""Distinct pairs of users and items, sorted, and the rows of a log that repeat a pair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.types import I32, I64, Mask


@dataclass(frozen=True, eq=False)
class Csr:
    """Distinct pairs by user: the items of user u are `indices[indptr[u]:indptr[u + 1]]`, sorted."""

    indptr: I64
    """(n_users + 1,)"""
    indices: I32
    """(n_pairs,)"""
    shape: tuple[int, int]

    @classmethod
    def of(cls, user_idx: npt.ArrayLike, item_idx: npt.ArrayLike, shape: tuple[int, int]) -> Csr:
        """Build from pairs in any order, counting repeated ones once. Two counting sorts: linear in the pairs."""
        user, item = np.asarray(user_idx), np.asarray(item_idx)
        matrix = sorted_matrix(user, item, np.ones(len(user), dtype=np.int8), shape)
        matrix.has_sorted_indices, matrix.has_canonical_format = True, False
        matrix.sum_duplicates()
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), shape)

    def __post_init__(self) -> None:
        freeze(self.indptr, self.indices)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def counts(self) -> I64:
        """(n_users,) pairs of each user."""
        return np.diff(self.indptr)

    @property
    def item_counts(self) -> I64:
        """(n_items,) pairs of each item."""
        return np.bincount(self.indices, minlength=self.shape[1]).astype(np.int64)

    @cached_property
    def users(self) -> I32:
        """(n_pairs,) the user of each pair."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), self.counts)

    def row(self, user_idx: int) -> I32:
        return self.indices[self.indptr[user_idx] : self.indptr[user_idx + 1]]

    def widened(self, shape: tuple[int, int]) -> Csr:
        """The same pairs among more users and items."""
        return Csr.of(self.users, self.indices, shape)

    def union(self, other: Csr) -> Csr:
        """The pairs in either."""
        return Csr.of(
            np.concatenate([self.users, other.users]),
            np.concatenate([self.indices, other.indices]),
            self.shape,
        )

    def overlap(self, other: Csr) -> int:
        """The number of pairs in both."""
        return len(self) + len(other) - len(self.union(other))

    def to_scipy(self) -> Any:
        """A scipy CSR array of ones (float32); a copy, since some libraries do not accept read-only arrays."""
        from scipy.sparse import csr_array

        ones = np.ones(len(self), dtype=np.float32)
        return csr_array((ones, self.indices, self.indptr), shape=self.shape, copy=True)


def freeze(*arrays: npt.NDArray[Any] | None) -> None:
    """Make arrays read-only, where there are any."""
    for array in arrays:
        if array is not None:
            array.flags.writeable = False


def sorted_matrix(
    user: npt.NDArray[Any], item: npt.NDArray[Any], values: npt.NDArray[Any], shape: tuple[int, int]
) -> Any:
    """A scipy CSR matrix with sorted rows; repeated pairs are kept side by side, in their original order."""
    from scipy.sparse import coo_array

    # Stable counting sorts, by item first and by user second, leave every row sorted.
    coo = coo_array((values, (item, user)), shape=shape[::-1])
    coo.has_canonical_format = True  # there are no duplicates to sum, so avoid a comparison sort
    return coo.tocsr().T.tocsr()


def last_of_each_pair(user: I32, item: I32, shape: tuple[int, int], value: npt.NDArray[Any] | None) -> Mask:
    """(n,) True for the row of each pair with the highest value, or the last one among equal values."""
    matrix = sorted_matrix(user, item, np.arange(len(user), dtype=np.int32), shape)
    order, items = matrix.data, matrix.indices  # the rows by user, item and position
    same = np.zeros(len(order) + 1, dtype=np.bool_)  # does the row before, in this order, have the same pair?
    same[1:-1] = (items[1:] == items[:-1]) & (user[order[1:]] == user[order[:-1]])
    if value is not None:  # only the rows of repeated pairs need sorting by value
        several = np.flatnonzero(same[:-1] | same[1:])
        group = np.cumsum(~same[several])
        order[several] = order[several][np.lexsort((value[order[several]], group))]
    kept = np.zeros(len(user), dtype=np.bool_)
    kept[order[~same[1:]]] = True
    return kept
