"""`purerec fit --on ray`, on a cluster that the command starts: the same bits, whoever dies."""

import json

import pytest

from cli import dying_worker
from cli.test_workers import alone, assert_same, tensors
from conftest import ROOT, need, purerec
from purerec.cli.clusters.fits import first_failure
from purerec.errors import WorkerError

EPOCHS, TIMES = 30, 2
MORTAL = {"runtime_env": {"worker_process_setup_hook": "cli.clusters.late_hooks.workers_die"}}


@pytest.mark.slow
def test_the_same_bits_though_workers_die(clicks, tmp_path, monkeypatch):
    need("ray")
    out = tmp_path / "model"
    (tmp_path / "told").mkdir()
    monkeypatch.setenv("DYING_TOLD", str(tmp_path / "told"))
    environment = {
        "PYTHONPATH": str(ROOT / "tests"),
        "DYING_TIMES": str(TIMES),
        "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(MORTAL),
    }
    settings = ["--set", f"epochs={EPOCHS}", "--set", "dim=4", "--workers", 2]
    done = purerec(
        "fit", clicks, "--model", "pugmf", *settings, "--on", "ray", "--out", out, env=environment, check=0
    )
    assert "pugmf fitted on" in done.stdout
    assert dying_worker.told() == dying_worker.what_happens(TIMES)
    assert_same(tensors(out), alone(clicks, tmp_path / "alone", "pugmf", epochs=EPOCHS, dim=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "model", "told"]


def test_the_worker_that_died_is_named_before_those_that_lost_it():
    failed = ValueError()
    failed.worker_failures = {0: WorkerError("another worker was lost"), 1: RuntimeError("out of\nmemory")}
    assert first_failure(failed) == "worker 1 ended (out of memory)"
    assert "Ray could not run the workers (no such" in first_failure(ValueError("no such thing"))
