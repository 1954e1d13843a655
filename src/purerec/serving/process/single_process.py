"""A service in a single process, which takes snapshots of the folder itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

from purerec.errors import PurerecError
from purerec.serving.http.app import Service
from purerec.serving.http.problems import Problem, reload_refused
from purerec.serving.model.loaded_model import Loaded, load, reload_answer, snapshot_model
from purerec.serving.process.logs import Log
from purerec.serving.process.metrics import RELOAD_REFUSED, RELOADED, Metrics
from purerec.serving.process.server import Server, once_started, run
from purerec.serving.process.settings import Settings


def serve_alone(
    folder: str, listener: socket.socket, settings: Settings, counters: int, ready: Callable[[], None]
) -> None:
    """Serve a folder until told to stop; `ready` is called when it can answer."""
    log = Log(0)
    service = Service(settings, Metrics(counters, 1, 0), log, lambda: reloader.reload())
    reloader = Reloader(folder, service)
    service.holder.swap(reloader.read())
    has_terminal = os.isatty(2)

    def on_hangup() -> None:
        if has_terminal and not os.isatty(2):
            server.stop()  # the terminal was closed: nothing else would stop the service
        else:
            reloader.start()

    server = Server(service, on_hangup)
    run(server, listener, log, lambda: once_started(server, ready))
    if server.interrupted:
        raise KeyboardInterrupt


class Reloader:
    """Swaps in the current content of the folder, one swap at a time."""

    def __init__(self, folder: str, service: Service) -> None:
        self._folder, self._service = folder, service
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def read(self) -> Loaded:
        snapshot = snapshot_model(self._folder)
        try:
            return load(snapshot, self._folder)
        finally:
            snapshot.close()

    async def reload(self) -> dict[str, Any]:
        service = self._service
        async with self._lock:
            before = service.holder.current
            assert before is not None
            try:
                after = await asyncio.get_running_loop().run_in_executor(None, self.read)
            except PurerecError as error:
                service.metrics.add(RELOAD_REFUSED)
                service.log.write("reload", result="refused", detail=str(error), model=before.version)
                raise reload_refused(str(error), before.version) from None
            service.holder.swap(after)
            service.metrics.add(RELOADED)
            service.log.write("reload", result="done", model=after.version, previous=before.version)
            return reload_answer(before.version, after.version)

    def start(self) -> None:
        """Reload in the background."""

        async def quietly() -> None:
            with contextlib.suppress(Problem):  # already logged
                await self.reload()

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
