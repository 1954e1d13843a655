"""How far a score, or a part of it, exceeds what popularity explains.

A person's scores mix two things: how well an item scores with everybody, and what sets it apart for this person.
The first is the mean score over people. How closely a person's scores follow it is a regression over some items,
drawn by their popularity (`Level.items`), and the lift is what the regression leaves:

    lift(i) = x(i) - mean of x - slope * level(i)

Since it is linear, it applies to parts as well: the lifts of the own items' shares and of the rest add up to that of
the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from purerec.types import F32, F64, I64

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender

_ITEMS = 32
_PEOPLE = 128
_BLOCK = 16


@dataclass(frozen=True, eq=False)
class Level:
    """How well items score with everybody."""

    items: I64
    """(n,) the items that lifts are measured against"""
    of_all: F64
    """(n_items,) the mean score over people, minus its mean over `items`"""

    def lift(self, values: F64, at_items: F64, target_idx: I64) -> F64:
        """(..., n_targets) of values (..., n_targets) at some items, from the same (..., n) at `items`."""
        level = self.of_all[self.items]
        mean = at_items.mean(axis=-1, keepdims=True)
        squares = float(level @ level)
        slope = ((at_items - mean) * level).sum(axis=-1, keepdims=True) / squares if squares > 0 else 0.0
        found: F64 = values - mean - slope * self.of_all[target_idx]
        return found


def level_of(model: Recommender) -> Level:
    """The level from a uniform sample of people and a sample of items by popularity."""
    liked = model.derived.popularity.astype(np.float64) + 1e-9
    order = np.argsort(liked, kind="stable")
    reached = np.cumsum(liked[order]) / liked.sum()
    middles = (np.arange(_ITEMS) + 0.5) / _ITEMS
    items = np.unique(order[np.minimum(np.searchsorted(reached, middles), len(order) - 1)]).astype(np.int64)
    people = np.flatnonzero(model.seen.counts)
    some = people[np.unique(np.linspace(0, len(people) - 1, min(len(people), _PEOPLE)).astype(np.int64))]
    total = np.zeros(len(liked))
    for start in range(0, len(some), _BLOCK):
        scores: F32 = model._score(some[start : start + _BLOCK])
        total += scores.sum(axis=0, dtype=np.float64)
    mean = total / max(1, len(some))
    return Level(items, mean - mean[items].mean())
