"""Popularity: everybody gets the items with the most positives.

score(u, i) = number of users with a positive for i

The baseline that a personalised model has to beat. Fitting counts the positives once; there is nothing to tune. Use
it for people about whom nothing is known.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from purerec.data.interactions import Interactions
from purerec.models.contract.explaining import Person
from purerec.models.contract.fitted_on import Known
from purerec.models.contract.recommender import Recommender
from purerec.ranking.scorers import Factors
from purerec.storage import Layout, Part
from purerec.training.run import Run
from purerec.types import F32, I32, I64, State


class ItemPop(Recommender):
    """Most popular items, the same for all."""

    name: ClassVar[str] = "itempop"
    deterministic: ClassVar[bool] = True
    personalised: ClassVar[bool] = False
    learned: F32
    """(n_items,) how many positives each item has"""

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> F32:
        counts: F32 = train.positives.item_counts.astype(np.float32)
        return counts

    def _score(self, user_idx: I64) -> F32:
        return np.repeat(self.learned[None, :], len(user_idx), axis=0)

    def _score_history(self, item_idx: I32) -> F32:
        return self.learned

    def _shares(self, person: Person, target_idx: I64) -> F32 | None:
        return np.zeros((len(person.item_idx), len(target_idx)), dtype=np.float32)

    def factors(self) -> Factors | None:
        # A user vector of width one and zero weight: the score is the item bias alone.
        zeros = np.zeros((len(self.users), 1), dtype=np.float32)
        return Factors(zeros, np.zeros((len(self.items), 1), dtype=np.float32), self.learned)

    def _layout(self) -> Layout:
        return {"counts": Part(("items",))}

    def _state(self) -> State:
        return {"counts": self.learned}

    def _from_state(self, state: State, known: Known) -> F32:
        return state["counts"]
