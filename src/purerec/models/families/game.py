"""One fit of a discriminator: its model, its engine and the pairs it is trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.closed_form import ItemWeights
from purerec.engines.pure.registry import new_engine
from purerec.engines.pure.spec import Engine, GameSettings, Params, SharedEngine
from purerec.engines.source import MemorySource
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
    """The discriminator (and generators) of one fit, as `training` expects them."""

    chosen: Form | None = None
    """The form of the score, once it is chosen"""
    item_weights: tuple[float, ItemWeights] | None = None
    """Of PURE: the L2 and the weights between items, once they are needed; not yet scaled"""

    def __init__(
        self, model: DiscriminatorModel, positives: Csr, settings: GameSettings, seed: int, start: Params | None
    ) -> None:
        self.model, self.positives, self.settings, self.seed = model, positives, settings, seed
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

    def epoch(self, number: int) -> Measures:
        record = self.model.train_epoch(self, number)
        return record | {"learning_rate": self.model.learning_rate(number), **self.engine.norms()}

    def parameters(self) -> Params:
        """The parameters so far, including the buffers of a custom scorer (running means, say)."""
        params = self.engine.parameters()
        if self.model.scorer_module is not None:
            params |= {n: a for n, a in self.engine.state().items() if n.endswith("/buffer")}  # type: ignore[misc]  # float32 all
        return params

    def is_shared(self) -> bool:
        return isinstance(self.engine, SharedEngine)

    def write_parts(self, folder: Path, generation: int) -> tuple[State, Digests]:
        assert isinstance(self.engine, SharedEngine)
        return self.engine.write_parts(folder, generation)

    def restore_parts(self, rest: State, folder: Path, parts: Digests, number: int) -> None:
        assert isinstance(self.engine, SharedEngine)
        self.engine.restore_parts(rest, folder, parts)

    def state(self) -> State:
        return self.engine.state()

    def restore(self, state: State, number: int) -> None:
        self.engine.restore(state)


class HeldOutGame(DiscriminatorGame):
    """A game whose first epochs leave some pairs out, by which the form of the score is then chosen."""

    def __init__(
        self, model: DiscriminatorModel, positives: Csr, settings: GameSettings, seed: int, kept: Csr, held_out: Csr
    ) -> None:
        """`kept` and `held_out` together are the positives."""
        self._all, self._held_out = positives, held_out
        super().__init__(model, kept, settings, seed, None)

    def held_out(self) -> HeldOutPairs:
        """The pairs that were held out of the epochs so far."""
        return HeldOutPairs(self.positives, self._held_out)

    def epoch(self, number: int) -> Measures:
        if self.chosen is None and number >= self.model.choosing_epoch():
            self.train_on_all(self.model.choose_form(self))
        return super().epoch(number)

    def train_on_all(self, chosen: Form) -> None:
        """Train on all pairs from now on, for this form of the score."""
        state = self.engine.state()
        self._switch_engine(chosen)
        self.engine.restore(state)

    def _switch_engine(self, chosen: Form) -> None:
        """Switch to an engine for all pairs, at its random start."""
        self.positives, self.chosen = self._all, chosen
        self.engine = self.new_engine(None, self.seed)

    def state(self) -> State:
        return super().state() | self._form()

    def _form(self) -> State:
        return {_FORM: np.array(self.chosen or _NOT_CHOSEN)}

    def write_parts(self, folder: Path, generation: int) -> tuple[State, Digests]:
        rest, parts = super().write_parts(folder, generation)
        return rest | self._form(), parts

    def restore_parts(self, rest: State, folder: Path, parts: Digests, number: int) -> None:
        chosen = _form_in(rest)
        if chosen is not None and self.chosen is None:
            self._switch_engine(chosen)
        super().restore_parts({name: array for name, array in rest.items() if name != _FORM}, folder, parts, number)

    def restore(self, state: State, number: int) -> None:
        super().restore({name: array for name, array in state.items() if name != _FORM}, number)
        chosen = _form_in(state)
        if chosen is not None and self.chosen is None:
            self.train_on_all(chosen)


def _form_in(state: State) -> Form | None:
    width, weight, regularization = map(float, state[_FORM])
    found = Form(int(width), weight, regularization)
    return None if found == _NOT_CHOSEN else found
