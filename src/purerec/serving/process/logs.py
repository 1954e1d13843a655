"""Lines of JSON on standard error, written by a thread: a stalled reader must not stall the service."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import deque
from typing import Any

_PAUSE_S = 0.1
_PIECE = 4096
_KEPT = 10_000
"""Maximum number of lines waiting to be written; beyond that, the oldest are lost."""


class Log:
    """Accepts records and writes them shortly afterwards."""

    def __init__(self, worker: int | str) -> None:
        self._worker = worker
        self._waiting: deque[tuple[Any, ...]] = deque(maxlen=_KEPT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, event: str, **facts: Any) -> None:
        self._waiting.append((time.time(), {"event": event, **facts}))

    def request(self, method: str, route: str, path: str | None, status: int, seconds: float, size: int) -> None:
        """The same for a request; optimised, since there are many."""
        self._waiting.append((time.time(), None, method, route, path, status, seconds, size))

    def close(self) -> None:
        """Write the remaining lines, but only for a moment, in case there is no reader."""
        self._stop.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        lines = []
        while self._waiting:
            moment, record, *request = self._waiting.popleft()
            if record is None:
                method, route, path, status, seconds, size = request
                record = {"event": "request", "method": method, "route": route}
                record |= {} if path is None else {"path": path}
                record |= {"status": status, "ms": round(seconds * 1e3, 3), "bytes": size}
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}Z"
            lines.append(json.dumps({"time": stamp, "worker": self._worker, **record}) + "\n")
        while lines:
            # Whole lines, in pieces that a pipe accepts at once: several processes write to the same pipe.
            piece = lines.pop(0)
            while lines and len(piece) + len(lines[0]) <= _PIECE:
                piece += lines.pop(0)
            with contextlib.suppress(OSError):  # the reader is gone
                os.write(2, piece.encode())
