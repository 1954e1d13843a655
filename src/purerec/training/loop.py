"""How a fit is run: epochs, validation, early stopping, limits, checkpoints. No model maths.

A model hands over a `Game`: something that can train one epoch, tell its state as arrays and take it back. The
loop here does the rest. A resumed run ends in the same bits as one that was never stopped, because the state is
complete and every random draw depends on counters in it.
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from purerec import storage
from purerec.errors import DivergedError, StoreError
from purerec.training.progress import log, progress

State = dict[str, npt.NDArray[Any]]
Record = dict[str, Any]
Callback = Callable[[Record], None]

CHECKPOINT = "checkpoint"
"""The kind of folder that checkpoints are in"""
_EXPLODED = 1e6
"""Norms beyond this are no embeddings any more."""


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


def train(
    game: Game,
    *,
    epochs: int,
    run: Run,
    identity: Mapping[str, Any],
    validate: Callable[[], float] | None = None,
    metric: str = "P@5",
    validate_every: int = 5,
    patience: int | None = None,
    remedy: str = "lower learning_rate",
) -> History:
    """Train for `epochs`, or until validation has not improved for `patience` evaluations of it.

    `identity` (model, settings, seed, data) is kept with checkpoints: they can only be resumed by the same run.
    With patience, the weights of the best validation come back at the end.
    """
    history, best, start = History(), None, 0
    checkpoints = _Checkpoints(run, identity)
    if run.resume and run.checkpoint is not None:
        found = checkpoints.read(game)
        if found is not None:
            start, history, state, best = found
            game.restore(state, start)
    began = last_saved = time.perf_counter()
    bad_rounds = _rounds_since_best(history)
    number = start - 1
    with (
        _interruptible(run) as interrupted,
        log(run, history.records) as write,
        progress(run, epochs, start, metric) as show,
    ):
        for number in range(start, epochs):
            record = {"epoch": number, **game.epoch(number)}
            _check_diverged(record, remedy)
            if validate is not None and ((number + 1) % validate_every == 0 or number + 1 == epochs):
                record[metric] = value = float(validate())
                if value > history.best_metric:
                    history.best_metric, history.best_epoch, bad_rounds = value, number, 0
                    best = _copy(game.state()) if patience is not None else None
                else:
                    bad_rounds += 1
            record["seconds"] = round(time.perf_counter() - began, 4)
            history.records.append(record)
            write(record)
            show(record)
            for callback in run.callbacks:
                callback(record)
            if interrupted():
                checkpoints.write(game, number + 1, history, best)
                raise KeyboardInterrupt(f"after epoch {number}; {checkpoints.how_to_resume()}")
            if patience is not None and bad_rounds >= patience:
                history.stopped = f"no better {metric} in {patience} validations"
                break
            if run.stop_after is not None and number + 1 >= run.stop_after:
                history.stopped = f"asked to stop after {run.stop_after} epochs"
                break
            if run.time_limit_s is not None and time.perf_counter() - began >= run.time_limit_s:
                history.stopped = f"time limit of {run.time_limit_s:g} s"
                break
            due = (number + 1) % run.checkpoint_epochs == 0
            if due or time.perf_counter() - last_saved > 60 * run.checkpoint_minutes:
                checkpoints.write(game, number + 1, history, best)
                last_saved = time.perf_counter()
    if best is not None and history.best_epoch is not None:
        game.restore(best, history.best_epoch + 1)
    return history


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _rounds_since_best(history: History) -> int:
    if history.best_epoch is None:
        return 0
    measured = [r["epoch"] for r in history.records if any("@" in key or key in ("MAP", "MRR") for key in r)]
    return sum(epoch > history.best_epoch for epoch in measured)


def _copy(state: State) -> State:
    return {name: np.array(array, copy=True) for name, array in state.items()}


def _check_diverged(record: Record, remedy: str) -> None:
    for name, value in record.items():
        if name == "loss" and not math.isfinite(value):
            raise DivergedError(f"epoch {record['epoch']}: the {name} is {value}; {remedy}")
        if name.endswith("_norm") and name != "fake_norm" and not value < _EXPLODED:
            raise DivergedError(f"epoch {record['epoch']}: the {name} is {value:.3g}; {remedy}")


# ---------------------------------------------------------------------- checkpoints


class _OfAnotherRun(StoreError):
    """A checkpoint that is whole, but not of this run."""


class _Checkpoints:
    def __init__(self, run: Run, identity: Mapping[str, Any]) -> None:
        self.folder = run.checkpoint
        self.identity = json.loads(json.dumps(identity))

    def write(self, game: Game, number: int, history: History, best: State | None, *, done: bool = False) -> None:
        if self.folder is None:
            return
        tensors = {f"now.{name}": array for name, array in game.state().items()}
        tensors |= {f"best.{name}": array for name, array in (best or {}).items()}
        manifest = {
            "identity": self.identity,
            "next_epoch": number,
            "records": history.records,
            "best_epoch": history.best_epoch,
            "best_metric": history.best_metric if history.best_epoch is not None else None,
            "stopped": history.stopped,
        }
        storage.write_folder(self.folder, kind=CHECKPOINT, manifest=manifest, tensors=tensors)

    def read(self, game: Game) -> tuple[int, History, State, State | None] | None:
        assert self.folder is not None
        if storage.check_target(self.folder, kind=CHECKPOINT) is None:
            return None
        stored = storage.read_folder(self.folder, kind=CHECKPOINT)
        try:
            self._check_identity(stored.manifest["identity"])
            return self._restored(stored, game)
        except _OfAnotherRun:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, StoreError) as error:
            raise StoreError(f"{self.folder} makes no sense ({error}); fit again without --resume") from None

    def _check_identity(self, found: Mapping[str, Any]) -> None:
        for name, value in self.identity.items():
            before = found.get(name)
            if before != value:
                raise _OfAnotherRun(
                    f"{self.folder}: the checkpoint is of another run ({name} was {_brief(before)}, now "
                    f"{_brief(value)}); resume with the same settings, or remove it"
                )

    def _restored(self, stored: storage.Stored, game: Game) -> tuple[int, History, State, State | None]:
        facts, records = stored.manifest, list(stored.manifest["records"])
        if [record["epoch"] for record in records] != list(range(facts["next_epoch"])):
            raise ValueError("its records are not those of the epochs before")
        history = History(records, facts["best_epoch"], stopped=str(facts["stopped"]))
        if history.best_epoch is not None:
            if history.best_epoch not in range(len(records)):
                raise ValueError(f"its best epoch is {history.best_epoch!r}")
            history.best_metric = float(facts["best_metric"])
        now = {n.removeprefix("now."): a for n, a in stored.tensors.items() if n.startswith("now.")}
        best = {n.removeprefix("best."): a for n, a in stored.tensors.items() if n.startswith("best.")}
        expected = {name: storage.Part(array.shape, array.dtype.type) for name, array in game.state().items()}
        for state in (now, best) if best else (now,):
            storage.check_layout(state, expected, {})
        return facts["next_epoch"], history, now, best or None

    def how_to_resume(self) -> str:
        return f"saved in {self.folder}: the same command with --resume goes on from there"


@contextmanager
def _interruptible(run: Run) -> Iterator[Callable[[], bool]]:
    """With checkpoints, the first Ctrl-C waits for the end of the epoch, so that its work can be saved."""
    if run.checkpoint is None or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def remember(signum: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)  # a second one stops at once

    signal.signal(signal.SIGINT, remember)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
