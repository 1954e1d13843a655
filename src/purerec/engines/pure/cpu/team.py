"""Two threads that share a step and spin while they wait for each other, which takes a tenth of a microsecond.

Waking a thread takes the operating system 20 microseconds or more, as long as a whole step on a small batch. A thread
that has waited for a while yields its core, in case its partner has none. On a busy machine, or with less processor
time than cores (a container), it would yield most of the time: then one thread works alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as numba_cgutils

from purerec.jit.decorator import Scalar, intrinsic, kernel
from purerec.types import I64

_cgutils: Any = numba_cgutils  # untyped

_LOOKS = 2_000
_ENOUGH = 0.8
"""Share of two cores below which one thread is as fast: two are 1.6 times as fast if they have both to themselves"""
_FIRST_PAUSE = 4
_QUICK_S = 0.02
_CAN_YIELD = os.name == "posix"
N_USERS, N_ITEMS = 8, 16
"""Places in `TeamMember.board`, each in its own cache line; the first place counts arrivals."""
BOARD_SIZE = 24


class TeamMember(NamedTuple):
    """One of two threads: `number` 0 handles the users' rows, 1 the items'."""

    number: int
    board: I64
    """(BOARD_SIZE,) shared by both"""


def two_members() -> tuple[TeamMember, TeamMember]:
    board = np.zeros(BOARD_SIZE, np.int64)
    return TeamMember(0, board), TeamMember(1, board)


@intrinsic
def _arrive(typingctx: Any, board: Any) -> Any:
    """Add one to board[0] and return its old value."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, ir.IntType(64)(1), "seq_cst")

    return types.int64(board), codegen


@intrinsic
def _arrivals(typingctx: Any, board: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(data, "seq_cst", 8)

    return types.int64(board), codegen


@intrinsic
def _give_way(typingctx: Any) -> Any:
    """Yield the core to another thread that is ready to run."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if _CAN_YIELD:
            shape = ir.FunctionType(ir.IntType(32), [])
            builder.call(_cgutils.get_or_insert_function(builder.module, shape, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@kernel(inner=True)
def wait_for_other(board: I64) -> Scalar:
    """Wait until the other thread gets here too; what it wrote before can then be read."""
    goal = (_arrive(board) | 1) + 1
    looks = 0
    while _arrivals(board) < goal:
        looks += 1
        if looks > _LOOKS:
            _give_way()
    return goal


def cores() -> int:
    """Cores that this process may use; the environment's NUMBA_NUM_THREADS, if it is set."""
    config: Any = numba.config  # filled at run time
    return int(config.NUMBA_NUM_THREADS)


class Pace:
    """Decides from the share of two cores that two threads got whether they pay off; retries less and less often."""

    def __init__(self) -> None:
        self._alone, self._pause = 0, _FIRST_PAUSE

    def two(self) -> bool:
        """Whether the next epoch should use two threads."""
        if self._alone:
            self._alone -= 1
            return False
        return True

    def note(self, share: float) -> None:
        """Record the share of two cores that two threads got."""
        if share < _ENOUGH:
            self._alone, self._pause = self._pause, 2 * self._pause
        else:
            self._pause = _FIRST_PAUSE


def run_both(first: Callable[[], None], second: Callable[[], None]) -> float:
    """Call two kernels at once. Both finish even after Ctrl-C, since either would wait for the other.

    Returns the share of two cores that they got, 1 if they were too quick to measure.
    """
    errors: list[BaseException] = []
    began, used = time.perf_counter(), list[float]()

    def attempt(call: Callable[[], None]) -> None:
        try:
            before = time.thread_time()
            call()
            used.append(time.thread_time() - before)
        except BaseException as error:  # passed on to the caller's thread
            errors.append(error)

    def both() -> None:
        other = threading.Thread(target=attempt, args=(second,))
        other.start()
        attempt(first)
        other.join()

    # Not in the main thread, where an interrupt could strike between the two starts.
    lead = threading.Thread(target=both)
    lead.start()
    interrupt: KeyboardInterrupt | None = None
    while lead.is_alive():
        try:
            lead.join()
        except KeyboardInterrupt as pressed:
            interrupt = pressed
    if interrupt is not None:
        raise interrupt
    if errors:
        raise errors[0]
    took = time.perf_counter() - began
    return sum(used) / (2 * took) if took > _QUICK_S else 1.0
