"""The time of compilations."""

from __future__ import annotations

import time

import numba

from purerec.jit.compiling import COMPILING


def test_only_compiling_counts() -> None:
    @numba.njit
    def inner(x: int) -> int:
        return x + 1

    @numba.njit
    def outer(x: int) -> int:
        return inner(x) * 2  # type: ignore[no-any-return]

    began, before = time.perf_counter(), COMPILING.seconds
    assert outer(1) == 4
    first = COMPILING.seconds
    assert before < first <= before + time.perf_counter() - began  # the inner one is not counted twice
    assert outer(2) == 6
    assert COMPILING.seconds == first
    outer(1.5)
    assert COMPILING.seconds > first
