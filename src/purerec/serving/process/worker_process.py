"""A worker under a supervisor, which sends it checked snapshots and tells all workers when to swap.

Started with `python -m` and inherited descriptors; its command line contains no secrets.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import socket
import sys
import threading
from typing import Any

from purerec.errors import PurerecError
from purerec.serving.http.app import Service
from purerec.serving.http.problems import reload_refused
from purerec.serving.model.loaded_model import Loaded, load
from purerec.serving.process.channel import Channel, Message
from purerec.serving.process.logs import Log
from purerec.serving.process.metrics import Metrics
from purerec.serving.process.server import Server, once_started, run
from purerec.serving.process.settings import Settings
from purerec.storage import Snapshot


class Worker:
    """One process of several."""

    def __init__(self, channel: Channel, counters: int, number: int, workers: int) -> None:
        self._channel = channel
        self._messages = channel.receive()
        first, _ = next(self._messages)
        self.log = Log(number)
        self._service = Service(
            Settings.from_json(first["settings"]), Metrics(counters, workers, number), self.log, self._reload
        )
        self._prepared: Loaded | None = None
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, listener: socket.socket) -> None:
        """Load, then serve until told to stop or until the supervisor is gone."""
        while self._service.holder.current is None:
            found = next(self._messages, None)
            if found is None:
                return
            self._handle(*found)
        server = Server(self._service, lambda: None)  # SIGHUP is for the supervisor

        def listen() -> None:
            try:
                for message, file in self._messages:
                    self._handle(message, file)
            finally:  # the supervisor is gone, or its message is invalid: it starts another worker
                assert self._loop is not None
                self._loop.call_soon_threadsafe(server.stop)

        async def start() -> None:
            self._loop = asyncio.get_running_loop()
            threading.Thread(target=listen, name="supervisor", daemon=True).start()
            await once_started(server, lambda: self._channel.send({"op": "serving"}))

        run(server, listener, self.log, start)

    def _handle(self, message: Message, file: int | None) -> None:
        """Handle a message from the supervisor. Not in the event loop: preparing a model takes time."""
        if message["op"] == "prepare":
            assert file is not None
            snapshot, why = Snapshot(message["manifest"], file), None
            try:
                self._prepared = load(snapshot, message["where"])
            except PurerecError as error:
                why = str(error)
            snapshot.close()
            self._channel.send({"op": "prepared", "error": why})
        elif message["op"] == "commit":
            if self._prepared is not None:
                self._service.holder.swap(self._prepared)
            self._prepared = None
            self._channel.send({"op": "committed"})
        elif message["op"] == "drop":
            self._prepared = None
        elif message["op"] == "reloaded" and self._loop is not None:
            self._loop.call_soon_threadsafe(self._reloaded, message)

    async def _reload(self) -> dict[str, Any]:
        """Have the supervisor reload for all workers."""
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            self._channel.send({"op": "reload", "request": number})
            return await future
        finally:
            del self._asked[number]

    def _reloaded(self, message: Message) -> None:
        future = self._asked.get(message["request"])
        if future is None or future.done():
            return
        if message["error"] is None:
            future.set_result(message["answer"])
        else:
            future.set_exception(reload_refused(message["error"], message["model"]))


def main() -> None:
    gc.disable()  # until it serves
    control, listener, counters, number, workers = map(int, sys.argv[1:])
    channel = Channel(socket.socket(fileno=control))
    worker = Worker(channel, counters, number, workers)
    os.close(counters)
    worker.run(socket.socket(fileno=listener))


if __name__ == "__main__":
    main()
