"""Weights between all items from one inverse, as in EASE: dense, about n_items^3 operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.closed_form.gram import Weighting
from purerec.types import F32

_BLOCK = 1024
"""Items whose products with all others are held in memory twice."""
_DIRECT = 16_384
"""Up to this many items, LAPACK inverts the whole matrix. With several threads, OpenBLAS's Cholesky factorisation
(0.3.30) crashes with a segmentation fault on larger ones: seen at 40,981 items, not at 26,000."""
_ALONE = 4096
"""Up to this many items, BLAS has one thread: sums are then the same on any number of cores, and BLAS threads do not
wait for each other on a busy machine. Takes a second or two at most."""
_PANEL = 2048
"""Items of a larger matrix swept at a time."""


def needed_bytes(n_items: int, n_regularizations: int = 1) -> int:
    """Peak memory: a matrix for each regularization, plus a block of products or two panels."""
    panel = min(_PANEL, n_items)
    beside = max(16 * _BLOCK * n_items, 8 * panel * n_items + 16 * panel**2)
    return 4 * n_regularizations * n_items**2 + beside


def weights_of_all(
    positives: Csr, weight: Weighting, regularizations: Sequence[float], multiply: Callable[[Any], F32]
) -> list[F32 | None]:
    """B = I - P diag(1 / diag(P)), P = (G + regularization I)^-1; None if that is singular in single precision.

    `multiply`: `products`, or an equivalent function.
    """
    x = positives.to_scipy()
    x.data = (weight.user[positives.users] * weight.item[positives.indices]).astype(np.float32)
    first = multiply(x)
    matrices = [first, *(first.copy() for _ in regularizations[1:])]
    return [_weights(matrix, value) for matrix, value in zip(matrices, regularizations, strict=True)]


def _weights(matrix: F32, regularization: float) -> F32 | None:
    """B, overwriting G."""
    matrix[np.diag_indices_from(matrix)] += np.float32(regularization)
    if not invert(matrix):
        return None
    matrix /= -np.diag(matrix)
    np.fill_diagonal(matrix, 0)
    return matrix


def products(x: Any) -> F32:
    """x'x as a dense matrix, in blocks: a sparse one would take more memory."""
    n = x.shape[1]
    found = np.empty((n, n), dtype=np.float32)
    by_item = x.T.tocsr()
    for start in range(0, n, _BLOCK):
        found[start : start + _BLOCK] = (by_item[start : start + _BLOCK] @ x).toarray()
    return found


def invert(matrix: F32) -> bool:
    """Invert a symmetric positive definite matrix in place; return whether there is an inverse."""
    done = _invert_whole(matrix) if len(matrix) <= _DIRECT else _invert_in_panels(matrix)
    for start in range(0, len(matrix), _BLOCK):
        stop = start + _BLOCK
        corner = matrix[start:stop, start:stop]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
    return done


def _invert_whole(matrix: F32) -> bool:
    """The upper half of the inverse, by LAPACK."""
    from scipy.linalg.lapack import spotrf, spotri
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1 if len(matrix) <= _ALONE else None, "blas"):
        # LAPACK stores by column: it sees the transpose, which is the same matrix, and its lower half is our upper.
        _, failed = spotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
        if not failed:
            _, failed = spotri(matrix.T, lower=1, overwrite_c=1)
    return not failed


def _invert_in_panels(matrix: F32) -> bool:
    """The upper half of the inverse, by sweeping one panel of rows k after another (Gauss-Jordan, symmetric).

        A[i, j] <- A[i, j] - A[i, k] A[k, k]^-1 A[k, j],   A[i, k] <- A[i, k] A[k, k]^-1,   A[k, k] <- -A[k, k]^-1

    After the last panel, A is minus its inverse. With A[k, k] = L L' and W = L^-1 A[k, :], all three are A -= W' W if
    W[:, k] = -L^-1 and rows and columns k of A are set to 0 first. As many operations as a Cholesky inverse, nearly
    all of them matrix products; LAPACK only sees a panel's corner. Only the upper half is used.
    """
    from scipy.linalg.lapack import spotrf, strtri

    n = len(matrix)
    panel, work = np.empty((2, min(_PANEL, n), n), dtype=np.float32)
    for start in range(0, n, _PANEL):
        stop = min(start + _PANEL, n)
        rows, w = work[: stop - start], panel[: stop - start]
        rows[:, :start] = matrix[:start, start:stop].T
        rows[:, start:] = matrix[start:stop, start:]
        root, failed = spotrf(rows[:, start:stop].T, lower=1, clean=1)  # reads our half, as above
        if not failed:
            root, failed = strtri(root, lower=1, overwrite_c=1)
        if failed:
            return False
        np.matmul(root, rows, out=w)
        w[:, start:stop] = -root
        matrix[:start, start:stop] = 0
        matrix[start:stop, start:] = 0
        for top in range(0, n, _PANEL):
            own = slice(top, min(top + _PANEL, n))
            product = work[: own.stop - top, top:]  # the rows are no longer needed
            np.matmul(w[:, own].T, w[:, top:], out=product)
            matrix[own, top:] -= product
    np.negative(matrix, out=matrix)
    return True
