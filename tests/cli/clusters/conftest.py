"""Clusters for tests: starting one takes longer than the commands."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.conftest import Command, Done
from conftest import ROOT, need

MORTAL = {"runtime_env": {"worker_process_setup_hook": "cli.clusters.late_hooks.helpers_die"}}
COMMANDS = """
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

from purerec.cli import commands
from purerec.cli.clusters.connecting import connected_to_ray

with connected_to_ray(sys.argv[1], purpose="a test"):
    for line in sys.stdin:
        sys.argv = ["purerec", *json.loads(line)]
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = commands.run()
        print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@contextmanager
def commands_on(address: str, environment: dict[str, str]) -> Iterator[Command]:
    """Runs commands in a process that stays connected: connecting takes longer than the commands."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    words = [sys.executable, "-c", COMMANDS, address]
    driver = subprocess.Popen(words, env=os.environ | environment, text=True, **pipes)
    assert driver.stdin is not None
    assert driver.stdout is not None
    told, saying = driver.stdin, driver.stdout

    def run(*words: object, check: int = 0) -> Done:
        told.write(json.dumps([str(word) for word in (*words, "--on", address)]) + "\n")
        told.flush()
        line = saying.readline()
        assert line, "it has ended"
        done = Done(*json.loads(line))
        assert done.code == check, done.err
        assert "Traceback" not in done.err
        return done

    yield run
    driver.communicate(timeout=300)
    assert driver.returncode == 0


class OnRay(NamedTuple):
    """A cluster started by the commands."""

    run: Command
    """Runs commands, one after the other; `check` is the exit code to expect"""
    died: Path
    """A folder with a file for each kind of worker that was killed"""


@pytest.fixture(scope="session")
def on_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnRay]:
    need("ray")
    died = tmp_path_factory.mktemp("died")
    environment = {
        "PYTHONPATH": str(ROOT / "tests"),
        "DYING_TOLD": str(died),
        "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(MORTAL),
    }
    with commands_on("ray", environment) as run:
        yield OnRay(run, died)


@pytest.fixture
def on_cluster() -> Iterator[Command]:
    """Runs commands on a cluster that somebody has started."""
    need("ray")
    # `ray start` requires a token if the home folder has one, and Ray's client does not send one by itself.
    own = {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="r"))  # socket names must be short
    words = ["ray.scripts.scripts", "start", "--head", "--block", "--port", "0", "--num-cpus", "2"]
    words += ["--ray-client-server-port", str(port), "--include-dashboard=false", "--temp-dir", str(folder)]
    usual = os.environ | own | {"RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    usual |= {"GRPC_ENABLE_FORK_SUPPORT": "0"}  # otherwise client servers may crash: ray-project/ray#63202
    null = subprocess.DEVNULL
    head = subprocess.Popen([sys.executable, "-m", *words], env=usual, stdout=null, stderr=null)
    try:
        end = time.monotonic() + 120
        while not _answers(port):
            assert head.poll() is None
            assert time.monotonic() < end
            time.sleep(0.2)
        with commands_on(f"ray://127.0.0.1:{port}", own) as run:
            yield run
    finally:
        head.terminate()  # and everything that it started
        head.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
