"""Processes that need the same kernel at once: one compiles it, the others wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import purerec
from purerec.jit import turns
from purerec.jit.compiling import COMPILING
from purerec.jit.turns import Turns

HOLD = """
import sys, time
from pathlib import Path
from purerec.jit.turns import Turns
turns = Turns(Path(sys.argv[1]))
turns.take()
print("held", flush=True)
time.sleep(float(sys.argv[2]))
turns.release()
time.sleep(100)
"""
KERNEL = """
from purerec.jit.decorator import kernel
@kernel(inner=True)
def inner(x):
    return x + 1
@kernel()
def outer(x):
    return inner(x) * 2
"""
START = """
import sys, time
from slow.kernels import outer
time.sleep(max(0, float(sys.argv[1]) - time.time()))
print(outer(3), sum(outer.stats.cache_hits.values()))
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "kernel.lock"


def hold(lock: Path, seconds: float) -> subprocess.Popen[str]:
    """Another process that holds the lock for this long, and outlives it."""
    other = subprocess.Popen([sys.executable, "-c", HOLD, lock, str(seconds)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    return other


def test_a_free_turn_is_taken_without_waiting(lock: Path) -> None:
    mine, before = Turns(lock), COMPILING.seconds
    mine.take()
    Turns(lock).take()  # the same process: a kernel compiled for another of the same name
    mine.release()
    mine.release()
    mine.take()
    mine.release()
    assert COMPILING.seconds == before


def test_without_locks_nobody_waits(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(turns.fcntl, "flock", refuse)
    mine = Turns(lock)
    mine.take()  # leaves no open file behind, which would be a warning
    assert lock not in turns._OURS
    mine.release()


@pytest.mark.slow
def test_others_wait_until_the_lock_is_released_or_its_holder_dies(lock: Path) -> None:
    other = hold(lock, 0.3)
    try:
        mine, before = Turns(lock), COMPILING.seconds
        mine.take()
        assert COMPILING.seconds > before  # not counted in the time of a fit
        mine.release()
    finally:
        other.kill()
    other.communicate()
    dying = hold(lock, 100)
    threading.Timer(0.3, dying.kill).start()
    last = Turns(lock)
    last.take()
    assert lock in turns._OURS
    last.release()
    dying.communicate()


@pytest.mark.slow
def test_nobody_waits_forever(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_LONGEST_S", 0.2)
    other = hold(lock, 100)
    try:
        mine = Turns(lock)
        mine.take()
        assert lock not in turns._OURS
        mine.release()  # it holds nothing
    finally:
        other.kill()
        other.communicate()


@pytest.mark.slow
def test_of_three_processes_one_compiles(tmp_path: Path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "__init__.py").write_text("")
    (tmp_path / "slow" / "kernels.py").write_text(KERNEL)
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(purerec.__file__).parents[1])]),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }
    begin = str(time.time() + 5)  # all have imported what they need by then
    command = [sys.executable, "-c", START, begin]
    three = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = sorted(process.communicate()[0].split() for process in three)
    assert said == [["8", "0"], ["8", "1"], ["8", "1"]]
