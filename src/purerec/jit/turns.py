"""One process at a time compiles a kernel. Others that start at the same time wait for its code, then load it.

Workers of a fit, processes of a service and parallel tests all start with the same kernels.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO

from purerec.jit.compiling import COMPILING

try:
    import fcntl
except ImportError:  # Windows: every process compiles for itself
    fcntl = None  # type: ignore[assignment]  # mypy takes the name for the module's

_LONGEST_S = 120.0
"""Longer than any kernel takes. A process that is suspended while compiling must not block all others."""
_PAUSE_S = 0.02
_OURS: set[Path] = set()
"""Locks held by this process. Kernels of the same name share a file, and one may be compiled for another."""


class Turns:
    """Whose turn it is to compile: a lock on a file, which the system releases if its holder dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: IO[bytes] | None = None

    def take(self) -> None:
        """Wait for this process's turn. The previous holder may have cached the code."""
        if fcntl is None or self._path in _OURS:
            return
        began, waited = time.perf_counter(), False
        file = open(self._path, "ab")  # noqa: SIM115  # `release` closes it
        while time.perf_counter() - began < _LONGEST_S:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = True
                time.sleep(_PAUSE_S)
                continue
            except OSError:  # a file system without locks
                break
            self._held = file
            _OURS.add(self._path)
            break
        if self._held is None:
            file.close()
        if waited:
            COMPILING.wait(time.perf_counter() - began)

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
            _OURS.discard(self._path)
