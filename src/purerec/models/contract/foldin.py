"""A vector for a person who was not in training: the model's own risk, minimised over e with the items fixed.

Each class below is one kind of risk. It is made once per model, with all that does not depend on the person, and then
gives the vector of a history (in the space of `factors().users`) and its parts: the c_j of `explaining`,
whose sum, up to a rest that is not the history's doing, is the vector.

    logistic   PURE, PU-GMF, GMF          exact minimum; see `purerec.engines.foldin.pointwise`
    pairwise   BPR, LambdaFM, GANs        exact minimum over a fixed draw of negatives; see `engines.folding_pairs`
    squared    iALS, SVD, PMF, NMF        closed form
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from purerec.engines.foldin import pairwise as pairs
from purerec.engines.foldin import pointwise as kernels
from purerec.jit.simd import LANES
from purerec.rng import named_rng
from purerec.types import F32, F64, I32

_SAMPLE = 1024
"""Items on which the logistic risk is minimised before the exact gradient is asked for."""
_GROUPS = 160
"""Groups of negatives that a history is compared with under the pairwise risk."""
_PAIRWISE_STEPS = 30


class Folding(Protocol):
    """A risk of one person, with the items fixed."""

    def vector(self, history: I32) -> F32:
        """(dim,) where the risk is least"""
        ...

    def parts(self, history: I32, vector: F32) -> F32 | None:
        """(len(history), dim) what each item of the history adds to the vector, if that can be said"""
        ...


def tanh_ratio(a: F32) -> F32:
    """tanh(a) / a. With the ratio held, the units of a hidden layer are linear in what flows in, and each item of a
    history has its part of them."""
    small = np.abs(a) < 1e-6
    found: F32 = np.where(small, np.float32(1), np.tanh(a) / np.where(small, np.float32(1), a))
    return found


# ---------------------------------------------------------------------- PURE, PU-GMF, GMF


@dataclass(frozen=True)
class Risk:
    """The PU or PN risk of one person, divided by the prior (see `purerec.engines.pure.spec`)."""

    unlabeled: float
    """Weight of the unlabeled part: 1 / prior (PU), (1 - prior) / prior (PN)"""
    own: float
    """Weight of softplus at the person's own items: 0 (PU) or 1 (PN), since softplus(-phi) = softplus(phi) - phi"""
    regularization: float
    kappa: Callable[[int], float]
    """Share of the unlabeled draws, over share of the positives, of a person with this many positives"""


class LogisticFolding:
    """min_e  -mean_{j own} phi_j + own mean_{j own} softplus(phi_j) + unlabeled kappa mean_{i drawn} softplus(phi_i)
              + regularization (1 + kappa) / 2 |e|^2,       phi_i = (e R).q_i + b_i + b

    Drawn are items that are not the person's own, in expectation: no sampling error of a few draws. R is the relation
    of the scorers gmf and bilinear; b is a free bias of the person, where users have one. Fakes have no part in it.
    """

    def __init__(
        self,
        items: F32,
        offset: F32,
        risk: Risk,
        *,
        draw: F64,
        people: F32,
        relation: F32 | None = None,
        free_bias: bool = False,
    ) -> None:
        """`draw` (n_items,) is how often items are drawn, in all 1; `people` (n, dim) or, with the bias, (n, dim + 1)
        are some of training. A search starts at the one who would do best: far from all of them, where the vectors do
        not make up for the bias of the model, the risk is flat."""
        self._items, self._risk, self._draw, self._free_bias = items, risk, draw, free_bias
        self._relation = None if relation is None else np.diag(relation) if relation.ndim == 1 else relation
        own_space = items if self._relation is None else items @ self._relation.T
        self._dim = own_space.shape[1]
        self._table = np.ascontiguousarray(
            np.column_stack([own_space, np.ones(len(items), np.float32)]) if free_bias else own_space, np.float32
        )
        self._offset = np.ascontiguousarray(offset, np.float32)
        self._people = people.astype(np.float32)
        self._all = kernels.make_table(self._table, self._offset, draw.astype(np.float32))
        self._sample = self._all
        if len(items) > 4 * _SAMPLE:
            chosen, chance = _sample(self._table, self._offset, draw, people)
            weight = (draw[chosen] / chance).astype(np.float32)
            self._sample = kernels.make_table(self._table[chosen], self._offset[chosen], weight)
        else:
            chosen, weight = np.arange(len(items)), draw.astype(np.float32)
        scores = self._people @ self._table[chosen].T + self._offset[chosen]
        self._their_softplus = np.logaddexp(0, scores) @ weight
        self._their_squares = np.sum(self._people**2, axis=1)

    def vector(self, history: I32) -> F32:
        found: F32 = self.solve(history)[: self._dim]
        return found if self._relation is None else np.asarray(found @ self._relation, dtype=np.float32)

    def solve(self, history: I32) -> F32:
        """(dim,) or, with the bias, (dim + 1,): the minimum in the users' own space"""
        own = self._table[history]
        scale, change = self._weights(history)
        pull, penalty = own.mean(axis=0, dtype=np.float64), self._penalty(len(history))
        risks = scale * self._their_softplus - self._people @ pull + 0.5 * penalty[0] * self._their_squares
        found: F32 = self._people[np.argmin(risks)].copy()
        kernels.minimise(
            self._sample,
            self._all,
            kernels.Own(own, self._offset[history], change),
            scale,
            pull,
            penalty,
            found,
            kernels.make_sums(len(found)),
        )
        return found

    def _weights(self, history: I32) -> tuple[float, F32]:
        """By how much the table's weights are scaled for this person, and how own items differ from that."""
        free = 1.0 - float(self._draw[history].sum())
        strength = self._risk.unlabeled * self._risk.kappa(len(history))
        scale = strength / free if len(history) < len(self._items) and free > 1e-9 else 0.0
        change = self._risk.own / len(history) - scale * self._draw[history]
        return scale, change.astype(np.float32)

    def _penalty(self, n: int) -> F64:
        penalty = np.full(self._table.shape[1], self._risk.regularization * (1 + self._risk.kappa(n)) + 1e-9)
        if self._free_bias:
            penalty[-1] = 1e-9
        return penalty

    def parts(self, history: I32, vector: F32) -> F32 | None:
        """With the Hessian H of the risk at the vector: H^-1 (1 - D_j + D_j (1 - D_j) e.q_j) q_j / n for the PN
        risk, H^-1 q_j / n for the PU risk, in which the first two terms are 1 and 0."""
        e = np.zeros(self._table.shape[1], dtype=np.float32)
        e[: self._dim] = vector if self._relation is None else np.linalg.lstsq(self._relation.T, vector)[0]
        sums = self._at(history, e)
        own = self._table[history].astype(np.float64)
        d = _sigmoid(own @ e + self._offset[history])
        pull = 1 - self._risk.own * d * (1 - (1 - d) * (own @ e))
        hessian = np.tril(sums.hessian) + np.tril(sums.hessian, -1).T
        found = np.linalg.solve(hessian, (own * pull[:, None]).T).T[:, : self._dim] / len(history)
        return (found if self._relation is None else found @ self._relation).astype(np.float32)

    def _at(self, history: I32, e: F32) -> kernels.Sums:
        """The derivatives at a vector, with the bias that suits it best, which is written into it."""
        sums, own = kernels.make_sums(len(e)), self._table[history]
        scale, change = self._weights(history)
        pull, penalty = own.mean(axis=0, dtype=np.float64), self._penalty(len(history))
        terms = kernels.Own(own, self._offset[history], change)
        given = self._all, terms, scale, pull, penalty, e, sums
        for _ in range(100 if self._free_bias else 0):
            kernels.add_up(*given, False)
            # What holds against the pull of the own items, 1 in all, grows at most like exp(bias): no step is too far
            step = np.log(max(sums.gradient[-1] + 1, 1e-16))
            e[-1] -= np.float32(step)
            if abs(step) < 1e-4:
                break
        kernels.add_up(*given, True)
        return sums


def _sample(items: F32, offset: F32, draw: F64, people: F32) -> tuple[npt.NDArray[np.int64], F64]:
    """Some items, half by how often they are drawn and half by how much they matter to people, evenly spaced in the
    order of the catalogue; and the chance that each had."""
    liked = _sigmoid(people.astype(np.float32) @ items.T + offset).mean(axis=0) * draw
    chance = _SAMPLE * 0.5 * (draw / draw.sum() + liked / max(liked.sum(), 1e-300))
    for _ in range(20):  # what is certain anyway leaves its surplus to the others
        chance = np.minimum(1, chance * (_SAMPLE / chance.sum()))
    ends = np.cumsum(chance)
    chosen = np.unique(np.searchsorted(ends, np.arange(0.5, ends[-1])))
    chosen = chosen[(chosen < len(items)) & (draw[np.minimum(chosen, len(items) - 1)] > 0)]
    return chosen, chance[chosen]


def _sigmoid(x: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    found: npt.NDArray[np.floating] = np.exp(-np.logaddexp(0, -x))  # exact for a very small one, too
    return found


# ---------------------------------------------------------------------- BPR and what starts from it


class PairwiseFolding:
    """min_e  mean_{i own, g} softplus(s_g - s_i) + regularization/2 |e|^2,     s_i = e.q_i + b_i

    s_g is the best score among the items of a group that are not the person's own. One item to a group is the risk of
    plain BPR; several are that of BPR with the best of this many candidates as the negative, which is convex, too.
    Groups are drawn once. `temperature` smooths the maximum; see `purerec.engines.foldin.pairwise`.
    """

    def __init__(
        self, items: F32, bias: F32 | None, regularization: float, *, candidates: int = 1, temperature: float = 0.05
    ) -> None:
        n, self._dim = items.shape
        width = -(-self._dim // LANES) * LANES
        self._items = np.zeros((n, width), np.float32)
        self._items[:, : self._dim] = items
        self._bias = np.zeros(n, np.float32) if bias is None else np.ascontiguousarray(bias, dtype=np.float32)
        self._penalty, self._temperature = max(regularization, 1e-3), temperature
        self._drawn = named_rng(0, "folding").integers(0, n, (_GROUPS, candidates)).ravel()
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
        slope = _sigmoid(terms.score[there][None, :] - (own @ vector + self._bias[history])[:, None])
        # Each pair pulls with its slope, and by as much as its curve takes back at e; so does the choice in a group.
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

    o is what the score has besides e.q; w and the penalty depend on the length n of the history. In closed form: the
    sum over all items of q_i q_i' is known beforehand.
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
        """`own_weight` (n): of an own item, above w."""
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
        """H^-1 (own_target - o_j) q_j, H being the matrix of the normal equations; with vectors that are never
        negative, of the elements that are not zero."""
        system, _, right = self._system(history)
        kept = np.arange(len(system))
        if self._non_negative:
            kept = np.flatnonzero(vector > 0)
        found = np.zeros_like(right)
        found[:, kept] = np.linalg.solve(system[np.ix_(kept, kept)], right[:, kept].T).T
        return found[:, : self._dim].astype(np.float32)

    def _system(self, history: I32) -> tuple[F64, F64, F64]:
        """The matrix of the normal equations, the own items, and what each puts on their right side."""
        n, own = len(history), self._table[history]
        system = self._own_weight(n) * (own.T @ own) + self._weight(n) * self._gram
        system[np.diag_indices_from(system)] += self._penalty(n) + 1e-9
        return system, own, own * (self._own_target - self._offset[history])[:, None]

    def _solve(self, system: F64, right: F64) -> F64:
        if not self._non_negative:
            return np.linalg.solve(system, right).astype(np.float64, copy=False)
        from scipy.optimize import nnls

        # |L'x - y|^2 with LL' = system and Ly = right is the same problem but for a constant.
        lower = np.linalg.cholesky(system)
        found: F64 = nnls(lower.T, np.linalg.solve(lower, right))[0]
        return found
