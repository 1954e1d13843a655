"""Threads for the model, to which work is handed in turns rather than piece by piece.

Waking a thread and telling the event loop that it is done cost about as much as a list. So a thread takes all that
has come since it last looked (up to a bound), and the loop is told once. One request alone is answered as soon as it
would be otherwise; many at once are answered with a fraction of the switches.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_Done = list[tuple["asyncio.Future[object]", object, BaseException | None]]

_TURN = 8
_TURN_S = 0.002
"""A turn ends after so many pieces or so long: nobody waits for another's answer for longer."""


class Pool:
    """Runs functions in threads, for one event loop."""

    def __init__(self, threads: int) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], object], asyncio.Future[object]]] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        for number in range(threads):
            threading.Thread(target=self._run, name=f"model {number}", daemon=True).start()

    async def run(self, function: Callable[[], T]) -> T:
        """What the function gives; if the caller stops waiting, work that was not begun is left out."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = self._loop.create_future()
        self._work.put((function, future))  # type: ignore[arg-type]
        return await future

    def _run(self) -> None:
        while True:
            function, future = self._work.get()
            began = time.perf_counter()
            done: _Done = []
            while True:
                if not future.cancelled():
                    try:
                        done.append((future, function(), None))
                    except BaseException as error:
                        done.append((future, None, error))
                if len(done) == _TURN or time.perf_counter() - began > _TURN_S:
                    break
                try:
                    function, future = self._work.get_nowait()
                except queue.Empty:
                    break
            assert self._loop is not None
            try:
                self._loop.call_soon_threadsafe(_deliver, done)
            except RuntimeError:
                return  # the loop is closed: the process ends


def _deliver(done: _Done) -> None:
    for future, result, error in done:
        if future.done():
            continue  # nobody waits any more
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
