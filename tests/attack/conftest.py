"""Fixtures of the attacks."""

import sys

import pytest

from attack.inputs import GOOD, write
from purerec.cli import commands


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Run a command in this process: its exit code and what it says on standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PUREREC_TRACEBACK", "1")  # an internal error is raised, and fails the test
    write(tmp_path, "good.csv", GOOD)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["purerec", *map(str, args)])
        code = commands.run()
        return code, capfd.readouterr().err

    return run
