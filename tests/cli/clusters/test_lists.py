"""`purerec recommend --all --on ray`: everybody once, though a worker dies, and what is there is not made again."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import purerec as pr
from conftest import ROOT, need, purerec
from purerec.cli.clusters.lists import _told
from purerec.errors import UnknownIdError
from purerec.output.partitions import partitions

MORTAL = {"runtime_env": {"worker_process_setup_hook": "cli.clusters.dying_lister.install"}}
COMMANDS = """
import sys
from purerec.cli import commands
from purerec.cli.clusters.connecting import connected_to_ray

with connected_to_ray("ray", purpose="a test"):
    for line in sys.stdin:
        sys.argv = ["purerec", *line.split()]
        print("exit code", commands.run(), flush=True)
"""
"""One command after the other on a cluster of their own: to start one takes longer than what they do."""


def saved_model(folder):
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(rng.integers(0, 700, 8000), (90 * rng.random(8000) ** 2).astype(np.int64))
    model = pr.make_model("ials", epochs=2).fit(log, seed=0)
    model.save(folder)
    return model


@pytest.fixture
def cluster():
    """The address of a cluster that somebody has started."""
    need("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="r"))  # names of sockets are short
    words = ["ray.scripts.scripts", "start", "--head", "--block", "--port", "0", "--num-cpus", "2"]
    words += ["--ray-client-server-port", str(port), "--include-dashboard=false", "--temp-dir", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    usual = os.environ | {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    usual |= {"RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "300"}  # 30 s were too few beside other tests
    head = subprocess.Popen([sys.executable, "-m", *words], env=usual, **quiet)
    try:
        end = time.monotonic() + 120
        while not answers(port):
            assert head.poll() is None
            assert time.monotonic() < end
            time.sleep(0.2)
        yield f"ray://127.0.0.1:{port}"
    finally:
        head.terminate()  # and with it what it has started
        head.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_what_is_told_inside_of_errors_of_ray():
    class OfRay(Exception):
        cause = None

    class Both(OfRay, UnknownIdError):
        """As Ray makes them."""

    inner, outer = Both("a traceback"), OfRay()
    outer.cause, inner.__cause__ = inner, UnknownIdError("item 'x' was not in training")
    assert str(_told(outer, OfRay)) == "item 'x' was not in training"
    assert _told(OfRay(), OfRay) is None


@pytest.mark.slow
def test_on_a_cluster_that_runs(tmp_path, cluster):
    model, lists = saved_model(tmp_path / "model"), tmp_path / "lists"
    said = purerec("recommend", tmp_path / "model", "--all", "-k", 4, "--on", cluster, "--out", lists, check=0).stdout
    assert "recommendations in 3 files" in said
    refused = purerec(
        "recommend", tmp_path / "model", "--all", "--only", "no such", "--on", cluster, "--out", "x", check=2
    )
    assert refused.stderr.startswith("error: item 'no such'")
    assert len(refused.stderr.splitlines()) == 1
    assert not (tmp_path / "x").exists()
    found = pl.read_parquet(lists / "*.parquet")
    assert found.select("user", "item", "rank").equals(model.recommend(k=4).select("user", "item", "rank"))


@pytest.mark.slow
def test_everybody_once(tmp_path):
    need("ray")
    model = saved_model(tmp_path / "model")
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "tests"),
        "DYING_TOLD": str(tmp_path / "died"),
        "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(MORTAL),
    }
    driver = subprocess.Popen(
        [sys.executable, "-c", COMMANDS],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )

    def run():
        driver.stdin.write("recommend model --all -k 4 --on ray --out lists\n")
        driver.stdin.flush()
        said = ""
        while "exit code" not in said:
            line = driver.stdout.readline()
            assert line, "it has ended"
            said += line
        assert said.endswith("exit code 0\n")
        return said

    n = len(model.users)
    files = [part.file for part in partitions(n)]
    assert len(files) == 3
    assert f"{4 * n:,} recommendations in 3 files" in run()
    assert (tmp_path / "died").exists()
    assert sorted(path.name for path in (tmp_path / "lists").iterdir()) == ["lists.json", *files]
    found = pl.read_parquet(tmp_path / "lists" / "*.parquet")
    expected = model.recommend(k=4)
    assert found.select("user", "item", "rank").equals(expected.select("user", "item", "rank"))
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-5)

    before = (tmp_path / "lists" / files[0]).stat().st_mtime_ns
    (tmp_path / "lists" / files[1]).unlink()
    assert "recommendations in 1 file:" in run()
    assert (tmp_path / "lists" / files[0]).stat().st_mtime_ns == before
    assert pl.read_parquet(tmp_path / "lists" / "*.parquet").equals(found)
    driver.communicate(timeout=300)
    assert driver.returncode == 0
