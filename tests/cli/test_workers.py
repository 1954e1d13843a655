"""`purerec fit --workers`: the same model as one process fits from the same shards, whatever happens to workers."""

import logging
import os
import platform
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest

import purerec as pr
from cli import dying_worker
from cli.conftest import refused
from conftest import PUREREC, ROOT, need
from purerec.cli import workers
from purerec.cli.workers import as_worker, start_workers
from purerec.engines.distributed.group import Group, sharing_with
from purerec.engines.distributed.reading import lead_reading
from purerec.errors import WorkerError
from purerec.storage import read_folder, read_manifest

pytestmark = pytest.mark.slow
WORKERS = 2
PATIENCE_S = 300


def alone(clicks, folder, model, **settings):
    """The same fit, with as many shards, in this process."""
    group = Group()
    group.shards = WORKERS
    with sharing_with(group):
        pr.make_model(model, **settings).fit(pr.read(clicks), seed=0).save(folder)
    return tensors(folder)


def tensors(folder):
    return read_folder(folder, kind="model").tensors


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        if "history" in name:  # computed by BLAS, whose last digits depend on its number of threads
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-6)
        else:
            assert np.array_equal(one[name], other[name]), name


def start(*args):
    words = [str(arg) for arg in ("fit", *args, "--workers", WORKERS)]
    return subprocess.Popen([*PUREREC, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_workers_fit_what_one_process_fits(clicks, tmp_path):
    """On a data set with fewer parts than workers, which the first worker reads."""
    need("torch")
    data, out = tmp_path / "data", tmp_path / "model"
    pr.ingest(clicks, data, partitions=1)
    running = start(
        data, "--model", "pure", "--set", "epochs=4", "--set", "pretrain_epochs=2", "--set", "dim=4", "--out", out
    )
    said, trouble = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, trouble
    assert "has 1 part, fewer than workers: the first worker reads all of it" in trouble
    assert "pure fitted on" in said
    assert_same(tensors(out), alone(data, tmp_path / "alone", "pure", epochs=4, pretrain_epochs=2, dim=4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "data", "model"]


def test_killed_workers_change_nothing(clicks, tmp_path):
    """First a helper, then, after a restart of all workers, the leader."""
    need("torch")
    out, epochs = tmp_path / "model", 400
    running = start(clicks, "--model", "pugmf", "--set", f"epochs={epochs}", "--set", "dim=4", "--out", out)
    checkpoint = tmp_path / "model.checkpoint"
    wait_until(checkpoint.exists, running)
    saved, first = next_epoch(checkpoint), worker(running.pid, 0)
    os.kill(worker(running.pid, 1), signal.SIGKILL)
    wait_until(lambda: next_epoch(checkpoint) > saved and worker(running.pid, 0) not in (None, first), running)
    os.kill(worker(running.pid, 0), signal.SIGKILL)
    _, trouble = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, trouble
    assert "Traceback" not in trouble
    assert_same(tensors(out), alone(clicks, tmp_path / "alone", "pugmf", epochs=epochs, dim=4))
    assert not checkpoint.exists()


def test_torchrun_with_workers_that_die_in_epochs_and_checkpoints(clicks, tmp_path, monkeypatch):
    need("torch")
    out, epochs, times = tmp_path / "model", 30, len(dying_worker.DEATHS)
    monkeypatch.setenv("DYING_TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    (tmp_path / "told").mkdir()
    starting = ["torch.distributed.run", "--nproc-per-node", WORKERS, "--max-restarts", times]
    told = ["--model", "pugmf", "--set", f"epochs={epochs}", "--set", "dim=4", "--log", tmp_path / "log.jsonl"]
    # Without --, torchrun would take --log for one of its own options.
    words = [sys.executable, "-m", *starting, "-m", "--", "cli.dying_worker", "fit", clicks, *told, "--out", out]
    words = [str(word) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    assert dying_worker.told() == dying_worker.what_happens(times)
    assert_same(tensors(out), alone(clicks, tmp_path / "alone", "pugmf", epochs=epochs, dim=4))
    assert (tmp_path / "log.jsonl").read_text().count("\n") == epochs
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "log.jsonl", "model", "told"]


def wait_until(condition, process):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def next_epoch(checkpoint):
    return read_manifest(checkpoint, kind="checkpoint")["next_epoch"]


def worker(pid, rank):
    """The process of a worker, if there is one right now."""
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.environ().get("RANK") == str(rank):
                return child.pid
    return None


def test_workers_end_with_the_process_that_started_them(clicks, tmp_path):
    """Otherwise they would wait for each other for half an hour, and nobody would restart them."""
    need("torch")
    running = start(clicks, "--model", "pugmf", "--set", "epochs=100000", "--set", "dim=4", "--out", tmp_path / "m")
    wait_until(lambda: (tmp_path / "m.checkpoint").exists(), running)
    children = psutil.Process(running.pid).children(recursive=True)
    assert len([child for child in children if "RANK" in child.environ()]) == WORKERS
    running.kill()
    running.communicate(timeout=PATIENCE_S)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def test_more_workers_than_memory(command, clicks, monkeypatch):
    monkeypatch.setattr(workers, "available_mb", lambda: 1024.0)
    line = "200 workers need at least 29.3 GB of memory, and 1.0 GB are free; use at most 6, ideally"
    refused(command("fit", clicks, "--model", "pugmf", "--workers", 200, "--out", "m"), line)


def test_wrong_use(command, clicks):
    refused(command("fit", clicks, "--model", "bpr", "--workers", 2, "--out", "m"), "bpr is fitted by one process")
    refused(command("fit", clicks, "--model", "pugmf", "--workers", 0, "--out", "m"), "--workers must be from 1")


def test_a_signal_is_no_internal_error(monkeypatch, capsys):
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.launcher import api

    def stopped(*_):
        raise SignalException("Process 1 got signal: 15", signal.SIGTERM)

    monkeypatch.setattr(api, "elastic_launch", lambda *_: stopped)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(logging, "disable", lambda *_: None)
    assert start_workers(2) == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in capsys.readouterr().err


def test_workers_read_their_parts_of_a_data_set(clicks, tmp_path):
    need("torch")
    data, out = pr.ingest(clicks, tmp_path / "data", partitions=5), tmp_path / "model"
    running = start(tmp_path / "data", "--model", "pugmf", "--set", "epochs=3", "--set", "dim=4", "--out", out)
    _, trouble = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, trouble
    group = Group()
    group.shards = WORKERS
    log, group.read = lead_reading(group, data, None)
    with sharing_with(group):
        alone = pr.PUGMF(epochs=3, dim=4).fit(log, seed=0).save(tmp_path / "alone")
    assert_same(tensors(out), tensors(alone))
    model = pr.load_model(out)
    assert model.fitted_on.interactions == data.facts.rows
    assert model.users == pr.read(tmp_path / "data").users


def test_a_bad_partition_is_named_and_nothing_is_written(clicks, tmp_path):
    need("torch")
    pr.ingest(clicks, tmp_path / "data", partitions=3)
    bad = tmp_path / "data" / "part-00001.parquet"
    bad.write_bytes(bad.read_bytes()[:-9])
    running = start(tmp_path / "data", "--model", "pugmf", "--out", tmp_path / "model")
    _, trouble = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 2
    assert trouble.count("error:") == len(trouble.strip().splitlines()) == 1
    assert "part-00001.parquet: is damaged" in trouble
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_torchrun_with_workers_that_fail(clicks, tmp_path, monkeypatch):
    """First one runs out of memory, then one has another version; the third time a part is damaged."""
    need("torch")
    pr.ingest(clicks, tmp_path / "data", partitions=3)
    bad = tmp_path / "data" / "part-00001.parquet"
    bad.write_bytes(bad.read_bytes()[:-9])
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    starting = ["torch.distributed.run", "--nproc-per-node", WORKERS, "--max-restarts", 2]
    told = ["fit", tmp_path / "data", "--model", "pugmf", "--out", tmp_path / "model"]
    words = [str(word) for word in (sys.executable, "-m", *starting, "-m", "--", "cli.failing_worker", *told)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode != 0
    host = platform.node()
    memory, version, part = (line for line in done.stderr.splitlines() if line.startswith("error:"))
    assert memory.startswith(f"error: worker 1 on {host}: out of memory; use more workers")
    assert version.startswith(f"error: worker 1 on {host} has purerec 0.0.1")
    assert version.endswith("install the same versions on all machines")
    assert part.startswith(f"error: worker 0 on {host}: {bad}: is damaged")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


class Roll:
    """A roll of workers that do not talk to each other."""

    own_told = 0

    def tell(self):
        self.own_told += 1

    def loss(self, noticed):
        return f"lost: {noticed}"


@pytest.fixture
def as_third(monkeypatch):
    """This process is a worker whose help ends with an error."""

    def become(error):
        def helped(_):
            raise error

        roll = Roll()
        monkeypatch.setattr(workers, "_met", lambda: (Group(), roll))
        monkeypatch.setattr(workers, "_helped", helped)
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(os, "environ", os.environ | {"TORCHELASTIC_RUN_ID": "x", "RANK": "3"})
        return roll

    return become


@pytest.mark.parametrize(
    ("error", "told"),
    [(MemoryError(), "out of memory; use more workers"), (KeyError("x"), "internal error: KeyError: 'x'")],
)
def test_a_worker_that_fails_is_named(as_third, capsys, error, told):
    roll = as_third(error)
    assert as_worker(lambda: 0) == 1
    assert f"worker 3 on {platform.node()}: {told}" in capsys.readouterr().err
    assert roll.own_told == 1


def test_a_loss_is_told_as_all_know_it(as_third, capsys):
    as_third(WorkerError("another worker"))
    assert as_worker(lambda: 0) == 1
    assert capsys.readouterr().err == "error: lost: another worker\n"
