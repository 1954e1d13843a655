"""A folder that cannot be used never hangs a reload, and a worker that dies is replaced."""

import json
import os
import signal
from pathlib import Path

import pytest

from purerec.serving.process.supervisor import _pause
from serving.conftest import TOKEN, Served, fitted, problem_of, processes, until


@pytest.mark.parametrize("workers", [1, 2])
def test_no_folder_hangs_a_reload(tmp_path: Path, workers: int):
    place = fitted().save(tmp_path / "model")
    service = Served(place, "--workers", str(workers), token=TOKEN)
    try:
        before = service.get("/v1/model").json()["version"]
        manifest = (place / "manifest.json").read_text()
        deep = "[" * 950 + "]" * 950  # readable in one thread, it may be too deep for another
        for wrong in (
            '{"a":' * 100_000,
            json.dumps({**json.loads(manifest), "deep": 0}).replace(" 0}", f" {deep}}}"),
        ):
            (place / "manifest.json").write_text(wrong)
            answer = service.client.post("/v1/reload", timeout=20)
            assert answer.status_code in (200, 409), answer.text
        (place / "manifest.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
        problem_of(service.client.post("/v1/reload", timeout=20), 409)
        service.process.send_signal(signal.SIGHUP)
        (place / "manifest.json").write_text(manifest)
        assert service.client.post("/v1/reload", timeout=20).json()["model"] == before
        assert service.get("/v1/users/u3/recommendations").status_code == 200
    finally:
        service.close()


def test_a_killed_worker_is_replaced_at_once(folder: Path):
    service = Served(folder, "--workers", "2")
    try:
        before = processes(service)
        os.kill(before[1], signal.SIGKILL)
        until(lambda: set(processes(service)) - set(before), 1.0)
        until(lambda: "worker replaced" in service.lines(), 60)
        assert service.get("/v1/model").status_code == 200
    finally:
        service.close()


def test_workers_that_keep_dying_are_replaced_more_and_more_slowly():
    pauses = [_pause(in_a_row) for in_a_row in range(12)]
    assert pauses[:2] == [0.0, 0.0]
    assert pauses[2:] == sorted(pauses[2:])
    assert 0 < pauses[2] <= 1
    assert pauses[-1] == 30.0
