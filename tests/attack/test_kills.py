"""Whenever a fit is killed, the old or the new model exists, the next fit works, and nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("needs forks and Linux' renameat2", allow_module_level=True)


def kill(tmp_path, how):
    rows = [f"{u},{i}" for u in range(8) for i in range(8) if (u + i) % 2]
    (tmp_path / "d.csv").write_text("\n".join(["user,item", *rows]) + "\n")
    script = Path(__file__).with_name("killed_fits.py")
    command = [sys.executable, script, tmp_path, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exchange", "steps"])
def test_killed_at_any_file_operation(tmp_path, how):
    assert len(kill(tmp_path, how)) > 60


@pytest.mark.slow
def test_the_command_killed_while_it_removes_its_checkpoint(tmp_path):
    assert len(kill(tmp_path, "command")) == 4
