"""Workers of one run need the same kernels at about the same time: one compiles them, the others wait and load."""

from __future__ import annotations

import fcntl
import hashlib
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from purerec.jit.decorator import Cache


def compile_once(locks: Path) -> None:
    """From now on, look up and compile kernels only under a lock shared by all processes.

    This cannot deadlock: a kernel waits for those that it calls, and none calls itself, directly or through others.
    """
    compile_ = Dispatcher.compile

    def under_lock(self: Any, signature: Any) -> Any:
        if not isinstance(self._cache, Cache):
            return compile_(self, signature)
        function = self.py_func
        name = hashlib.blake2b(f"{function.__module__}.{function.__qualname__}{signature}".encode()).hexdigest()[:32]
        with global_compiler_lock, open(locks / name, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return compile_(self, signature)

    Dispatcher.compile = under_lock
