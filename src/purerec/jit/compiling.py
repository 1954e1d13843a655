"""The time spent compiling kernels, which happens once per machine and says nothing about a model."""

from __future__ import annotations

import time
from typing import Any

import numba.core.event

_event: Any = numba.core.event  # untyped


class _Clock(_event.Listener):  # type: ignore[misc]  # its base is Any: numba is untyped
    """Adds up compile times; a kernel compiled for another counts as part of that one."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._began = 0.0

    def on_start(self, event: Any) -> None:
        if not self._depth:
            self._began = time.perf_counter()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if not self._depth:
            self.seconds += time.perf_counter() - self._began

    def wait(self, seconds: float) -> None:
        """Add time spent waiting for another process to compile."""
        if not self._depth:
            self.seconds += seconds


COMPILING = _Clock()
"""Its `seconds` are the time this process has spent compiling so far, or waiting for others to compile."""
_event.register("numba:compile", COMPILING)
