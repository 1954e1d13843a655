"""Manages several workers: starts them, gives them the model, swaps it in all, replaces dead ones, and drains them.

The supervisor answers no requests. It checks a folder once and hands the tensors over as an open file, so that all
workers map the same memory. A swap has two steps: every worker prepares the new model, and they switch only when all
of them can use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from purerec.errors import StoreError
from purerec.serving.model.loaded_model import reload_answer, snapshot_model, version_of
from purerec.serving.process.channel import Channel, Message
from purerec.serving.process.logs import Log
from purerec.serving.process.metrics import RELOAD_REFUSED, RELOADED, Metrics
from purerec.serving.process.settings import Settings
from purerec.storage import Snapshot

_PATIENCE_S = 120.0
"""How long a worker may take to load a model."""
_LONGEST_PAUSE_S = 30.0
_SHORT_LIFE_S = 60.0
"""A worker that ends sooner than this may do so again: its replacement is delayed, longer each time."""


class WorkerLost(Exception):
    """A worker ended while an answer was expected from it."""


@dataclass(eq=False)
class Member:
    """A worker, as seen by the supervisor."""

    number: int
    process: asyncio.subprocess.Process
    channel: Channel
    began: float = field(default_factory=time.monotonic)
    expected: dict[str, asyncio.Future[Message]] = field(default_factory=dict)

    async def ask(self, message: Message, answer: str, file: int | None = None) -> Message:
        """Send a message and wait for the answer of that name."""
        wait = self.expect(answer)
        self.tell(message, file)
        return await asyncio.wait_for(wait, _PATIENCE_S)

    def expect(self, answer: str) -> asyncio.Future[Message]:
        return self.expected.setdefault(answer, asyncio.get_running_loop().create_future())

    def tell(self, message: Message, file: int | None = None) -> None:
        try:
            self.channel.send(message, file)
        except OSError:
            self.lost()

    def lost(self) -> None:
        for wait in self.expected.values():
            if not wait.done():
                wait.set_exception(WorkerLost(f"worker {self.number} ended unexpectedly"))
        self.expected.clear()


class Supervisor:
    """Serves a folder with several workers until told to stop."""

    def __init__(
        self,
        folder: str,
        listener: socket.socket,
        settings: Settings,
        counters: int,
        workers: int,
        ready: Callable[[], None],
    ) -> None:
        self._folder, self._listener, self._settings, self._ready = folder, listener, settings, ready
        self._counters, self._workers = counters, workers
        self._metrics = Metrics(counters, workers, workers)
        self._log = Log("supervisor")
        self._members: dict[int, Member] = {}
        self._snapshot: Snapshot | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._has_terminal = os.isatty(2)
        self._interrupted = False
        self._short_lives: Counter[int] = Counter()

    def run(self) -> None:
        try:
            asyncio.run(self._run())
            self._log.write("stopped")
        finally:
            self._log.close()
        if self._interrupted:
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        self._interrupted = True
        self._stopping.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._lock, self._stopping = asyncio.Lock(), asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        try:
            # Workers take a while to import what they need: read the folder in the meantime.
            reading = loop.run_in_executor(None, snapshot_model, self._folder)
            members = [await self._start(number) for number in range(self._workers)]
            self._snapshot = await reading
            gc.enable()
            loading = asyncio.gather(*(self._settle(member) for member in members))
            stopped = asyncio.create_task(self._stopping.wait())
            either: list[asyncio.Future[Any]] = [loading, stopped]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if loading.done():
                loading.result()
                self._ready()
                await stopped
            else:
                loading.cancel()
                await asyncio.gather(loading, return_exceptions=True)
        except (WorkerLost, TimeoutError) as error:
            raise StoreError(f"{self._folder} cannot be served: {error or 'a worker takes too long'}") from None
        finally:
            self._stopping.set()
            await self._drain()

    # ------------------------------------------------------------------ workers

    async def _start(self, number: int) -> Member:
        ours, theirs = socket.socketpair()
        passed = (theirs.fileno(), self._listener.fileno(), self._counters)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *(
                    "-P",
                    "-m",
                    "purerec.serving.process.worker_process",
                    *map(str, passed),
                    str(number),
                    str(self._workers),
                ),
                pass_fds=passed,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the supervisor, which then drains them
            )
        finally:
            theirs.close()
        member = Member(number, process, Channel(ours))
        self._members[number] = member
        member.tell({"settings": self._settings.to_json()})
        loop = asyncio.get_running_loop()

        def listen() -> None:
            for message, _ in member.channel.receive():
                loop.call_soon_threadsafe(self._heard, member, message)

        threading.Thread(target=listen, name=f"worker {number}", daemon=True).start()
        self._begin(self._watch(member))
        return member

    async def _settle(self, member: Member) -> None:
        """Give a new worker the current model and wait until it answers requests."""
        assert self._snapshot is not None
        await self._prepare(member, self._snapshot)
        serving = member.expect("serving")
        await member.ask({"op": "commit"}, "committed")
        await asyncio.wait_for(serving, _PATIENCE_S)

    async def _prepare(self, member: Member, snapshot: Snapshot) -> None:
        message = {"op": "prepare", "manifest": snapshot.manifest, "where": self._folder}
        error = (await member.ask(message, "prepared", snapshot.fd))["error"]
        if error is not None:
            raise StoreError(error)

    async def _watch(self, member: Member) -> None:
        """Replace a worker that ends unexpectedly."""
        code = await member.process.wait()
        member.lost()
        member.channel.close()
        if self._members.get(member.number) is member:
            del self._members[member.number]
        if self._stopping.is_set() or self._snapshot is None:
            return
        self._log.write("worker ended", number=member.number, code=code)
        lived = time.monotonic() - member.began
        in_a_row = self._short_lives[member.number] + 1 if lived < _SHORT_LIFE_S else 0
        self._short_lives[member.number] = in_a_row
        await asyncio.sleep(_pause(in_a_row))
        async with self._lock:  # not during a swap: it would miss the new model
            if not self._stopping.is_set():
                await self._replace(member.number)

    async def _replace(self, number: int) -> None:
        began = time.monotonic()
        try:
            member = await self._start(number)
        except OSError as error:
            self._log.write("worker not replaced", number=number, detail=str(error))
            return
        try:
            await self._settle(member)
            self._log.write("worker replaced", number=number, seconds=round(time.monotonic() - began, 2))
        except Exception as error:
            self._log.write("worker not replaced", number=number, detail=str(error) or type(error).__name__)
            _signal(member.process, signal.SIGKILL)  # its watcher tries again

    def _heard(self, member: Member, message: Message) -> None:
        if message["op"] == "reload":
            self._begin(self._reload_for(member, message["request"]))
        else:
            wait = member.expected.pop(message["op"], None)
            if wait is not None and not wait.done():
                wait.set_result(message)

    # ------------------------------------------------------------------ swapping

    async def _reload_for(self, member: Member, request: int) -> None:
        answer: Message = {"op": "reloaded", "request": request, "error": None}
        try:
            answer["answer"] = await self._reload()
        except Exception as error:  # the caller is waiting
            answer |= {"error": str(error) or type(error).__name__, "model": self._version()}
        member.tell(answer)

    async def _reload(self) -> dict[str, Any]:
        async with self._lock:
            before = self._version()
            members = list(self._members.values())
            try:
                fresh = await asyncio.get_running_loop().run_in_executor(None, snapshot_model, self._folder)
                try:
                    after = version_of(fresh.manifest)
                    await self._prepare_all(members, fresh)
                except BaseException:
                    fresh.close()
                    raise
            except Exception as error:
                self._metrics.add(RELOAD_REFUSED)
                self._log.write("reload", result="refused", detail=str(error), model=before)
                raise
            await asyncio.gather(*(m.ask({"op": "commit"}, "committed") for m in members), return_exceptions=True)
            old, self._snapshot = self._snapshot, fresh
            if old is not None:
                old.close()
            self._metrics.add(RELOADED)
            self._log.write("reload", result="done", model=after, previous=before)
            return reload_answer(before, after)

    async def _prepare_all(self, members: list[Member], snapshot: Snapshot) -> None:
        found = await asyncio.gather(*(self._prepare(m, snapshot) for m in members), return_exceptions=True)
        wrong = [error for error in found if isinstance(error, BaseException)]
        if wrong:
            for member in members:
                member.tell({"op": "drop"})
            raise StoreError(str(wrong[0]) or "a worker takes too long to load the new model")

    def _version(self) -> str:
        assert self._snapshot is not None
        return version_of(self._snapshot.manifest)

    def _on_hangup(self) -> None:
        if self._has_terminal and not os.isatty(2):
            self._stopping.set()  # the terminal was closed
        elif self._snapshot is not None:
            self._begin(self._reload_quietly())

    async def _reload_quietly(self) -> None:
        with contextlib.suppress(Exception):  # already logged
            await self._reload()

    # ------------------------------------------------------------------ stopping

    async def _drain(self) -> None:
        self._listener.close()  # otherwise connections would still be accepted and never answered
        members = list(self._members.values())
        for member in members:
            _signal(member.process, signal.SIGTERM)
        ends = [asyncio.create_task(member.process.wait()) for member in members]
        if ends:
            await asyncio.wait(ends, timeout=self._settings.drain_s + 5)
        for member in members:
            if member.process.returncode is None:
                _signal(member.process, signal.SIGKILL)
                await member.process.wait()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _pause(short_lives: int) -> float:
    """Seconds before a worker is replaced: none the first time, then increasing if workers keep dying."""
    return 0.0 if short_lives <= 1 else min(_LONGEST_PAUSE_S, 0.25 * 2.0 ** (short_lives - 1))


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
