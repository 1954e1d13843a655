"""Kernels of the synthetic world: what is relevant, and who is shown what. Formulas: `world`."""

from __future__ import annotations

import math

import numpy as np

from purerec.jit.counter_rng import splitmix64
from purerec.jit.decorator import kernel
from purerec.types import F32, F64, I32, I64, Mask

_S11, _ONE = np.uint64(11), np.uint64(1)


@kernel()
def _uniform(key: np.uint64, counter: np.uint64) -> float:
    """In [0, 1), from 53 bits."""
    return np.float64(splitmix64(key, counter) >> _S11) * 1.1102230246251565e-16


@kernel()
def _logit(user_factors: F32, item_factors: F32, item_bias: F32, u: int, i: int) -> float:
    # The same order of summation everywhere, so that every function gives the same truth.
    x = item_bias[i]
    for k in range(user_factors.shape[1]):
        x += user_factors[u, k] * item_factors[i, k]
    return np.float64(x)


@kernel()
def _is_relevant(coin: float, logit: float) -> bool:
    """coin < sigmoid(logit). Most coins already fail an upper bound from the first terms of the series of exp."""
    if logit < 0.0:
        y = -logit
        if coin * (2.0 + y * (1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0))))) > 1.0:
            return False
    return coin * (1.0 + math.exp(-logit)) < 1.0


@kernel()
def fill_logits(user_factors: F32, item_factors: F32, item_bias: F32, user: I64, item: I64, out: F64) -> None:
    for n in range(len(user)):
        out[n] = _logit(user_factors, item_factors, item_bias, user[n], item[n])


@kernel()
def fill_relevance(user_factors: F32, item_factors: F32, item_bias: F32, user: I64, out: F32) -> None:
    for n in range(len(user)):
        for i in range(len(item_bias)):
            logit = _logit(user_factors, item_factors, item_bias, user[n], i)
            out[n, i] = 1.0 / (1.0 + math.exp(-logit))


@kernel()
def fill_truth(user_factors: F32, item_factors: F32, item_bias: F32, key: np.uint64, user: I64, out: Mask) -> None:
    for n in range(len(user)):
        row = splitmix64(key, np.uint64(user[n]))
        for i in range(len(item_bias)):
            logit = _logit(user_factors, item_factors, item_bias, user[n], i)
            out[n, i] = _is_relevant(_uniform(row, np.uint64(i)), logit)


@kernel()
def _sort(values: I32, start: int, stop: int) -> None:
    """Shell sort, in place: kernels here may not allocate, and numba's own sort does."""
    gap = (stop - start) // 2
    while gap > 0:
        for at in range(start + gap, stop):
            value = values[at]
            hole = at
            while hole - gap >= start and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap = 1 if gap == 2 else gap * 5 // 11


@kernel()
def fill_observed(
    user_factors: F32,
    item_factors: F32,
    item_bias: F32,
    by_rank: I32,
    weight: F64,
    user_rate: F64,
    exposure_key: np.uint64,
    relevance_key: np.uint64,
    relevant_only: bool,
    user: I64,
    first: int,
    indptr: I64,
    out: I32,
) -> int:
    """Fill in users from number `first` on, as many as surely fit; return the number done. Items ascend per user.

    Tosses independent coins of probability 1 - exp(-rate w_j) for items of decreasing weight, but not all of them:
    assuming the weight of the last item visited, the next exposure comes after a geometric jump; the item there is
    kept with the ratio of its own probability to the assumed one (Miller and Hagberg 2011).
    """
    n_items = len(by_rank)
    n = indptr[first]
    for done in range(first, len(user)):
        if n + n_items > len(out):
            return done
        u = user[done]
        stream = splitmix64(exposure_key, np.uint64(u))
        row = splitmix64(relevance_key, np.uint64(u))
        counter = np.uint64(0)
        start = n
        last = 0
        rank = 0
        while True:
            pull = user_rate[u] * weight[last]
            jump = -math.log(1.0 - _uniform(stream, counter)) / pull
            if not jump < n_items - rank:
                break
            rank += int(jump)
            i = by_rank[rank]
            keep = True
            if relevant_only:
                coin = _uniform(row, np.uint64(i))
                keep = _is_relevant(coin, _logit(user_factors, item_factors, item_bias, u, i))
            if keep:  # two in twenty at most: the more expensive check comes second
                ratio = math.expm1(-user_rate[u] * weight[rank]) / math.expm1(-pull)
                if _uniform(stream, counter + _ONE) < ratio:
                    out[n] = i
                    n += 1
            counter += _ONE + _ONE
            last = rank
            rank += 1
            if rank == n_items:
                break
        _sort(out, start, n)
        indptr[done + 1] = n
    return len(user)
