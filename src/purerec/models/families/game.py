"""One fit of a discriminator: its epochs, its engine and the pairs that it is trained on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.closed_form import ItemWeights
from purerec.engines.pure.registry import new_engine
from purerec.engines.pure.spec import Engine, GameSettings, Params, SharedEngine
from purerec.engines.source import MemorySource
from purerec.models.contract.iterative import scheduled
from purerec.models.families.held_out import Form, HeldOutPairs
from purerec.storage import Digests
from purerec.training.history import Measures
from purerec.types import State

if TYPE_CHECKING:
    from purerec.models.families.discriminator import DiscriminatorModel

_FORM = "form"
_NOT_CHOSEN = Form(-1, -1.0, -1.0)
"""Marks 'not chosen yet' in a state, whose arrays must be the same before and after the choice"""


class DiscriminatorGame:
    """The discriminator (and generators) of one fit, as `training` expects them.

    Pairs may be left out of the first epochs. These then decide the form of the score, and the rest of the epochs
    are on all pairs.
    """

    chosen: Form | None = None
    """The form of the score, once it is chosen"""

    def __init__(
        self,
        model: DiscriminatorModel,
        positives: Csr,
        settings: GameSettings,
        seed: int,
        start: Params | None = None,
        split: tuple[Csr, Csr] | None = None,
    ) -> None:
        """`start`: initial parameters in place of random ones; `split`: the positives that are kept and held out."""
        self.model, self.settings, self.seed, self._all = model, settings, seed, positives
        self.positives = positives if split is None else split[0]
        self.held_out = None if split is None else split[1]
        self._item_weights: tuple[float, ItemWeights] | None = None
        self.is_pretrained = start is not None
        self.engine = self.new_engine(start, seed)

    def new_engine(self, params: Params | None, seed: int) -> Engine:
        return new_engine(
            self.model.config.engine,
            MemorySource(self.positives),
            self.settings,
            seed=seed,
            params=params,
            scorer_module=self.model.scorer_module,
        )

    # ------------------------------------------------------------------ epochs

    def epoch(self, number: int) -> Measures:
        if self.held_out is not None and self.chosen is None and number >= self.model.choosing_epoch():
            self.train_on_all(self.model.choose_form(self, HeldOutPairs(self.positives, self.held_out)))
        rate = self.learning_rate(number)
        return self.play(number, rate) | {"learning_rate": rate, **self.engine.norms()}

    def learning_rate(self, number: int) -> float:
        """The rate of an epoch under the schedule."""
        config = self.model.config
        return scheduled(config.schedule, config.learning_rate, number, config.epochs)

    def play(self, number: int, learning_rate: float) -> Measures:
        """One epoch of the discriminator; PURE adds its generators here."""
        stats = self.engine.train_discriminator(learning_rate=learning_rate, use_fakes=False)
        return {
            "phase": "discriminator",
            "loss": stats.loss,
            "D(positive)": stats.d_positive,
            "D(unlabeled)": stats.d_unlabeled,
        }

    def parameters(self) -> Params:
        """The parameters so far, including the buffers of a custom scorer (running means, say)."""
        params = self.engine.parameters()
        if self.model.scorer_module is not None:
            params |= {n: a for n, a in self.engine.state().items() if n.endswith("/buffer")}  # type: ignore[misc]  # float32 all
        return params

    def item_weights(self, regularization: float, fit: Callable[[], ItemWeights]) -> ItemWeights:
        """PURE's weights between items, not yet scaled: fitted on first use, and again if their L2 changes."""
        if self._item_weights is None or self._item_weights[0] != regularization:
            self._item_weights = None  # before its successor takes as much memory
            self._item_weights = regularization, fit()
        return self._item_weights[1]

    # ------------------------------------------------------------------ from some pairs to all

    def train_on_all(self, chosen: Form) -> None:
        """Train on all pairs from now on, for this form of the score."""
        state = self.engine.state()
        self._switch_engine(chosen)
        self.engine.restore(state)

    def _switch_engine(self, chosen: Form) -> None:
        """Switch to an engine for all pairs, at its random start."""
        self.positives, self.chosen = self._all, chosen
        self.engine = self.new_engine(None, self.seed)

    # ------------------------------------------------------------------ checkpoints

    def state(self) -> State:
        return self.engine.state() | self._form()

    def restore(self, state: State, number: int) -> None:
        rest, chosen = _without_form(state)
        self.engine.restore(rest)
        if chosen is not None and self.chosen is None:
            self.train_on_all(chosen)

    def is_shared(self) -> bool:
        return isinstance(self.engine, SharedEngine)

    def write_parts(self, folder: Path, generation: int) -> tuple[State, Digests]:
        assert isinstance(self.engine, SharedEngine)
        rest, parts = self.engine.write_parts(folder, generation)
        return rest | self._form(), parts

    def restore_parts(self, rest: State, folder: Path, parts: Digests, number: int) -> None:
        rest, chosen = _without_form(rest)
        if chosen is not None and self.chosen is None:
            self._switch_engine(chosen)
        assert isinstance(self.engine, SharedEngine)
        self.engine.restore_parts(rest, folder, parts)

    def _form(self) -> State:
        return {} if self.held_out is None else {_FORM: np.array(self.chosen or _NOT_CHOSEN)}


def _without_form(state: State) -> tuple[State, Form | None]:
    rest = dict(state)
    width, weight, regularization = map(float, rest.pop(_FORM, _NOT_CHOSEN))
    found = Form(int(width), weight, regularization)
    return rest, None if found == _NOT_CHOSEN else found
