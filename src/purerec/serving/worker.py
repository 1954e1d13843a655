"""One process that answers: an event loop, threads for the model, and a way to get another model.

Alone, it takes snapshots of the folder itself. Under a supervisor it gets them, already checked, over a socket; a
model is then prepared first and swapped in when all workers have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any

import uvicorn

from purerec.errors import PurerecError
from purerec.serving.app import Service, make_app
from purerec.serving.logs import Log
from purerec.serving.metrics import RELOAD_FAILED, RELOADED, Metrics
from purerec.serving.problems import Problem
from purerec.serving.protocol import BoundedProtocol, bounded
from purerec.serving.settings import Settings
from purerec.serving.state import Loaded, load, snapshot_model

_SWITCH_S = 0.0005
"""How long a thread may keep the interpreter while the event loop wants it; Python's 5 ms would be the p99."""


class Server(uvicorn.Server):
    """Stops at SIGTERM and Ctrl-C after what is in flight, swaps the model at SIGHUP, and looks after connections."""

    def __init__(self, service: Service, hang_up: Any) -> None:
        settings = service.settings
        super().__init__(
            uvicorn.Config(
                make_app(service),
                http=bounded(settings),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=int(settings.keep_alive_s),
                timeout_graceful_shutdown=int(settings.drain_s),
                backlog=1024,
            )
        )
        self._hang_up = hang_up

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        if self._hang_up is not None:
            loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        yield

    def stop(self) -> None:
        if self.should_exit:
            self.force_exit = True  # asked twice
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.look(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        looking = asyncio.create_task(self._look_on())
        try:
            await super().shutdown(sockets)
        finally:
            looking.cancel()

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            await self.on_tick(0)


def quiet_uvicorn(log: Log) -> None:
    """Its warnings and errors into our log, without traces and without what clients have sent."""

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
            if kind != "ConnectionAbortedError":
                log.write("server", level=record.levelname.lower(), detail=record.getMessage().strip(), kind=kind)

    logger = logging.getLogger("uvicorn")
    logger.handlers, logger.propagate = [Forward()], False
    logger.setLevel(logging.WARNING)


def settle() -> None:
    """What a process of the service sets once, after the model is loaded."""
    sys.setswitchinterval(_SWITCH_S)
    gc.collect()
    gc.freeze()  # the model is not walked through again and again


def serve_alone(folder: str, listener: socket.socket, settings: Settings, metrics_fd: int, ready: Any) -> None:
    """Serve a folder in this process until told to stop; `ready` is called when it can answer."""
    log = Log(0)
    quiet_uvicorn(log)
    reloading = asyncio.Lock()

    def read() -> Loaded:
        snapshot = snapshot_model(folder)
        try:
            return load(snapshot, folder)
        finally:
            snapshot.close()

    async def reload() -> dict[str, Any]:
        async with reloading:
            before = service.holder.current
            assert before is not None
            try:
                after = await asyncio.get_running_loop().run_in_executor(None, read)
            except PurerecError as error:
                service.metrics.add(RELOAD_FAILED)
                log.write("reload", result="refused", detail=str(error), model=before.version)
                raise refused(str(error), before.version) from None
            service.holder.swap(after)
            service.metrics.add(RELOADED)
            log.write("reload", result="done", model=after.version, previous=before.version)
            return {
                "model": after.version,
                "previous": before.version,
                "changed": after.version != before.version,
            }

    pending: set[asyncio.Task[None]] = set()

    async def reload_quietly() -> None:
        with contextlib.suppress(Problem):  # the log has it
            await reload()

    def hang_up() -> None:
        task = asyncio.get_running_loop().create_task(reload_quietly())
        pending.add(task)
        task.add_done_callback(pending.discard)

    service = Service(settings, Metrics(metrics_fd, 1, 0), log, reload)
    service.holder.swap(read())
    server = Server(service, hang_up)
    settle()

    async def run() -> None:
        announcing = asyncio.create_task(_announce(server, ready))
        await server.serve([listener])
        announcing.cancel()

    try:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(run())
    finally:
        log.write("stopped")
        log.close()


async def _announce(server: Server, ready: Any) -> None:
    while not server.started:
        await asyncio.sleep(0.002)
    ready()


def refused(why: str, version: str) -> Problem:
    return Problem(409, "reload-refused", f"{why}; model {version} goes on serving")
