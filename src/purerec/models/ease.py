"""EASE: a linear model between items, in closed form.

Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data.

    min_B  |X - X B|^2 + regularization |B|^2   with diag(B) = 0,   X (n_users, n_items) of zeros and ones
    B = I - P diag(1 / diag(P)),   P = (X'X + regularization I)^-1,   score(u, i) = sum of B[j, i] over u's items j

Made for implicit feedback: nothing is adapted. Nothing is random, and no user is fitted, so a person who was not in
training is treated like any other. The cost is that of one inverse, about n_items^3 operations and 4 n_items^2 bytes
(ML-1M: 55 MB), whatever the number of users. With `neighbors`, the default for large catalogues, an item has weights
from a limited number of others only, which takes a small system per item instead: see `purerec.engines.closed_form`.
On Gowalla (40,981 items, 0.6 million positives) the inverse took 7 GB and 19 minutes of processor time, and 200
neighbours take 0.2 GB and 10 seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.engines.closed_form import ItemWeights, fit_item_weights
from purerec.engines.distributed.gram import multiplier
from purerec.models.contract.config import Config
from purerec.models.contract.explaining import Person
from purerec.models.contract.fitted_on import Known, need_positives
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.search_space import Floats, SearchSpace
from purerec.storage import Layout, check_layout
from purerec.training.run import Run
from purerec.types import F32, I32, I64, State

_MOST_DENSE = 12_000
"""Up to this many items, all have weights: half a gigabyte, half a minute of processor time. Where all are
affordable, fewer neighbours cost accuracy: on validation data of ML-1M, 200 of 3,706 give an NDCG@20 of .204 instead
of .213."""
_NEIGHBORS = 200


class EASEConfig(Config):
    """Settings of EASE."""

    regularization: float = Field(default=500.0, gt=0, le=1e9)
    """L2 on the weights between items; it acts like this many more users who like one item each."""
    neighbors: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Neighbours per item: those most often liked together with it. None: all, or 200 in
    catalogues of more than 12,000 items."""
    user_power: float = Field(default=0.0, ge=0, le=1)
    """A person with n positives counts n^-user_power in X: above 0, people who like everything count less."""
    item_power: float = Field(default=0.0, ge=0, le=1)
    """An item with n positives counts n^-item_power in X: above 0, the L2 penalty is heavier for popular items."""
    memory_mb: float = Field(default=8192.0, gt=0)
    """The most memory that a fit may take; one that needs more is refused."""

    search_space: ClassVar[SearchSpace] = {
        "regularization": Floats(10, 1e4),
        "user_power": Floats(0, 0.5, log=False),
        "item_power": Floats(0, 0.5, log=False),
    }


class EASE(Recommender):
    """Linear autoencoder with a zero diagonal."""

    name: ClassVar[str] = "ease"
    deterministic: ClassVar[bool] = True
    config_class = EASEConfig
    config: EASEConfig
    learned: ItemWeights

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> ItemWeights:
        config = self.config
        (weights,) = fit_item_weights(
            need_positives(train),
            [config.regularization],
            user_power=config.user_power,
            item_power=config.item_power,
            neighbors=self._neighbors(train.n_items),
            memory_mb=config.memory_mb,
            name=self.name,
            multiply=multiplier(),
        )
        return weights

    def _neighbors(self, n_items: int) -> int:
        default = n_items if n_items <= _MOST_DENSE else _NEIGHBORS
        return self.config.neighbors or default

    def resolved(self, positives: Csr) -> dict[str, int | float]:
        return {} if self.config.neighbors is not None else {"neighbors": self._neighbors(positives.shape[1])}

    def _score(self, user_idx: I64) -> F32:
        scores = self.learned.scores(self.seen, user_idx)
        scores[self.seen.counts[user_idx] == 0] = self.popularity()
        return scores

    def _score_history(self, item_idx: I32) -> F32:
        return self.learned.of_history(item_idx)

    def _shares(self, person: Person, target_idx: I64) -> F32 | None:
        return self.learned.shares(person.item_idx, target_idx)

    def _item_weights(self, item_idx: int) -> F32 | None:
        return self.learned.row(item_idx)

    def _layout(self) -> Layout:
        return self.learned.layout

    def _check_state(self, state: State, sizes: Mapping[str, int]) -> None:
        check_layout(state, ItemWeights.kind_of(state).layout, sizes)

    def _state(self) -> State:
        return self.learned.state()

    def _from_state(self, state: State, known: Known) -> ItemWeights:
        return ItemWeights.from_state(state, len(known.items))
