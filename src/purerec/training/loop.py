"""How a fit is run: epochs, validation, early stopping, limits, checkpoints. No model maths.

A model provides a `Trainable`, which trains one epoch, returns its state as arrays and can be restored from it. The
loop here does the rest. A resumed run gives the same bits as one that was never stopped, because the state is
complete and every random draw depends on counters in it.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from purerec.errors import DivergedError, counted
from purerec.training.checkpoints import Checkpoints
from purerec.training.history import TIME_LIMIT, History, Record
from purerec.training.progress import log, progress
from purerec.training.run import Run, Trainable
from purerec.types import State

_EXPLODED = 1e6
"""Embeddings with norms beyond this have diverged."""


def run_epochs(
    trainable: Trainable,
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
    """Train for `epochs`, or until `patience` validations in a row bring no improvement.

    `identity` (model, settings, seed, data) is stored with checkpoints: only the same run can resume them. With
    patience, the weights of the best validation are restored at the end.
    """
    history, best, start = History(metric=metric), None, 0
    checkpoints = None if run.checkpoint is None else Checkpoints(run.checkpoint, identity, metric)
    if run.resume and checkpoints is not None and (found := checkpoints.resume(trainable)) is not None:
        start, history, best = found
    began = last_saved = time.perf_counter()
    bad_rounds = history.bad_rounds
    number = start - 1
    with (
        _interruptible(run) as interrupted,
        log(run, history.records) as write,
        progress(run, epochs, start, metric) as show,
    ):
        for number in range(start, epochs):
            measures = trainable.epoch(number)
            _check_diverged(Record.of(number, measures), remedy)
            if validate is not None and ((number + 1) % validate_every == 0 or number + 1 == epochs):
                measures[metric] = value = float(validate())
                if value > history.best_metric:
                    history.best_metric, history.best_epoch, bad_rounds = value, number, 0
                    best = _copy(trainable.state()) if patience is not None else None
                else:
                    bad_rounds += 1
            record = Record.of(number, measures, round(time.perf_counter() - began, 4))
            history.records.append(record)
            write(record)
            show(record)
            for callback in run.callbacks:
                callback(record)
            if interrupted() and checkpoints is not None:
                checkpoints.write(trainable, number + 1, history, best)
                raise KeyboardInterrupt(f"after epoch {number}; {checkpoints.how_to_resume()}")
            if patience is not None and bad_rounds >= patience:
                history.stopped = f"no better {metric} in {patience} validations"
                break
            if run.stop_after is not None and number + 1 >= run.stop_after:
                history.stopped = f"asked to stop after {counted(run.stop_after, 'epoch')}"
                break
            if run.time_limit_s is not None and time.perf_counter() - began >= run.time_limit_s:
                history.stopped = f"{TIME_LIMIT} of {run.time_limit_s:g} s"
                break
            due = (number + 1) % run.checkpoint_epochs == 0
            late = time.perf_counter() - last_saved > 60 * run.checkpoint_minutes
            if checkpoints is not None and (due or late):
                checkpoints.write(trainable, number + 1, history, best)
                last_saved = time.perf_counter()
    if best is not None and history.best_epoch is not None:
        trainable.restore(best, history.best_epoch + 1)
    return history


def _copy(state: State) -> State:
    return {name: np.array(array, copy=True) for name, array in state.items()}


def _check_diverged(record: Record, remedy: str) -> None:
    for name, value in record.values.items():
        if name == "loss" and not math.isfinite(value):
            raise DivergedError(f"epoch {record.epoch}: the {name} is {value}; {remedy}")
        if name.endswith("_norm") and name != "fake_norm" and not value < _EXPLODED:
            raise DivergedError(f"epoch {record.epoch}: the {name} is {value:.3g}; {remedy}")


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
        signal.signal(signal.SIGINT, before)  # a second one stops immediately

    signal.signal(signal.SIGINT, remember)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
