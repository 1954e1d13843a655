"""A vector for a person who was not in training: the model's own risk, minimised over e with the items fixed.

Each class is one kind of risk. It is built once per model, with everything that does not depend on the person, and
then gives the vector of a history (in the space of `factors().users`) and its parts: the c_j of `explaining`, whose
sum is the vector, up to a rest that does not come from the history.

    LogisticFolding   PURE, PU-GMF, GMF     exact minimum; in `purerec.models.families.foldin`
    PairwiseFolding   BPR, LambdaFM, GANs   exact minimum over a fixed draw of negatives
    SquaredFolding    iALS, SVD, PMF, NMF   closed form
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from purerec.engines.foldin import pairwise as pairs
from purerec.jit.simd import LANES
from purerec.types import F32, F64, I32

_GROUPS = 160
"""Groups of negatives that a history is compared with in the pairwise risk."""
_PAIRWISE_STEPS = 30


class Folding(Protocol):
    """The risk of one person, with the items fixed."""

    def vector(self, history: I32) -> F32:
        """(dim,) the minimum of the risk"""
        ...

    def parts(self, history: I32, vector: F32) -> F32 | None:
        """(len(history), dim) what each item of the history adds to the vector, if that is defined"""
        ...


def tanh_ratio(a: F32) -> F32:
    """tanh(a) / a. With this ratio held fixed, a hidden layer is linear in its input, so each item of a history has
    its share."""
    small = np.abs(a) < 1e-6
    found: F32 = np.where(small, np.float32(1), np.tanh(a) / np.where(small, np.float32(1), a))
    return found


def sigmoid(x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """1 / (1 + exp(-x)), accurate for very small values, too."""
    found: npt.NDArray[np.floating] = np.exp(-np.logaddexp(0, -x))
    return found


# ---------------------------------------------------------------------- BPR and models that start from it


class PairwiseFolding:
    """min_e  mean_{i own, g} softplus(s_g - s_i) + regularization/2 |e|^2,     s_i = e.q_i + b_i

    s_g is the best score among the items of a group that are not the person's own. With one item per group this is
    the risk of plain BPR; with several, that of BPR with the best of as many candidates as the negative, which is
    convex, too. Groups are drawn once. `temperature` smooths the maximum; see `purerec.engines.foldin.pairwise`.
    """

    def __init__(
        self,
        items: F32,
        bias: F32 | None,
        regularization: float,
        rng: np.random.Generator,
        *,
        candidates: int = 1,
        temperature: float = 0.05,
    ) -> None:
        n, self._dim = items.shape
        width = -(-self._dim // LANES) * LANES
        self._items = np.zeros((n, width), np.float32)
        self._items[:, : self._dim] = items
        self._bias = np.zeros(n, np.float32) if bias is None else np.ascontiguousarray(bias, dtype=np.float32)
        self._penalty, self._temperature = max(regularization, 1e-3), temperature
        self._drawn = rng.integers(0, n, (_GROUPS, candidates)).ravel()
        if candidates == 1 and n <= 2 * _GROUPS:
            self._drawn = np.append(np.arange(n), np.zeros(-n % LANES, np.int64))
        self._size = candidates
        self._table, self._table_bias = self._items[self._drawn], self._bias[self._drawn]
        if candidates == 1 and n <= 2 * _GROUPS:
            self._table_bias[n:] = pairs.TAKEN

    def vector(self, history: I32) -> F32:
        found = np.zeros(self._items.shape[1], np.float32)
        terms = self._pairs(history)
        now, after = (
            (np.empty(self._dim), np.empty((self._dim, self._dim))),
            (
                np.empty(self._dim),
                np.empty((self._dim, self._dim)),
            ),
        )
        value = pairs.pairwise(terms, found, self._penalty, *now)
        for _ in range(_PAIRWISE_STEPS):
            step, rate = np.linalg.solve(now[1], now[0]), 1.0
            gain, trial = float(now[0] @ step), found.copy()
            trial[: self._dim] -= step
            new_value = pairs.pairwise(terms, trial, self._penalty, *after)
            while not new_value <= value - 1e-4 * rate * gain and rate > 1e-3:
                rate /= 2
                trial[: self._dim] = found[: self._dim] - rate * step
                new_value = pairs.pairwise(terms, trial, self._penalty, *after)
            if not new_value < value:
                break
            found, value, now, after = trial, new_value, after, now
            if gain <= 1e-4 * float(found[: self._dim] @ now[1] @ found[: self._dim]) or gain < 1e-6:
                break
        return found[: self._dim]

    def parts(self, history: I32, vector: F32) -> F32 | None:
        """H^-1 (A_j e - l_j'(e)) with l_j the risk of item j, A_j its Hessian and H that of the whole."""
        e = np.zeros(self._items.shape[1], np.float32)
        e[: self._dim] = vector
        terms, hessian = self._pairs(history), np.empty((self._dim, self._dim))
        pairs.pairwise(terms, e, self._penalty, np.empty(self._dim), hessian)
        there = terms.score > pairs.TAKEN / 2
        mean = terms.mean.reshape(len(there), -1)[there, : self._dim].astype(np.float64)
        drawn = self._table.reshape(len(there), self._size, -1)[there, :, : self._dim].astype(np.float64)
        share = terms.share.reshape(len(there), self._size)[there].astype(np.float64)
        own = self._items[history, : self._dim].astype(np.float64)
        slope = sigmoid(terms.score[there][None, :] - (own @ vector + self._bias[history])[:, None])
        # Each pair contributes its slope plus what its curvature takes back at e; so does the choice within a group.
        pull = slope + slope * (1 - slope) * ((own @ vector)[:, None] - (mean @ vector)[None, :])
        choice = np.einsum("gc,gcd->gd", share * (drawn @ vector), drawn) - (mean @ vector)[:, None] * mean
        right = pull.sum(axis=1)[:, None] * own - pull @ mean + slope @ choice / self._temperature
        return (np.linalg.solve(hessian, right.T).T / max(slope.size, 1)).astype(np.float32)

    def _pairs(self, history: I32) -> pairs.HistoryPairs:
        taken = np.zeros(len(self._items), dtype=np.bool_)
        taken[history] = True
        bias = np.where(taken[self._drawn], pairs.TAKEN, self._table_bias)
        width, groups = self._items.shape[1], len(self._drawn) // self._size
        memory = np.empty((4, groups), np.float32)
        return pairs.HistoryPairs(
            self._items[history].ravel(), self._bias[history], self._table.ravel(), bias, width, self._size,
            self._temperature, np.empty(len(bias), np.float32), np.empty(groups * width, np.float32), memory[0],
            memory[1], memory[2], memory[3], np.empty(width * width, np.float32),
        )  # fmt: skip


# ---------------------------------------------------------------------- iALS, SVD, PMF, NMF


class SquaredFolding:
    """min_e  sum_{j own} (own_value - o_j - e.q_j)^2 + w sum_{others} (o_i + e.q_i)^2 + penalty |e|^2

    o is what the score has besides e.q; w and the penalty depend on the length n of the history. Solved in closed
    form: the sum over all items of q_i q_i' is computed beforehand.
    """

    def __init__(
        self,
        items: F32,
        *,
        weight: Callable[[int], float],
        penalty: Callable[[int], float],
        own_weight: Callable[[int], float] = lambda n: 1.0,
        own_target: float = 1.0,
        offset: F32 | None = None,
        free_bias: bool = False,
        non_negative: bool = False,
    ) -> None:
        """`own_weight` (n): the weight of an own item in addition to w."""
        n, self._dim = items.shape
        table = items.astype(np.float64)
        self._table = np.column_stack([table, np.ones(n)]) if free_bias else table
        self._offset = np.zeros(n) if offset is None else offset.astype(np.float64)
        self._gram, self._drift = self._table.T @ self._table, self._table.T @ self._offset
        self._weight, self._penalty, self._own_weight = weight, penalty, own_weight
        self._own_target, self._non_negative = own_target, non_negative

    def vector(self, history: I32) -> F32:
        system, own, right = self._system(history)
        # The others' target is zero: they pull against their offset.
        others = self._drift - own.T @ self._offset[history]
        found = self._solve(system, right.sum(axis=0) - self._weight(len(history)) * others)
        return found[: self._dim].astype(np.float32)

    def parts(self, history: I32, vector: F32) -> F32 | None:
        """H^-1 (own_target - o_j) q_j, H being the matrix of the normal equations; for non-negative vectors,
        restricted to the nonzero elements."""
        system, _, right = self._system(history)
        kept = np.arange(len(system))
        if self._non_negative:
            kept = np.flatnonzero(vector > 0)
        found = np.zeros_like(right)
        found[:, kept] = np.linalg.solve(system[np.ix_(kept, kept)], right[:, kept].T).T
        return found[:, : self._dim].astype(np.float32)

    def _system(self, history: I32) -> tuple[F64, F64, F64]:
        """The matrix of the normal equations, the own items, and what each contributes to the right-hand side."""
        n, own = len(history), self._table[history]
        system = self._own_weight(n) * (own.T @ own) + self._weight(n) * self._gram
        system[np.diag_indices_from(system)] += self._penalty(n) + 1e-9
        return system, own, own * (self._own_target - self._offset[history])[:, None]

    def _solve(self, system: F64, right: F64) -> F64:
        if not self._non_negative:
            return np.linalg.solve(system, right).astype(np.float64, copy=False)
        from scipy.optimize import nnls

        # |L'x - y|^2 with LL' = system and Ly = right is the same problem up to a constant.
        lower = np.linalg.cholesky(system)
        found: F64 = nnls(lower.T, np.linalg.solve(lower, right))[0]
        return found
