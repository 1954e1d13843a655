"""Item weights from positives: chooses their form, checks memory, and scales them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purerec.data import memory
from purerec.data.pairs import Csr
from purerec.engines.closed_form import dense
from purerec.engines.closed_form.gram import Weighting
from purerec.engines.closed_form.neighborhoods import Neighborhoods, WeightColumns
from purerec.engines.closed_form.weights import DenseWeights, ItemWeights, SparseWeights
from purerec.errors import ConfigError, DataError
from purerec.ranking.scorers import available_cpus
from purerec.types import F32


def fit_item_weights(
    positives: Csr,
    regularizations: Sequence[float],
    *,
    user_power: float = 0.0,
    item_power: float = 0.0,
    neighbors: int | None = None,
    memory_mb: float,
    threads: int | None = None,
    name: str = "ease",
    multiply: Callable[[Any], F32] = dense.products,
) -> list[ItemWeights]:
    """S = D^-1 B D with D = diag(pop^item_power): B is for weighted positives W, S for positives of zeros and ones.

    Each column of B has weights from all other items (`neighbors=None`, or at least their number), or from the
    `neighbors` items that were most often liked together with it. `regularizations` are added to the diagonal of W'W,
    which is computed once for all of them; see `mean_diagonal`. `name` is the model's, for error messages. `multiply`
    computes W'W if all items have weights.
    """
    weight = Weighting.of(positives, user_power, item_power)
    system = check_memory(
        positives, weight, len(regularizations), neighbors=neighbors, memory_mb=memory_mb, threads=threads, name=name
    )
    if system is None:
        found = dense.weights_of_all(positives, weight, regularizations, multiply)
        return [_by_popularity(matrix, weight, name) for matrix in found]
    columns = system.solve(regularizations)
    _need_solution(bool(columns.solved.all()), name)
    return [_by_row(columns, values) for values in columns.values]


def check_memory(
    positives: Csr,
    weight: Weighting,
    n_regularizations: int,
    *,
    neighbors: int | None,
    memory_mb: float,
    threads: int | None = None,
    name: str,
) -> Neighborhoods | None:
    """Raise an error if memory is too small; return the neighbour systems, or None if dense."""
    n_items = positives.shape[1]
    if neighbors is None or neighbors >= n_items - 1:
        needed = dense.needed_bytes(n_items, n_regularizations)
        _need_memory(needed, n_items, memory_mb, name, "set neighbors=200")
        return None
    system = Neighborhoods(positives, weight, neighbors, threads or available_cpus())
    _need_memory(system.needed_bytes(n_regularizations), n_items, memory_mb, name, "lower neighbors")
    return system


def _by_popularity(matrix: F32 | None, weight: Weighting, name: str) -> DenseWeights:
    _need_solution(matrix is not None, name)
    assert matrix is not None
    if np.any(weight.item != 1):
        matrix *= weight.item[:, None].astype(np.float32)
        matrix /= weight.item.astype(np.float32)
    return DenseWeights(matrix)


def _by_row(columns: WeightColumns, values: F32) -> SparseWeights:
    from scipy.sparse import csc_array

    n = len(columns.starts) - 1
    rows = csc_array((values, columns.items, columns.starts), shape=(n, n)).tocsr()
    return SparseWeights(rows.indptr, rows.indices, rows.data)


def _need_memory(needed_bytes: int, n_items: int, most_mb: float, name: str, remedy: str) -> None:
    """Raise an error before starting: a system that runs out of memory kills the process silently."""
    needed, free = needed_bytes / 2**20, memory.available_mb()
    remedy = f"{remedy}, keep fewer items (drop rare ones), or use ials or itemknn"
    if needed > most_mb:
        raise DataError(
            f"{name} needs {needed:,.0f} MB for {n_items:,} items, and memory_mb is {most_mb:,.0f}: raise it with "
            f"--set memory_mb={math.ceil(needed)}, {remedy}"
        )
    if free is not None and needed > free:
        raise DataError(
            f"{name} needs {needed:,.0f} MB for {n_items:,} items, and {free:,.0f} MB of memory are free here: "
            f"make room, {remedy}"
        )


def _need_solution(found: bool, name: str) -> None:
    if not found:
        raise ConfigError(f"{name}: X'X + regularization I is singular in single precision; raise regularization")
