"""Pairs sorted by user and item, with counting sorts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.types import I32, Mask


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
