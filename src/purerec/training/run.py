"""The options of a fit, and the interface of what it trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from purerec.storage import Digests
from purerec.training.history import Measures, Record
from purerec.types import State

Callback = Callable[[Record], None]


@dataclass(frozen=True)
class Run:
    """Options of a fit. None changes what an epoch does; `time_limit_s` and `stop_after` limit how many there are."""

    progress: bool = False
    """Show a progress bar on standard error."""
    time_limit_s: float | None = None
    """Stop at the end of the epoch in which this is reached."""
    stop_after: int | None = None
    """Stop after this many epochs, but keep the schedule of all of them. For a refit after early stopping."""
    checkpoint: Path | None = None
    """Folder for checkpoints."""
    checkpoint_epochs: int = 10
    """Epochs between checkpoints."""
    checkpoint_minutes: float = 5.0
    """Also write one after this many minutes."""
    resume: bool = False
    """Continue from the checkpoint, if there is one."""
    log: Path | None = None
    """File for one JSON line per epoch."""
    tensorboard: Path | None = None
    """Folder for TensorBoard (extra `report`)."""
    callbacks: tuple[Callback, ...] = ()
    """Called with the record of each epoch."""


class Trainable(Protocol):
    """What `training.loop` trains."""

    def epoch(self, number: int) -> Measures:
        """Train epoch `number` (from 0)."""
        ...

    def state(self) -> State:
        """Everything that the next epoch depends on."""
        ...

    def restore(self, state: State, number: int) -> None:
        """Return to the state before epoch `number`."""
        ...


@runtime_checkable
class SharedTrainable(Protocol):
    """A `Trainable` whose state may be spread over several processes, each of which stores its own part."""

    def is_shared(self) -> bool:
        """Whether the state is spread over several processes."""
        ...

    def write_parts(self, folder: Path, generation: int) -> tuple[State, Digests]:
        """Have all processes write their parts; returns the rest of the state, and the digests of the parts."""
        ...

    def restore_parts(self, rest: State, folder: Path, parts: Digests, number: int) -> None:
        """Have all processes read their parts and return to the state before epoch `number`."""
        ...
