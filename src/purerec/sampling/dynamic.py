"""Which of several unlabeled candidates becomes the negative: rules that any sampled model can use.

    FIRST        the first one: plain sampling
    BEST         the highest score: dynamic negative sampling, DNS
    SOFTMAX      at random, in proportion to exp(score): dynamic random negative sampling, DRNS
    RANKED       at random by rank r among the scores, in proportion to exp(-(r + 1) / (k rho)): LambdaFM
    VIOLATING    candidates one by one, until one scores above the positive minus a margin: WARP, LambdaFM

PURE, PU-GMF and GMF apply them in `engines.pure`. Candidates come from `draws`, uniform or by weight. A rule takes
scores as input, so they may come from any model. All rules but FIRST score up to k candidates per negative instead of
one.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from purerec.jit.decorator import Scalar, kernel
from purerec.types import F32, F64, I64

FIRST, BEST, SOFTMAX, RANKED, VIOLATING = range(5)
Negatives = Literal["uniform", "dns", "drns"]
RULES: dict[Negatives, int] = {"uniform": FIRST, "dns": BEST, "drns": SOFTMAX}
"""The `negatives` setting of models."""
_TO_UNIT = 1.0 / 2.0**53
_TOP_BITS = np.uint64(11)


@kernel(inner=True)
def unit(word: Scalar) -> Scalar:
    """A random word as a number in [0, 1)."""
    return np.float64(word >> _TOP_BITS) * _TO_UNIT


@kernel(inner=True)
def best_of(scores: F32, n: Scalar) -> Scalar:
    """The place of the highest of n scores; the first of equal ones."""
    best = 0
    for k in range(1, n):
        best = k if scores[k] > scores[best] else best
    return best


@kernel(inner=True)
def softmax_of(scores: F32, n: Scalar, x: Scalar) -> Scalar:
    """A place drawn in proportion to exp(score); x is uniform in [0, 1). Overwrites the scores."""
    top = scores[best_of(scores, n)]
    mass = np.float32(0.0)
    for k in range(n):
        mass += np.float32(math.exp(scores[k] - top))
        scores[k] = mass
    level = np.float32(x) * mass
    for k in range(n - 1):
        if level < scores[k]:
            return k
    return n - 1


@kernel(inner=True)
def ranked_of(scores: F32, places: F32, n: Scalar, rank: Scalar) -> Scalar:
    """The place of the score with `rank` others before it in descending order; `places` (n,) is scratch."""
    for k in range(n):  # insertion sort: n is small
        score, at = scores[k], k
        while at > 0 and scores[at - 1] < score:
            scores[at], places[at] = scores[at - 1], places[at - 1]
            at -= 1
        scores[at], places[at] = score, np.float32(k)
    return np.int64(places[rank])


@kernel(inner=True)
def draw_rank(cumulative: F64, n: Scalar, x: Scalar) -> Scalar:
    """A rank drawn from a table of cumulative shares that ends in 1; x is uniform in [0, 1)."""
    for rank in range(n - 1):
        if x < cumulative[rank]:
            return rank
    return n - 1


def rank_shares(n: int, rho: float) -> F64:
    """(n,) shares of the ranks r = 0..n-1, in proportion to exp(-(r + 1) / (n rho)), as in LambdaFM."""
    weights = np.exp(-(np.arange(n) + 1.0) / (n * rho))
    shares: F64 = weights / weights.sum()
    return shares


def chosen_places(scores: F32, negatives: Negatives, x: F64) -> I64:
    """(n,) the candidate chosen from each row of `scores` (n, k); x (n,) is uniform in [0, 1).

    The kernels' rules on whole arrays, for engines that compute scores elsewhere.
    """
    if negatives == "uniform":
        return np.zeros(len(scores), np.int64)
    found: I64
    if negatives == "dns":
        found = scores.argmax(axis=1)
        return found
    mass = np.cumsum(np.exp(scores - scores.max(axis=1, keepdims=True)), axis=1)
    found = (x[:, None] * mass[:, -1:] >= mass[:, :-1]).sum(axis=1)
    return found
