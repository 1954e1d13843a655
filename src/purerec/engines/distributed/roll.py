"""The workers of a group, for messages: which one was lost, and whether it could still report why.

Only workers on the same machine can be inspected. Of others, it is only known that one of them is gone, and what it
reported before.
"""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from purerec.engines.distributed.group import Group

_LONGEST = 200
_LOOKS, _BETWEEN_S = 10, 0.01
"""A process closes its connections shortly before it exits, and torchrun ends the others shortly afterwards"""
_GONE = ("Z", "X", "x")
"""States of a process that has ended"""
_TOLD, _NOTICED = "told", "noticed"
_KILLED = (
    "was killed, perhaps for lack of memory; use fewer workers, a lower dim, or machines with more memory; the fit "
    "continues from its last checkpoint when the workers are restarted, or with --resume"
)


@dataclass(frozen=True)
class Peer:
    """One process."""

    rank: int
    host: str
    pid: int

    def __str__(self) -> str:
        return f"worker {self.rank} on {self.host}"

    def has_ended(self) -> bool:
        """Return whether it is gone; only called on its own machine."""
        try:
            os.kill(self.pid, 0)
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except ProcessLookupError:
            return True
        except OSError:  # no /proc, or not ours
            return False
        return state in _GONE


class Roll:
    """All workers, as known to each of them."""

    def __init__(self, workers: list[Peer], rank: int, store: Any) -> None:
        """`store`: where workers read what others have set. It is on the first worker's machine and only used there:
        over a broken link, it would not respond."""
        self.own, self._store = workers[rank], store
        self._neighbours = [worker for worker in workers if worker.host == self.own.host and worker != self.own]
        self._is_with_first = self.own.host == workers[0].host

    @classmethod
    def call(cls, group: Group) -> Roll:
        """All workers must call this together."""
        from torch.distributed.distributed_c10d import _get_default_store

        said = [line.partition(" ") for line in group.said(f"{os.getpid()} {platform.node()}", _LONGEST)]
        return cls(
            [Peer(rank, host, int(pid)) for rank, (pid, _, host) in enumerate(said)],
            group.rank,
            _get_default_store(),
        )

    def tell(self) -> None:
        """Record that this worker reports why it ends, so that others need not."""
        self._mark(_TOLD)

    def loss(self, noticed: str) -> str | None:
        """The message about another worker that was lost; None if another worker on this machine reports it."""
        is_lowest = all(worker.rank > self.own.rank for worker in self._neighbours)
        if not self._is_with_first:
            return noticed if is_lowest else None
        self._mark(_NOTICED)
        ended = self._ended()
        if any(worker.rank < self.own.rank for worker in self._neighbours if worker not in ended):
            return None
        marks = {worker: self._mark_of(worker) for worker in self._neighbours}
        if _TOLD in marks.values():
            return None
        self.tell()
        lost = [str(worker) for worker in ended if marks[worker] is None]
        return f"{' and '.join(lost)} {_KILLED}" if lost else noticed

    def _ended(self) -> list[Peer]:
        for _ in range(_LOOKS):
            if found := [worker for worker in self._neighbours if worker.has_ended()]:
                return found
            time.sleep(_BETWEEN_S)
        return []

    def _mark(self, what: str) -> None:
        if self._is_with_first:
            with suppress(RuntimeError):  # the first worker, which has the store, may be gone
                self._store.set(f"{what}/{self.own.rank}", what)

    def _mark_of(self, worker: Peer) -> str | None:
        with suppress(RuntimeError):
            return next((what for what in (_TOLD, _NOTICED) if self._store.check([f"{what}/{worker.rank}"])), None)
        return None
