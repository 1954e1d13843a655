"""The two unknown constants of a world: one sets the prior of relevance, the other the expected length of the log."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from purerec.types import F64, I64

PAIRS = 1 << 20
"""Number of pairs that the constants are fitted on; worlds up to this size are fitted exactly."""


def calibration_pairs(users: int, items: int, item_weight: F64, rng: np.random.Generator) -> tuple[I64, I64, F64]:
    """Pairs and the share of all cells that each stands for (the shares sum to about 1)."""
    if users * items <= PAIRS:
        cell = np.arange(users * items, dtype=np.int64)
        return cell // items, cell % items, np.full(len(cell), 1.0 / len(cell))
    n = PAIRS
    # Every user equally often. Half of the items by weight: with a strong bias, a handful of them get most of
    # the exposure, and a uniform sample would rarely include those.
    user_idx = np.arange(n, dtype=np.int64) * users // n
    by_weight = np.cumsum(item_weight)
    drawn = np.searchsorted(by_weight, rng.random(n // 2) * by_weight[-1])
    item_idx = np.concatenate([rng.integers(0, items, n - n // 2), np.minimum(drawn, items - 1)])
    rng.shuffle(item_idx)
    return user_idx, item_idx, 1.0 / (n * (0.5 + 0.5 * item_weight[item_idx]))


def sigmoid(logit: F64) -> F64:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logit))  # this form cannot overflow


def increasing_root(function: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Where an increasing positive function reaches a value: false position (Illinois) on its logarithm.

    Does not use scipy.optimize: importing it takes longer than making a small world. Rounded to six places, so that
    the last bits of a sum, which depend on the number of threads, do not affect the world.
    """
    goal = math.log(target)

    def gap(x: float) -> float:
        return math.log(max(function(x), 1e-300)) - goal

    at_low, at_high = gap(low), gap(high)
    if at_high <= 0.0:
        return round(high, 6)
    side = 0
    for _ in range(200):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < middle < high:
            middle = 0.5 * (low + high)
        value = gap(middle)
        if abs(value) < 1e-9 or high - low < 1e-12:
            break
        if value < 0.0:
            low, at_low = middle, value
            at_high *= 0.5 if side < 0 else 1.0
            side = -1
        else:
            high, at_high = middle, value
            at_low *= 0.5 if side > 0 else 1.0
            side = 1
    return round(middle, 6)
