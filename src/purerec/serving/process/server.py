"""One serving process: uvicorn with our signals, limits and log. Used by `single_process` and `worker_process`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import uvicorn

from purerec.serving.http.app import Service, make_app
from purerec.serving.http.protocol import BoundedProtocol, bounded
from purerec.serving.process.logs import Log

_SWITCH_S = 0.0005
"""How long a thread may hold the GIL while the event loop waits for it; Python's 5 ms would be the p99."""


class Server(uvicorn.Server):
    """Finishes requests in flight on SIGTERM and Ctrl-C, and supervises connections."""

    def __init__(self, service: Service, on_hangup: Callable[[], None] | None) -> None:
        settings = service.settings
        self._service = service
        self._gate = make_app(service)
        self.interrupted = False
        """True if it was stopped by Ctrl-C."""
        super().__init__(
            uvicorn.Config(
                self._gate,
                http=bounded(settings, self._refused),
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
        self._on_hangup = on_hangup

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        if self._on_hangup is not None:
            loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        yield

    def stop(self) -> None:
        if self.should_exit:
            self.force_exit = True  # requested twice
        self.should_exit = True

    def _interrupt(self) -> None:
        self.interrupted = True
        self.stop()

    def _refused(self, status: int) -> None:
        self._service.metrics.observe("unparsed", status, 0.0)
        if self._service.settings.access_log != "off":
            self._service.log.request("", "unparsed", None, status, 0.0, 0)

    async def on_tick(self, counter: int) -> bool:
        self._gate.look()
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
            await asyncio.sleep(0.1)
            await self.on_tick(0)  # connections have little time left now


def quiet_uvicorn(log: Log) -> None:
    """Route its warnings and errors to our log, without tracebacks or anything sent by clients."""

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
            if kind != "ConnectionAbortedError":
                log.write("server", level=record.levelname.lower(), detail=record.getMessage().strip(), kind=kind)

    logger = logging.getLogger("uvicorn")
    logger.handlers, logger.propagate = [Forward()], False
    logger.setLevel(logging.WARNING)


def run(server: Server, listener: socket.socket, log: Log, *beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Serve until told to stop; `beside` are coroutines that run as long as the server does."""
    quiet_uvicorn(log)
    sys.setswitchinterval(_SWITCH_S)
    # Objects that exist by now stay: collecting them again and again would cause the longest pauses.
    gc.freeze()
    gc.enable()

    async def serve() -> None:
        tasks = [asyncio.create_task(make()) for make in beside]
        await server.serve([listener])
        for task in tasks:
            task.cancel()

    try:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(serve())
    finally:
        log.write("stopped")
        log.close()


async def once_started(server: Server, then: Callable[[], None]) -> None:
    """Call `then` when connections are accepted."""
    while not server.started:
        await asyncio.sleep(0.002)
    then()
