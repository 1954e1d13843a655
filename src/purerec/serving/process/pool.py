"""Threads for the model, so that the event loop never waits for it; very short work runs in the loop itself.

Passing work to a thread and back costs a few tenths of a millisecond when the service is busy, mostly waiting for the
GIL. A list for one person takes less on a catalogue of typical size. So small requests are timed by kind, and a kind
that takes less time than the event loop's own work on a request is answered immediately.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_BRIEF_S = 0.0003
_UNKNOWN_S = 1.0
_MEMORY = 0.1
"""Weight of the latest time in the running average."""


class Pool:
    """Runs functions, in threads unless they are known to be fast."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="model")
        self._typical_s: dict[str, float] = {}

    async def run(self, kind: str | None, function: Callable[[], T]) -> T:
        """The result of the function. `kind` is the same for requests of about equal size; None: it may take long."""
        if kind is not None and self._typical_s.get(kind, _UNKNOWN_S) < _BRIEF_S:
            return self._timed(kind, function)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._timed, kind, function)

    def _timed(self, kind: str | None, function: Callable[[], T]) -> T:
        start = time.thread_time()  # thread time: waiting for others does not count
        result = function()
        if kind is not None:
            taken = time.thread_time() - start
            typical = self._typical_s.get(kind, taken)
            self._typical_s[kind] = typical + _MEMORY * (taken - typical)
        return result
