"""Fixtures of the attacks."""

import os
import sys

import pytest

from attack.inputs import GOOD, write
from conftest import checkerboard
from purerec.cli import commands
from purerec.models.registry import make_model


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Run a command in this process; return its exit code and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PUREREC_TRACEBACK", "1")  # an internal error is raised, and fails the test
    write(tmp_path, "good.csv", GOOD)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["purerec", *map(str, args)])
        code = commands.run()
        return code, capfd.readouterr().err

    return run


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process; return its exit code and standard error."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["purerec", *map(os.fspath, args)])
        capsys.readouterr()
        code = commands.run()
        said = capsys.readouterr().err
        assert "internal error" not in said
        return code, said

    return run


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "d.csv"
    rows = [f"{u},{i}" for u in range(8) for i in range(8) if (u + i) % 2]
    path.write_text("\n".join(["user,item", *rows]) + "\n")
    return path


@pytest.fixture
def model(tmp_path):
    return make_model("itempop").fit(checkerboard(8)).save(tmp_path / "m")
