"""Commands in this process, and a small file for them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from conftest import purerec
from purerec.cli import commands


class Done(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs a command with its own files; much faster than in a separate process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PUREREC_CACHE", str(tmp_path / "cache"))

    def run(*args: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["purerec", *map(str, args)])
        code = commands.run()
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two columns: 60 people and 40 items, with two tastes."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, 60, 1500)
    item = 2 * rng.integers(0, 20, 1500) + user % 2
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in zip(user, item, strict=True)))
    return path


@pytest.fixture(scope="session")
def model(clicks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "m"
    purerec("fit", clicks, "--model", "itempop", "--out", folder, check=0)
    return folder


def refused(done: Done, message: str) -> None:
    """One line that says what is wrong, and nothing else."""
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
