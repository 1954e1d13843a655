"""EASE: a linear model between items, in closed form.

Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data.

    min_B  |X - X B|^2 + regularization |B|^2   with diag(B) = 0,   X (n_users, n_items) of zeros and ones
    B = I - P diag(1 / diag(P)),   P = (X'X + regularization I)^-1,   score(u, i) = sum of B[j, i] over u's items j

Made for implicit feedback: nothing is adapted. Nothing is random, there is one setting, and no user is fitted, so
that a person who was not in training is answered like any other. The cost is that of one inverse, about n_items^3
operations and 4 n_items^2 bytes (ML-1M: 55 MB), whatever the number of users. Use it up to some 20,000 items: there
it is the one to beat. Gowalla (40,981 items, 0.8 million positives) takes 7.3 GB, and 19 minutes of processor time.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from purerec import memory
from purerec.data.interactions import Interactions
from purerec.errors import ConfigError, DataError
from purerec.models.contract.checks import need_positives
from purerec.models.contract.config import Config
from purerec.models.contract.explaining import Person
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.search_space import Floats, SearchSpace
from purerec.storage import Layout, Part
from purerec.training.run import Run
from purerec.types import F32, I32, I64, State

_BLOCK = 1024
"""Items whose products with all others are in memory twice."""
_DIRECT = 16_384
"""Items up to which LAPACK inverts the whole matrix. With several threads, the Cholesky factorisation of OpenBLAS
(0.3.30) ends the process with a segmentation fault on larger ones: seen at 40,981 items, not at 26,000."""
_PANEL = 2048
"""Items of a larger matrix that are swept at a time."""


class EASEConfig(Config):
    """Settings of EASE."""

    regularization: float = Field(default=500.0, gt=0, le=1e9)
    """L2 on the weights between items; it acts like so many more users who like one item each."""
    memory_mb: float = Field(default=8192.0, gt=0)
    """The most that the item-item matrix and its inversion may take; data with more items is refused."""

    search_space: ClassVar[SearchSpace] = {
        "regularization": Floats(10, 1e4),
    }


class EASE(Recommender):
    """Linear autoencoder with a zero diagonal."""

    name: ClassVar[str] = "ease"
    config_class = EASEConfig
    config: EASEConfig

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> None:
        _check_memory(train.n_items, self.config.memory_mb)
        self._liked = need_positives(train).to_scipy()
        weights = _products(self._liked)
        weights[np.diag_indices_from(weights)] += np.float32(self.config.regularization)
        _invert(weights)
        weights /= -np.diag(weights)
        np.fill_diagonal(weights, 0)
        self._weights = weights

    def _score(self, user_idx: I64) -> F32:
        scores: F32 = self._liked[user_idx] @ self._weights
        scores[self.seen.counts[user_idx] == 0] = self.popularity()
        return scores

    def _score_history(self, item_idx: I32) -> F32:
        scores: F32 = self._weights[item_idx].sum(axis=0)
        return scores

    def _shares(self, person: Person, target_idx: int) -> F32 | None:
        shares: F32 = self._weights[person.item_idx, target_idx]
        return shares

    def _item_weights(self, item_idx: int) -> F32 | None:
        weights: F32 = self._weights[item_idx]
        return weights

    def _layout(self) -> Layout:
        return {"weights": Part(("items", "items"))}

    def _state(self) -> State:
        return {"weights": self._weights}

    def _set_state(self, state: State) -> None:
        self._weights = np.asarray(state["weights"], dtype=np.float32)
        self._liked = self._seen.to_scipy()


def needed_mb(n_items: int) -> float:
    """What a fit takes at its peak: the matrix, and beside it a block of products or two panels."""
    panel = min(_PANEL, n_items)
    beside = max(16 * _BLOCK * n_items, 8 * panel * n_items + 16 * panel**2)
    return (4 * n_items**2 + beside) / 2**20


def _check_memory(n_items: int, most_mb: float) -> None:
    """Refused before it starts: a system that runs out of memory ends the process without a word."""
    needed, free = needed_mb(n_items), memory.available_mb()
    remedy = "keep fewer items (drop rare ones), or use ials or itemknn"
    if needed > most_mb:
        raise DataError(
            f"ease needs {needed:,.0f} MB for {n_items:,} items, and memory_mb is {most_mb:,.0f}: raise it with "
            f"--set memory_mb={math.ceil(needed)}, {remedy}"
        )
    if free is not None and needed > free:
        raise DataError(
            f"ease needs {needed:,.0f} MB for {n_items:,} items, and {free:,.0f} MB of memory are free here: "
            f"make room, {remedy}"
        )


def _products(x: Any) -> F32:
    """X'X as a dense matrix, in blocks: a sparse one would take more than the dense."""
    n = x.shape[1]
    found = np.empty((n, n), dtype=np.float32)
    by_item = x.T.tocsr()
    for start in range(0, n, _BLOCK):
        found[start : start + _BLOCK] = (by_item[start : start + _BLOCK] @ x).toarray()
    return found


def _invert(matrix: F32) -> None:
    """The inverse of a symmetric positive definite matrix, in its place."""
    if len(matrix) <= _DIRECT:
        _invert_whole(matrix)
    else:
        _invert_in_panels(matrix)
    for start in range(0, len(matrix), _BLOCK):
        stop = start + _BLOCK
        corner = matrix[start:stop, start:stop]
        corner[:] = np.triu(corner) + np.triu(corner, 1).T
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T


def _invert_whole(matrix: F32) -> None:
    """The upper half of the inverse, by LAPACK."""
    from scipy.linalg.lapack import spotrf, spotri

    # LAPACK stores by columns: it sees the transpose, which is the same matrix, and its lower half is our upper.
    _, failed = spotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
    if not failed:
        _, failed = spotri(matrix.T, lower=1, overwrite_c=1)
    _need_regular(failed)


def _invert_in_panels(matrix: F32) -> None:
    """The upper half of the inverse, by sweeping a panel of rows k after the other (Gauss-Jordan, symmetric).

        A[i, j] <- A[i, j] - A[i, k] A[k, k]^-1 A[k, j],   A[i, k] <- A[i, k] A[k, k]^-1,   A[k, k] <- -A[k, k]^-1

    After the last panel A is minus its inverse. With A[k, k] = L L' and W = L^-1 A[k, :] all three are A -= W' W, if
    W[:, k] = -L^-1 and A is 0 in the rows and columns k before. As many operations as a Cholesky inverse, nearly all
    of them in products of matrices; LAPACK sees no more than a panel's corner. Only the upper half is used.
    """
    from scipy.linalg.lapack import spotrf, strtri

    n = len(matrix)
    panel, work = np.empty((2, min(_PANEL, n), n), dtype=np.float32)
    for start in range(0, n, _PANEL):
        stop = min(start + _PANEL, n)
        rows, w = work[: stop - start], panel[: stop - start]
        rows[:, :start] = matrix[:start, start:stop].T
        rows[:, start:] = matrix[start:stop, start:]
        root, failed = spotrf(rows[:, start:stop].T, lower=1, clean=1)  # reads the half that is ours, as above
        _need_regular(failed)
        root, failed = strtri(root, lower=1, overwrite_c=1)
        _need_regular(failed)
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


def _need_regular(failed: int) -> None:
    if failed:
        raise ConfigError("ease: X'X + regularization I is singular in single precision; raise regularization")
