"""SGD on triples (user, positive, negative), compiled: shuffle, draw, choose and step in one call.

    min  sum over triples of  w * softplus(-x) + reg/2 (|e_u|^2 + |q_i|^2 + |q_j|^2) + bias_reg/2 (b_i^2 + b_j^2)
    x = e_u.(q_i - q_j) + b_i - b_j

w is 1, except for the rule VIOLATING, where it grows with the estimated rank of the positive. Parameters are updated
after each triple. Used by BPR and LambdaFM, and to pre-train IRGAN and GraphGAN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from purerec.data.pairs import Csr
from purerec.errors import DataError
from purerec.jit.counter_rng import splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, Vector, load, sigmoid_softplus, splat, store, total
from purerec.rng import key64, named_rng
from purerec.sampling.draws import (
    ITEM_MASK,
    USER_SHIFT,
    Tables,
    draw_items,
    draw_popular_items,
    prefetch,
    shuffle_pairs,
)
from purerec.sampling.dynamic import (
    BEST,
    FIRST,
    RANKED,
    SOFTMAX,
    VIOLATING,
    best_of,
    draw_rank,
    rank_shares,
    ranked_of,
    softmax_of,
    unit,
)
from purerec.sampling.unlabeled import UnlabeledSampler, weighted
from purerec.training.history import mean_norms
from purerec.types import F32, F64, I32, U64

VectorTables = dict[str, F32]

_BLOCK = 128  # triples whose candidates are drawn together
_AHEAD = 6  # triples between prefetching a row and using it
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class FactorTables(NamedTuple):
    """score(u, i) = user_u . item_i + bias_i; rows are padded with zeros to `width`, a multiple of `LANES`."""

    user: F32
    """(n_users * width,)"""
    item: F32
    bias: F32
    """(n_items,)"""
    width: int


class PairwiseRules(NamedTuple):
    """The settings in the form that kernels take."""

    rule: int
    """See `purerec.sampling.dynamic`."""
    by_weight: bool
    """Draw candidates in proportion to the tables' weights instead of uniformly."""
    candidates: int
    margin: float
    regularization: float
    bias_regularization: float


class PairwiseWork(NamedTuple):
    """Scratch of an epoch."""

    pairs: U64
    """(n_positive,)"""
    users: I32
    """(_BLOCK * candidates,)"""
    drawn: I32
    scores: F32
    """(candidates,)"""
    places: F32
    cumulative: F64
    """(candidates,) for RANKED"""
    rank_weight: F32
    """(candidates + 1,) for VIOLATING: the weight of a positive first outscored at the T-th candidate."""


@kernel(inner=True)
def score_pair(m: FactorTables, user: Scalar, item: Scalar) -> Scalar:
    u, i = user * m.width, item * m.width
    acc = load(m.user, u) * load(m.item, i)
    for k in range(LANES, m.width, LANES):
        acc = acc + load(m.user, u + k) * load(m.item, i + k)
    return total(acc) + m.bias[item]


@kernel(inner=True)
def triple_step(
    m: FactorTables, user: Scalar, i: Scalar, j: Scalar, weight: Scalar, c: PairwiseRules, learning_rate: Scalar
) -> Scalar:
    """Take a step on one triple; return its weighted loss before the step."""
    u, p, n = user * m.width, i * m.width, j * m.width
    acc = load(m.user, u) * (load(m.item, p) - load(m.item, n))
    for k in range(LANES, m.width, LANES):
        acc = acc + load(m.user, u + k) * (load(m.item, p + k) - load(m.item, n + k))
    bias_i, bias_j = m.bias[i], m.bias[j]
    sigma, plus = sigmoid_softplus(splat(_ZERO) - splat(total(acc) + bias_i - bias_j))
    rate = np.float32(learning_rate)
    push = _lane(sigma) * weight * rate
    keep = _ONE - rate * np.float32(c.regularization)
    for k in range(0, m.width, LANES):
        e, q_i, q_j = load(m.user, u + k), load(m.item, p + k), load(m.item, n + k)
        store(m.user, u + k, e * keep + (q_i - q_j) * push)
        store(m.item, p + k, q_i * keep + e * push)
        store(m.item, n + k, q_j * keep - e * push)
    keep_bias = _ONE - rate * np.float32(c.bias_regularization)
    m.bias[i] = bias_i * keep_bias + push
    m.bias[j] = bias_j * keep_bias - push
    return _lane(plus) * weight


@kernel(inner=True)
def _lane(vector: Vector) -> Scalar:
    """The value of a vector whose lanes are all equal; the sum of equal numbers is exact."""
    return total(vector) * np.float32(1.0 / LANES)


@kernel(inner=True)
def _choose(m: FactorTables, w: PairwiseWork, c: PairwiseRules, user: Scalar, first: Scalar, x: Scalar) -> Scalar:
    """Choose the negative from the candidates in `w.drawn` from `first` on; -1 if there are none."""
    if c.rule == FIRST or w.drawn[first] < 0:
        return np.int64(w.drawn[first])
    for k in range(c.candidates):
        w.scores[k] = score_pair(m, user, np.int64(w.drawn[first + k]))
    if c.rule == BEST:
        chosen = best_of(w.scores, c.candidates)
    elif c.rule == SOFTMAX:
        chosen = softmax_of(w.scores, c.candidates, unit(x))
    else:
        chosen = ranked_of(w.scores, w.places, c.candidates, draw_rank(w.cumulative, c.candidates, unit(x)))
    return np.int64(w.drawn[first + chosen])


@kernel(inner=True)
def _draw(t: Tables, c: PairwiseRules, users: I32, n: Scalar, key: Scalar, counter: Scalar, out: I32) -> None:
    if c.by_weight:
        draw_popular_items(t, users, n, key, counter, out)
    else:
        draw_items(t, users, n, key, counter, out)


@kernel(inner=True)
def _find_violating(
    t: Tables,
    m: FactorTables,
    w: PairwiseWork,
    c: PairwiseRules,
    user: Scalar,
    i: Scalar,
    key: Scalar,
    counter: Scalar,
) -> tuple[Scalar, Scalar]:
    """The first candidate that scores above the positive minus the margin, or -1, and the number tried."""
    bar = score_pair(m, user, i) - np.float32(c.margin)
    w.users[0] = np.int32(user)
    for trial in range(c.candidates):
        _draw(t, c, w.users, 1, key, counter + np.uint64(trial), w.drawn)
        j = np.int64(w.drawn[0])
        if j < 0 or score_pair(m, user, j) > bar:
            return j, trial + 1
    return np.int64(-1), c.candidates


@kernel()
def pairwise_epoch(
    t: Tables, m: FactorTables, w: PairwiseWork, c: PairwiseRules, learning_rate: Scalar, keys: U64, sums: F64
) -> None:
    """One triple per positive, in random order. sums: loss, triples. keys: order, candidates, choice."""
    shuffle_pairs(t, keys[0], w.pairs)
    loss, n_triples = 0.0, 0
    k_c = c.candidates
    for first in range(0, w.pairs.size, _BLOCK):
        n = min(_BLOCK, w.pairs.size - first)
        if c.rule != VIOLATING:
            for k in range(n):
                for j in range(k_c):
                    w.users[k * k_c + j] = np.int32(w.pairs[first + k] >> USER_SHIFT)
            _draw(t, c, w.users, n * k_c, keys[1], np.uint64(first) * np.uint64(k_c), w.drawn)
        for k in range(n):
            soon = min(k + _AHEAD, n - 1)
            prefetch(m.user, np.int64(w.pairs[first + soon] >> USER_SHIFT) * m.width)
            prefetch(m.item, np.int64(w.pairs[first + soon] & ITEM_MASK) * m.width)
            prefetch(m.item, max(np.int64(0), np.int64(w.drawn[soon * k_c])) * m.width)
            user, i = np.int64(w.pairs[first + k] >> USER_SHIFT), np.int64(w.pairs[first + k] & ITEM_MASK)
            weight: Scalar = _ONE
            if c.rule == VIOLATING:
                counter = np.uint64(first + k) * np.uint64(k_c)
                j, trials = _find_violating(t, m, w, c, user, i, keys[1], counter)
                weight = w.rank_weight[trials]
            else:
                j = _choose(m, w, c, user, k * k_c, splitmix64(keys[2], np.uint64(first + k)))
            if j >= 0:
                loss += np.float64(triple_step(m, user, i, j, weight, c, learning_rate))
                n_triples += 1
    sums[0] += loss
    sums[1] += n_triples


@dataclass(frozen=True)
class PairwiseSettings:
    """The settings of the engine; the models explain them."""

    dim: int
    rule: int = FIRST
    candidates: int = 1
    rho: float = 0.0
    """Above 0: with FIRST, draw candidates by popularity rank; with RANKED, by their rank among candidates."""
    margin: float = 1.0
    regularization: float = 0.01
    bias_regularization: float = 0.01
    init_std: float = 0.1


class PairwiseEngine:
    """Factors and bias, trained one epoch at a time; random draws depend only on (seed, epoch)."""

    def __init__(self, positives: Csr, settings: PairwiseSettings, *, seed: int) -> None:
        n_users, n_items = positives.shape
        degree = positives.counts
        if not np.any((degree > 0) & (degree < n_items)):
            raise DataError(
                f"every user has touched none or all of the {n_items} items, so there is no pair to compare; "
                "use data with more items"
            )
        tables = UnlabeledSampler(positives.indptr, positives.indices, n_items, full_users="skip").tables
        by_weight = settings.rule == FIRST and settings.rho > 0
        if by_weight:
            place = np.argsort(np.argsort(-tables.weight, kind="stable"), kind="stable")
            tables = weighted(tables, rank_shares(n_items, settings.rho)[place])
        self.tables, self.settings, self.seed = tables, settings, seed
        k = 1 if settings.rule == FIRST else settings.candidates
        self._rules = PairwiseRules(
            settings.rule,
            by_weight,
            k,
            settings.margin,
            settings.regularization,
            settings.bias_regularization,
        )
        shares = rank_shares(k, settings.rho) if settings.rule == RANKED else np.ones(k) / k
        harmonic = np.cumsum(1.0 / np.arange(1, n_items + 1))
        # A positive first outscored at candidate T has rank about (n_items - 1) / T.
        rank = np.maximum(1, (n_items - 1) // np.arange(1, k + 1))
        self._work = PairwiseWork(
            np.empty(tables.indices.size, np.uint64),
            np.empty(_BLOCK * k, np.int32),
            np.empty(_BLOCK * k, np.int32),
            np.empty(k, np.float32),
            np.empty(k, np.float32),
            np.cumsum(shares),
            np.append(0.0, harmonic[rank - 1] / harmonic[-1]).astype(np.float32),
        )
        rng = named_rng(seed, "init")
        start = {
            "user": rng.normal(0, settings.init_std, (n_users, settings.dim)).astype(np.float32),
            "item": rng.normal(0, settings.init_std, (n_items, settings.dim)).astype(np.float32),
            "item_bias": np.zeros(n_items, np.float32),
        }
        start["user"][degree == 0] = 0  # nothing is known beyond the bias
        self.restore(start)

    def epoch(self, number: int, learning_rate: float) -> float:
        """Train epoch `number` and return its mean loss."""
        keys = np.array([key64(self.seed, f"pairwise {what} {number}") for what in ("order", "draw", "choice")])
        sums = np.zeros(2)
        pairwise_epoch(self.tables, self.factors, self._work, self._rules, learning_rate, keys, sums)
        # If no triple violates the margin, there is nothing left to learn.
        return float(sums[0] / max(sums[1], 1.0))

    def norms(self) -> dict[str, float]:
        """Mean norms of the vectors."""
        return mean_norms(vectors(self.factors, self.settings.dim))

    def state(self) -> VectorTables:
        """user (n_users, dim), item (n_items, dim), item_bias (n_items,)"""
        return unpack(self.factors, self.settings.dim)

    def restore(self, state: VectorTables) -> None:
        self.factors = pack(state["user"], state["item"], state["item_bias"])


def pack(user: F32, item: F32, bias: F32) -> FactorTables:
    """Convert tables without padding to the layout of the kernels."""
    width = -(-user.shape[1] // LANES) * LANES

    def padded(rows: F32) -> F32:
        table = np.zeros((len(rows), width), np.float32)
        table[:, : rows.shape[1]] = rows
        return table.ravel()

    return FactorTables(padded(user), padded(item), np.array(bias, np.float32), width)


def vectors(factors: FactorTables, dim: int) -> VectorTables:
    """user (n_users, dim) and item (n_items, dim), without padding, as views."""
    return {side: getattr(factors, side).reshape(-1, factors.width)[:, :dim] for side in ("user", "item")}


def unpack(factors: FactorTables, dim: int) -> VectorTables:
    """The inverse of `pack`: user (n_users, dim), item (n_items, dim), item_bias (n_items,), as copies."""
    return {name: rows.copy() for name, rows in vectors(factors, dim).items()} | {"item_bias": factors.bias.copy()}
