"""What a fit may do besides learning, and what it has to tell afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from purerec.types import State

Record = dict[str, Any]
Callback = Callable[[Record], None]


@dataclass(frozen=True)
class Run:
    """What a fit may do besides learning. The result depends on none of it, except on the two limits."""

    progress: bool = False
    """Show a progress bar on standard error."""
    time_limit_s: float | None = None
    """Stop after the epoch in which this is reached."""
    stop_after: int | None = None
    """Stop after so many epochs, though the schedule is made for all: for a refit with what validation found."""
    checkpoint: Path | None = None
    """Folder for checkpoints."""
    checkpoint_epochs: int = 10
    """Write one every so many epochs."""
    checkpoint_minutes: float = 5.0
    """Write one also when this has passed since the last."""
    resume: bool = False
    """Go on from the checkpoint, if there is one."""
    log: Path | None = None
    """File for one JSON line per epoch."""
    tensorboard: Path | None = None
    """Folder for TensorBoard (extra `report`)."""
    callbacks: tuple[Callback, ...] = ()
    """Called with the record of each epoch."""


class Game(Protocol):
    """What a model hands over to be trained."""

    def epoch(self, number: int) -> Record:
        """Train epoch `number` (from 0) and tell about it: loss, norms, whatever is worth a curve."""
        ...

    def state(self) -> State:
        """Everything that the next epoch depends on."""
        ...

    def restore(self, state: State, number: int) -> None:
        """Back to the state before epoch `number`."""
        ...


@dataclass
class History:
    """One record per epoch, and which epoch was the best."""

    records: list[Record] = field(default_factory=list)
    best_epoch: int | None = None
    best_metric: float = -math.inf
    stopped: str = "all epochs done"

    def curve(self, name: str) -> list[tuple[int, float]]:
        """(epoch, value) of one quantity, where it was recorded and finite."""
        found = [(r["epoch"], r[name]) for r in self.records if r.get(name) is not None]
        return [(epoch, float(value)) for epoch, value in found if math.isfinite(float(value))]

    def thinned(self, most: int = 200) -> list[Record]:
        """Finite values of about so many epochs, evenly spread up to the last: enough to draw curves from."""
        step = max(1, -(-len(self.records) // most))
        kept = self.records[::-1][::step][::-1]
        return [
            {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in record.items()}
            for record in ({n: v for n, v in r.items() if n != "seconds" and _is_finite(v)} for r in kept)
        ]


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
