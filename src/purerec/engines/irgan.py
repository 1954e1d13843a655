"""IRGAN's game, compiled: a softmax over all items per user, draws from it, and SGD on both players.

With weights w_s = p(s) / q(s) of K samples from q, normalised to v_s = w_s / sum w, and the baseline b = sum v_s r_s,
the policy gradient is

    grad E_p[r] ~ sum_s v_s (r_s - b) grad log p(s) = sum_s v_s (r_s - b) grad g(u, s) / temperature

since the coefficients sum to zero, so the gradient of the softmax's normaliser, which would touch every item, drops
out: a step only touches the sampled items.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from purerec.engines.bpr import FactorTables, PairwiseRules, score_pair, triple_step
from purerec.jit.counter_rng import mulhi, shuffle, splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, exp_negative, load, sigmoid_softplus, splat, store, total
from purerec.sampling.draws import Tables, is_observed
from purerec.sampling.dynamic import unit
from purerec.types import F32, F64, I32

POINTWISE, PAIRWISE = 0, 1
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class PolicyWork(NamedTuple):
    """Scratch of an epoch."""

    order: I32
    """(n_users,)"""
    shares: F32
    """(n_items padded to LANES,): exp(g - max g), of one user at a time"""
    cumulative: F64
    """(n_items,)"""
    samples: I32
    """(samples,)"""
    weights: F32
    rewards: F32
    gradient: F32
    """(width,)"""


class Rates(NamedTuple):
    """The settings of the game in the form that kernels take."""

    mode: int
    temperature: float
    """Temperature of the softmax that items are drawn from."""
    positive_share: float
    """Share of the samples in a generator step that are the user's positives."""
    learning_rate: float
    regularization: float


@kernel(inner=True)
def softmax_row(m: FactorTables, user: Scalar, n_items: Scalar, temperature: Scalar, w: PolicyWork) -> None:
    """Fill w.shares and w.cumulative with the user's softmax over all items, unnormalised."""
    inverse = np.float32(1.0 / temperature)
    top = np.float32(-np.inf)
    for i in range(n_items):
        s = score_pair(m, user, i) * inverse
        w.shares[i] = s
        top = s if s > top else top
    for i in range(n_items, w.shares.size):
        w.shares[i] = top
    for i in range(0, w.shares.size, LANES):
        store(w.shares, i, exp_negative(load(w.shares, i) - splat(top)))
    mass = 0.0
    for i in range(n_items):
        mass += np.float64(w.shares[i])
        w.cumulative[i] = mass


@kernel(inner=True)
def draw_share(cumulative: F64, n: Scalar, x: Scalar) -> Scalar:
    """The first place whose cumulative share of the total is above x (in [0, 1))."""
    level = x * cumulative[n - 1]
    lo, hi = np.int64(0), np.int64(n - 1)
    while lo < hi:
        mid = (lo + hi) >> 1
        if cumulative[mid] > level:
            hi = mid
        else:
            lo = mid + 1
    return lo


@kernel(inner=True)
def label_step(m: FactorTables, user: Scalar, item: Scalar, label: Scalar, r: Rates) -> Scalar:
    """Take an SGD step on the logistic loss of one pair with a label of 0 or 1; return the loss before it."""
    x = score_pair(m, user, item)
    sigma, plus = sigmoid_softplus(splat(x))
    rate = np.float32(r.learning_rate)
    push = (label - total(sigma) * np.float32(1.0 / LANES)) * rate
    keep = _ONE - rate * np.float32(r.regularization)
    u, i = user * m.width, item * m.width
    for k in range(0, m.width, LANES):
        e, q = load(m.user, u + k), load(m.item, i + k)
        store(m.user, u + k, e * keep + q * push)
        store(m.item, i + k, q * keep + e * push)
    m.bias[item] += push
    return total(plus) * np.float32(1.0 / LANES) - label * x


@kernel()
def discriminator_pass(
    t: Tables,
    g: FactorTables,
    d: FactorTables,
    w: PolicyWork,
    r: Rates,
    c: PairwiseRules,
    order_key: Scalar,
    key: Scalar,
    sums: F64,
) -> None:
    """One pass over the positives, each paired with an item drawn by the generator. sums: loss, steps."""
    shuffle(w.order, order_key)
    for k in range(w.order.size):
        user = np.int64(w.order[k])
        first, last = t.indptr[user], t.indptr[user + 1]
        if first == last or last - first == t.n_items:
            continue
        softmax_row(g, user, t.n_items, r.temperature, w)
        for at in range(first, last):
            i = np.int64(t.indices[at])
            j = draw_share(w.cumulative, t.n_items, unit(splitmix64(key, np.uint64(at))))
            if r.mode == PAIRWISE:
                if i != j:
                    sums[0] += np.float64(triple_step(d, user, i, j, _ONE, c, r.learning_rate))
            else:
                sums[0] += 0.5 * np.float64(label_step(d, user, i, _ONE, r) + label_step(d, user, j, _ZERO, r))
            sums[1] += 1.0


@kernel(inner=True)
def _reward(d: FactorTables, user: Scalar, j: Scalar, i: Scalar, mode: Scalar) -> Scalar:
    """2 D - 1, for the item alone or for the item against a positive."""
    x = score_pair(d, user, j)
    if mode == PAIRWISE:
        x -= score_pair(d, user, i)
    sigma, _ = sigmoid_softplus(splat(x))
    return total(sigma) * np.float32(2.0 / LANES) - _ONE


@kernel()
def generator_pass(
    t: Tables, g: FactorTables, d: FactorTables, w: PolicyWork, r: Rates, order_key: Scalar, key: Scalar, sums: F64
) -> None:
    """One policy gradient step for each user. sums: expected reward under the generator (estimated), steps."""
    shuffle(w.order, order_key)
    n_samples = w.samples.size
    for k in range(w.order.size):
        user = np.int64(w.order[k])
        first, last = t.indptr[user], t.indptr[user + 1]
        n_pos = last - first
        if n_pos == 0 or n_pos == t.n_items:
            continue
        softmax_row(g, user, t.n_items, r.temperature, w)
        mass = w.cumulative[t.n_items - 1]
        total_weight = 0.0
        for s in range(n_samples):
            number = (np.uint64(user) * np.uint64(n_samples) + np.uint64(s)) * np.uint64(3)
            x = splitmix64(key, number + np.uint64(1))
            if unit(splitmix64(key, number)) < r.positive_share:
                j = np.int64(t.indices[first + np.int64(mulhi(x, np.uint64(n_pos)))])
            else:
                j = draw_share(w.cumulative, t.n_items, unit(x))
            p = np.float64(w.shares[j]) / mass
            q = (1.0 - r.positive_share) * p
            if is_observed(t, user, j):
                q += r.positive_share / n_pos
            other = first + np.int64(mulhi(splitmix64(key, number + np.uint64(2)), np.uint64(n_pos)))
            w.samples[s] = np.int32(j)
            w.weights[s] = np.float32(p / q)
            w.rewards[s] = _reward(d, user, j, np.int64(t.indices[other]), r.mode)
            total_weight += np.float64(w.weights[s])
        if total_weight > 0.0:
            sums[0] += _policy_step(g, user, w, r, total_weight)
            sums[1] += 1.0


@kernel(inner=True)
def _policy_step(g: FactorTables, user: Scalar, w: PolicyWork, r: Rates, total_weight: Scalar) -> Scalar:
    """Step along sum_s v_s (r_s - b) grad g(u, s) / temperature; return the baseline b, the mean reward."""
    n_samples = w.samples.size
    baseline = 0.0
    for s in range(n_samples):
        baseline += np.float64(w.weights[s] * w.rewards[s]) / total_weight
    rate = np.float32(r.learning_rate)
    keep = _ONE - rate * np.float32(r.regularization)
    keep_item = _ONE - rate * np.float32(r.regularization / n_samples)
    u = user * g.width
    for k in range(0, g.width, LANES):
        store(w.gradient, k, splat(_ZERO))
    for s in range(n_samples):
        push = np.float32(
            r.learning_rate / r.temperature * np.float64(w.weights[s]) / total_weight
            * (np.float64(w.rewards[s]) - baseline)
        )  # fmt: skip
        w.weights[s] = push
        i = np.int64(w.samples[s]) * g.width
        for k in range(0, g.width, LANES):
            store(w.gradient, k, load(w.gradient, k) + load(g.item, i + k) * push)
    for s in range(n_samples):
        item, push = np.int64(w.samples[s]), w.weights[s]
        for k in range(0, g.width, LANES):
            q = load(g.item, item * g.width + k) * keep_item
            store(g.item, item * g.width + k, q + load(g.user, u + k) * push)
        g.bias[item] += push
    for k in range(0, g.width, LANES):
        store(g.user, u + k, load(g.user, u + k) * keep + load(w.gradient, k))
    return baseline
