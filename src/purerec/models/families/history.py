"""The history's part of a score: what a person touched, through item-to-item weights in closed form.

    score(u, i) = phi(u, i) + sum of S[j, i] over the items j of u

Its weight relative to phi, and the L2 of S, are chosen on held-out pairs; see `held_out`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from purerec.data.interactions import Csr, Interactions
from purerec.engines.closed_form import ItemWeights, Weighting, check_memory, fit_item_weights, mean_diagonal
from purerec.engines.closed_form.dense import products
from purerec.engines.distributed.gram import lead_products
from purerec.engines.distributed.group import current_group
from purerec.errors import StoreError
from purerec.models.contract.iterative import Fitting
from purerec.models.contract.search_space import Floats, SearchSpace
from purerec.models.families.discriminator import DiscriminatorConfig, DiscriminatorModel
from purerec.models.families.game import HeldOutGame
from purerec.models.families.held_out import (
    REGULARIZATIONS,
    USUAL_REGULARIZATION,
    USUAL_WEIGHT,
    WEIGHTS,
    Form,
    balance,
    can_hold_out,
)
from purerec.models.families.scorers import dot_product
from purerec.ranking.scorers import Factors
from purerec.storage import Layout, Part, check_layout
from purerec.training.run import Run
from purerec.types import F32, I64, State

_MOST_ITEMS = 8_000
"""Up to this many items, all have weights between them; the cost grows with the cube of their number."""
_NEIGHBORS, _TO_CHOOSE = 200, 100
"""Neighbours per item in larger catalogues, and a cheaper number that suffices while the form is chosen"""
_LARGEST_WEIGHT = 1000
_WEIGHT_WITH_FEW_PEOPLE = 0.8
"""If there are too few people to choose by: they are also too few for good embeddings"""
_HISTORY = "history."
"""Prefix of the history's arrays in a folder"""


def usual_weight(positives: Csr) -> float:
    """The weight if none is chosen."""
    return USUAL_WEIGHT if can_hold_out(positives) else _WEIGHT_WITH_FEW_PEOPLE


def scaled(history: ItemWeights, embeddings: Factors, positives: Csr, weight: float) -> ItemWeights:
    """The weights, scaled so that the spread of the history's part is `weight` times that of the embeddings' part."""
    return history.scaled(weight * balance(history, embeddings, positives))


class HistoryConfig(DiscriminatorConfig):
    """Settings of the history's part."""

    users: Literal["free", "both"] = "both"
    """What describes a person. free: an embedding of their own, as in the paper; both: also their items."""
    history_weight: Annotated[float, Field(ge=0, le=_LARGEST_WEIGHT)] | None = None
    """Spread of the history's part of the scores over the items, relative to the embeddings' part. None: chosen on
    pairs held out of the pre-training epochs, or 0.8 with fewer than about 500 people or 2,000 positives."""
    history_regularization: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """L2 on the item-to-item weights, relative to the mean of the diagonal that it is added to. None: 2.5 or 10,
    chosen like the weight."""
    item_power: float = Field(default=0.2, ge=0, le=1)
    """In the item-to-item weights, an item with n positives counts n^-item_power."""
    neighbors: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Neighbours per item. None: all in catalogues of up to 8,000 items, else 200."""

    search_space: ClassVar[SearchSpace] = {
        "history_regularization": Floats(1, 100, start=lambda positives: USUAL_REGULARIZATION)
    }


class WithHistory(DiscriminatorModel):
    """A discriminator with a history's part: a mixin that precedes the class with the risk."""

    config: HistoryConfig
    _closed: ItemWeights | None = None
    """The weights as fitted; only during a fit"""
    _history: ItemWeights | None = None
    """The same, scaled"""
    _history_weight: float | None = None
    _history_regularization: float = USUAL_REGULARIZATION

    def _has_history(self) -> bool:
        """Only with a dot product: with a network, the two parts cannot be weighed against each other."""
        return self.config.users == "both" and self.config.scorer != "mlp" and self.scorer_module is None

    def _chooses(self) -> bool:
        return super()._chooses() or self._chooses_weight()

    def _chooses_weight(self) -> bool:
        return self._has_history() and self.config.history_weight is None

    def use_form(self, form: Form) -> None:
        super().use_form(form)
        if self._chooses_weight():
            self._history_weight = form.weight
            if form.regularization != self._history_regularization:
                self._history_regularization = form.regularization
                self._closed = None

    def _train(self, fitting: Fitting, log: Interactions, valid: Interactions | None, seed: int, run: Run) -> None:
        self._closed = self._history = self._history_weight = None
        if self._has_history():
            given, config = self.config.history_weight, self.config
            self._history_weight = usual_weight(log.positives) if given is None else given
            self._history_regularization = config.history_regularization or USUAL_REGULARIZATION
            self._check_memory(log.positives)
        super()._train(fitting, log, valid, seed, run)
        self._closed = None

    def _check_memory(self, positives: Csr) -> None:
        """Check before the epochs, so that the weights are not refused only after them."""
        config = self.config
        chooses = config.history_weight is None and config.history_regularization is None
        weight = Weighting.of(positives, 0.0, config.item_power)
        neighbors = self._neighbors(positives.shape[1])
        n = len(REGULARIZATIONS) if chooses else 1
        check_memory(positives, weight, n, neighbors=neighbors, memory_mb=math.inf, name=self.name)

    def _fit_history(self, positives: Csr, regularizations: Sequence[float], neighbors: int) -> list[ItemWeights]:
        power, group = self.config.item_power, current_group()
        size = mean_diagonal(positives, 0.0, power)
        return fit_item_weights(
            positives,
            [regularization * size for regularization in regularizations],
            item_power=power,
            neighbors=neighbors,
            memory_mb=math.inf,
            name=self.name,
            multiply=products if group is None else partial(lead_products, group),
        )

    def _neighbors(self, n_items: int) -> int:
        usual = n_items if n_items <= _MOST_ITEMS else _NEIGHBORS
        return self.config.neighbors or usual

    def resolved(self, positives: Csr) -> dict[str, int | float]:
        found = super().resolved(positives)
        if self._history_weight is not None:
            own = {
                "history_weight": self._history_weight,
                "history_regularization": self._history_regularization,
                "neighbors": self._neighbors(positives.shape[1]),
            }
            found |= {name: value for name, value in own.items() if getattr(self.config, name) is None}
        return found

    def choose_form(self, game: HeldOutGame) -> Form:
        """Choose on the pairs that neither the embeddings nor these item weights have seen."""
        if not self._has_history():
            return super().choose_form(game)
        embeddings = dot_product(self.config.scorer, game.parameters())
        assert embeddings is not None, "only dot products have a history"
        config, regularizations = self.config, [self._history_regularization]
        weights: Sequence[float] = WEIGHTS
        if config.history_weight is not None:
            weights = (config.history_weight,)
        elif config.history_regularization is None:
            regularizations = list(REGULARIZATIONS)
        n_items = game.positives.shape[1]
        neighbors = self._neighbors(n_items)
        if neighbors < n_items:
            neighbors = min(neighbors, _TO_CHOOSE)
        fitted = self._fit_history(game.positives, regularizations, neighbors)
        histories = dict(zip(regularizations, fitted, strict=True))
        return game.held_out().best(embeddings, histories, weights, narrow=self._chooses_width())

    def _adopt(self, params: State, positives: Csr) -> None:
        """Scales the history's part to the current spread of the embeddings' part."""
        super()._adopt(params, positives)
        if self._history_weight is None:
            return
        if self._closed is None:  # only when needed: the choice made during training changes it
            neighbors = self._neighbors(positives.shape[1])
            (self._closed,) = self._fit_history(positives, [self._history_regularization], neighbors)
        embeddings = self._embeddings()
        assert embeddings is not None, "only dot products have a history"
        self._history = scaled(self._closed, embeddings, positives, self._history_weight)

    def _vector_part(self) -> Factors | None:
        return self._embeddings()

    def _history_part(self) -> ItemWeights | None:
        return self._history

    def factors(self) -> Factors | None:
        return self._embeddings() if self._history is None else None

    def _score(self, user_idx: I64) -> F32:
        scores = super()._score(user_idx)
        if self._history is not None:
            scores += self._history.scores(self.seen, user_idx)
        return scores

    def _item_weights(self, item_idx: int) -> F32 | None:
        return None if self._history is None else self._history.row(item_idx)

    def _check_state(self, state: State, sizes: Mapping[str, int]) -> None:
        of_history = {name: array for name, array in state.items() if name.startswith(_HISTORY)}
        super()._check_state({name: array for name, array in state.items() if name not in of_history}, sizes)
        if of_history:
            own = {name.removeprefix(_HISTORY): array for name, array in of_history.items()}
            check_layout(own, _layout_of_history(ItemWeights.kind_of(own)), sizes)
            if not self._has_history() or any(name.startswith("scorer.") for name in state):
                raise StoreError("there are weights of a history, which a model with these settings does not have")
            if not 0 <= own["weight"][0] <= _LARGEST_WEIGHT:
                raise StoreError(f"the weight of the history is {own['weight'][0]:g}")

    def _state(self) -> State:
        if self._history is None:
            return super()._state()
        history = self._history.state() | {"weight": np.array([self._history_weight], dtype=np.float32)}
        return super()._state() | {f"{_HISTORY}{name}": array for name, array in history.items()}

    def _set_state(self, state: State) -> None:
        own = {n.removeprefix(_HISTORY): a for n, a in state.items() if n.startswith(_HISTORY)}
        super()._set_state({n: a for n, a in state.items() if not n.startswith(_HISTORY)})
        self._history = self._history_weight = None
        if own:
            self._history = ItemWeights.from_state(own, len(self.items))
            self._history_weight = float(own["weight"][0])

    def _layout(self) -> Layout:
        if self._history is None:
            return super()._layout()
        own = _layout_of_history(type(self._history))
        return {**super()._layout(), **{f"{_HISTORY}{name}": part for name, part in own.items()}}


def _layout_of_history(kind: type[ItemWeights]) -> Layout:
    return {**kind.layout, "weight": Part((1,))}
