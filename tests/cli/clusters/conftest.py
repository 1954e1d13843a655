"""Clusters for tests: to start one takes longer than what the commands do."""

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import ROOT, need

MORTAL = {"runtime_env": {"worker_process_setup_hook": "cli.clusters.late_hooks.helpers_die"}}
COMMANDS = """
import sys
from purerec.cli import commands
from purerec.cli.clusters.connecting import connected_to_ray

with connected_to_ray("ray", purpose="a test"):
    for line in sys.stdin:
        sys.argv = ["purerec", *line.split()]
        print("exit code", commands.run(), flush=True)
"""


class OnRay(NamedTuple):
    """A cluster of the commands' own."""

    run: Callable[..., str]
    """Runs a command, one after the other, and gives what it says"""
    died: Path
    """A folder with a file for each kind of worker that was killed"""


@pytest.fixture(scope="session")
def on_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnRay]:
    need("ray")
    died = tmp_path_factory.mktemp("died")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "tests"),
        "DYING_TOLD": str(died),
        "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(MORTAL),
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    driver = subprocess.Popen([sys.executable, "-c", COMMANDS], env=environment, text=True, **pipes)
    assert driver.stdin is not None
    assert driver.stdout is not None
    told, saying = driver.stdin, driver.stdout

    def run(*words: object) -> str:
        told.write(" ".join(map(str, words)) + "\n")
        told.flush()
        said = ""
        while "exit code" not in said:
            line = saying.readline()
            assert line, "it has ended"
            said += line
        assert said.endswith("exit code 0\n")
        return said

    yield OnRay(run, died)
    driver.communicate(timeout=300)
    assert driver.returncode == 0


class Cluster(NamedTuple):
    """A cluster that somebody has started."""

    address: str
    environment: dict[str, str]
    """Its token: `ray start` asks for one if the home folder has one, and Ray's client sends none by itself"""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    need("ray")
    own = {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="r"))  # names of sockets are short
    words = ["ray.scripts.scripts", "start", "--head", "--block", "--port", "0", "--num-cpus", "2"]
    words += ["--ray-client-server-port", str(port), "--include-dashboard=false", "--temp-dir", str(folder)]
    usual = os.environ | own | {"RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    usual |= {"GRPC_ENABLE_FORK_SUPPORT": "0"}  # else servers of clients may crash: ray-project/ray#63202
    null = subprocess.DEVNULL
    head = subprocess.Popen([sys.executable, "-m", *words], env=usual, stdout=null, stderr=null)
    try:
        end = time.monotonic() + 120
        while not _answers(port):
            assert head.poll() is None
            assert time.monotonic() < end
            time.sleep(0.2)
        yield Cluster(f"ray://127.0.0.1:{port}", own)
    finally:
        head.terminate()  # and with it what it has started
        head.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
