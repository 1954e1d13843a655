"""Pairs in the order of users and items, sorted by counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.types import I32, Mask


def sorted_matrix(
    user: npt.NDArray[Any], item: npt.NDArray[Any], values: npt.NDArray[Any], shape: tuple[int, int]
) -> Any:
    """A scipy CSR matrix whose rows are sorted, repeats kept side by side in their order."""
    from scipy.sparse import coo_array

    # Sorting by item first and by user second, both stable and by counting, leaves every row sorted.
    coo = coo_array((values, (item, user)), shape=shape[::-1])
    coo.has_canonical_format = True  # says that there is nothing to sum, which spares a comparison sort
    return coo.tocsr().T.tocsr()


def last_of_each_pair(user: I32, item: I32, shape: tuple[int, int], value: npt.NDArray[Any] | None) -> Mask:
    """(n,) the row of every pair that has the highest value, and of those with equal values the last one."""
    matrix = sorted_matrix(user, item, np.arange(len(user), dtype=np.int32), shape)
    order, items = matrix.data, matrix.indices  # the rows by user, item and position
    same = np.zeros(len(order) + 1, dtype=np.bool_)  # does the row before, in this order, have the same pair?
    same[1:-1] = (items[1:] == items[:-1]) & (user[order[1:]] == user[order[:-1]])
    if value is not None:  # only the rows of repeated pairs have to be put into its order
        several = np.flatnonzero(same[:-1] | same[1:])
        group = np.cumsum(~same[several])
        order[several] = order[several][np.lexsort((value[order[several]], group))]
    kept = np.zeros(len(user), dtype=np.bool_)
    kept[order[~same[1:]]] = True
    return kept
