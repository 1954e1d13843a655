"""Process ranges of items in several threads; the result of a range does not depend on the thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_PARTS_EACH = 16
"""Ranges per thread: their times differ, and a thread that is done takes the next one."""


def in_parts(n: int, threads: int, work: Callable[[int, int], None]) -> None:
    """Call work(first, last) on ranges that cover 0 to n; it should be a kernel, which releases the GIL."""
    step = max(64, -(-n // (_PARTS_EACH * threads)))
    parts = [(first, min(first + step, n)) for first in range(0, n, step)]
    if threads == 1 or len(parts) < 2:
        for part in parts:
            work(*part)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        for _ in pool.map(work, *zip(*parts, strict=True)):
            pass
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C, do not start the rest
