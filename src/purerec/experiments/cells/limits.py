"""A time limit for one model of a comparison.

A model fitted in epochs stops at the end of an epoch. Any other is interrupted by a timer, if there is one (not on
Windows, and only in the main thread). Neither can interrupt a single call into compiled code, such as EASE's inverse
or ranking for all people: the model is stopped when that call returns.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from purerec.errors import PurerecError
from purerec.training.history import Record
from purerec.training.run import Callback


class OverdueError(PurerecError):
    """A model exceeded its time limit."""


def duration(seconds: float) -> str:
    """'0.4 s', '12 s', '3 min 20 s', '2 h 5 min'."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


@contextmanager
def at_most(seconds: float | None, epochs: int | None) -> Iterator[Callback]:
    """Raise `OverdueError` in the block once it has taken this long.

    `epochs`: the number of epochs, for models that have them; call the yielded callback with each record.
    """
    if seconds is None:
        yield lambda record: None
        return
    began = time.monotonic()

    def check(record: Record) -> None:
        if time.monotonic() - began >= seconds and record.epoch + 1 < (epochs or 0):
            raise OverdueError(
                f"stopped after epoch {record.epoch + 1} of {epochs}: the limit is {duration(seconds)}"
            )

    def interrupt(signum: int, frame: Any) -> None:
        raise OverdueError(f"stopped: the limit is {duration(seconds)}")

    is_main = threading.current_thread() is threading.main_thread()
    if epochs is not None or not is_main or not hasattr(signal, "setitimer"):
        yield check
        return
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield check
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
