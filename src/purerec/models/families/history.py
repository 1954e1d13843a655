"""The history's part of a score: a person's own items, through item-to-item weights in closed form.

    score(u, i) = phi(u, i) + sum of S[j, i] over the items j of u

Its weight relative to phi, and the L2 of S, are chosen on held-out pairs; see `held_out`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.engines.closed_form import ItemWeights, Weighting, check_memory, fit_item_weights, mean_diagonal
from purerec.engines.closed_form.dense import products
from purerec.engines.distributed.gram import lead_products
from purerec.engines.distributed.group import current_group
from purerec.engines.pure.spec import Params
from purerec.errors import StoreError
from purerec.models.contract.fitted_on import Known, need_positives
from purerec.models.contract.iterative import Fitting
from purerec.models.contract.search_space import Floats, SearchSpace
from purerec.models.contract.trained import Trained
from purerec.models.families.discriminator import DiscriminatorConfig, DiscriminatorModel
from purerec.models.families.game import DiscriminatorGame
from purerec.models.families.held_out import (
    DEFAULT_REGULARIZATION,
    DEFAULT_WEIGHT,
    REGULARIZATIONS,
    WEIGHTS,
    Form,
    HeldOutPairs,
    balance,
    can_hold_out,
)
from purerec.models.families.scorers import dot_product
from purerec.ranking.scorers import Factors
from purerec.storage import Layout, Part, check_layout
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


def default_weight(positives: Csr) -> float:
    """The weight if none is chosen."""
    return DEFAULT_WEIGHT if can_hold_out(positives) else _WEIGHT_WITH_FEW_PEOPLE


def scaled(history: ItemWeights, embeddings: Factors, positives: Csr, weight: float) -> ItemWeights:
    """The weights, scaled so that the spread of the history's part is `weight` times that of the embeddings' part."""
    return history.scaled(weight * balance(history, embeddings, positives))


class HistoryConfig(DiscriminatorConfig):
    """Settings of the history's part."""

    users: Literal["free", "both"] = "both"
    """What represents a person. free: an embedding of their own, as in the paper; both: also their items."""
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
        "history_regularization": Floats(1, 100, start=lambda positives: DEFAULT_REGULARIZATION)
    }


@dataclass(frozen=True, eq=False)
class TrainedWithHistory(Trained):
    """Parameters, and the history's part if there is one."""

    item_weights: ItemWeights | None = None
    """Scaled to their weight"""
    weight: float | None = None


class WithHistory(DiscriminatorModel):
    """A discriminator whose score has a history's part. A mixin, listed before the class with the risk."""

    config: HistoryConfig
    learned: TrainedWithHistory

    def _has_history(self) -> bool:
        """Only with a dot product: with a network, the two parts cannot be weighed against each other."""
        return self.config.users == "both" and self.config.scorer != "mlp" and self.scorer_module is None

    def _chooses(self) -> bool:
        return super()._chooses() or self._chooses_weight()

    def _chooses_weight(self) -> bool:
        return self._has_history() and self.config.history_weight is None

    def _fitting(self, train: Interactions, seed: int, start: Params | None = None) -> DiscriminatorGame:
        if self._has_history():
            self._check_memory(need_positives(train))
        return super()._fitting(train, seed, start)

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
        default = n_items if n_items <= _MOST_ITEMS else _NEIGHBORS
        return self.config.neighbors or default

    def choose_form(self, game: DiscriminatorGame, held_out: HeldOutPairs) -> Form:
        """Choose on the pairs that neither the embeddings nor these item weights have seen."""
        if not self._has_history():
            return super().choose_form(game, held_out)
        embeddings = dot_product(self.config.scorer, game.parameters())
        assert embeddings is not None, "only dot products have a history"
        config = self.config
        regularizations = [config.history_regularization or DEFAULT_REGULARIZATION]
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
        return held_out.best(embeddings, histories, weights, narrow=self._chooses_width())

    def _extract(self, fitting: Fitting, positives: Csr) -> TrainedWithHistory:
        """Scales the history's part to the current spread of the embeddings' part."""
        params = super()._extract(fitting, positives).params
        if not self._has_history():
            return TrainedWithHistory(params)
        assert isinstance(fitting, DiscriminatorGame)
        weight, regularization = self._history_form(fitting.chosen, positives)
        neighbors = self._neighbors(positives.shape[1])
        fitted = fitting.item_weights(
            regularization, lambda: self._fit_history(positives, [regularization], neighbors)[0]
        )
        embeddings = dot_product(self.config.scorer, params)
        assert embeddings is not None, "only dot products have a history"
        item_weights = scaled(fitted, embeddings, positives, weight)
        chosen = {"history_weight": weight, "history_regularization": regularization, "neighbors": neighbors}
        return TrainedWithHistory(params, chosen, item_weights=item_weights, weight=weight)

    def _history_form(self, chosen: Form | None, positives: Csr) -> tuple[float, float]:
        """The weight and the L2: those of the settings, those chosen, or the defaults."""
        config = self.config
        if config.history_weight is None and chosen is not None:
            return chosen.weight, chosen.regularization
        weight = default_weight(positives) if config.history_weight is None else config.history_weight
        return weight, config.history_regularization or DEFAULT_REGULARIZATION

    def _vector_part(self) -> Factors | None:
        return self._embeddings()

    def _history_part(self) -> ItemWeights | None:
        return self.learned.item_weights

    def factors(self) -> Factors | None:
        return self._embeddings() if self.learned.item_weights is None else None

    def _score(self, user_idx: I64) -> F32:
        scores = super()._score(user_idx)
        if self.learned.item_weights is not None:
            scores += self.learned.item_weights.scores(self.seen, user_idx)
        return scores

    def _item_weights(self, item_idx: int) -> F32 | None:
        return None if self.learned.item_weights is None else self.learned.item_weights.row(item_idx)

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
        learned = self.learned
        if learned.item_weights is None:
            return super()._state()
        history = learned.item_weights.state() | {"weight": np.array([learned.weight], dtype=np.float32)}
        return super()._state() | {f"{_HISTORY}{name}": array for name, array in history.items()}

    def _from_state(self, state: State, known: Known) -> TrainedWithHistory:
        own = {n.removeprefix(_HISTORY): a for n, a in state.items() if n.startswith(_HISTORY)}
        params = {n: a for n, a in state.items() if not n.startswith(_HISTORY)}
        if not own:
            return TrainedWithHistory(params)
        item_weights = ItemWeights.from_state(own, len(known.items))
        return TrainedWithHistory(params, item_weights=item_weights, weight=float(own["weight"][0]))

    def _layout(self) -> Layout:
        if not self.is_fitted or self.learned.item_weights is None:
            return super()._layout()
        own = _layout_of_history(type(self.learned.item_weights))
        return {**super()._layout(), **{f"{_HISTORY}{name}": part for name, part in own.items()}}


def _layout_of_history(kind: type[ItemWeights]) -> Layout:
    return {**kind.layout, "weight": Part((1,))}
