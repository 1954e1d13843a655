"""Starting, swapping the model under load, stopping; one process and several."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from purerec.cli.serve import serve
from purerec.errors import ConfigError
from serving.conftest import TOKEN, Served, fitted, problem_of, read_all, until


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return fitted().save(tmp_path / "model")


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def running(request: pytest.FixtureRequest, place: Path) -> Iterator[Served]:
    """For a test that stops it."""
    service = Served(place, "--workers", str(request.param), token=TOKEN)
    yield service
    service.close()


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("swapped") / "model"


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
def swapping(request: pytest.FixtureRequest, swapped: Path) -> Iterator[Served]:
    """For tests that swap models; each leaves it with a good one."""
    fitted().save(swapped)
    service = Served(swapped, "--workers", str(request.param), token=TOKEN)
    yield service
    service.close()


def versions(service: Served, tries: int = 12) -> set[str]:
    """Versions seen over new connections, so that every worker gets its turn."""
    found = set()
    for _ in range(tries):
        with httpx.Client(base_url=service.url, headers=service.client.headers, trust_env=False) as client:
            found.add(client.get("/v1/model").json()["version"])
    return found


def test_swapping_under_load_loses_no_request(swapping: Served, swapped: Path):
    """Requests continue during five swaps between two models; each is answered, in full, by one of the two."""
    first = swapping.get("/v1/model").json()["version"]
    done, wrong, seen = threading.Event(), [], set()

    def ask(number: int) -> None:
        with httpx.Client(
            base_url=swapping.url, headers=swapping.client.headers, timeout=20, trust_env=False
        ) as client:
            while not done.is_set():
                try:
                    body = {"users": ["u3"]} if number % 2 else {"history": ["i2", "i4"]}
                    answer = client.post("/v1/recommend", json=body)
                    if answer.status_code != 200 or len(answer.json()["results"][0]["items"]) != 10:
                        wrong.append(answer.text)
                    seen.add(answer.json()["model"])
                except httpx.HTTPError as error:
                    wrong.append(repr(error))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        for seed in (1, 0, 1, 0, 1):
            fitted(seed).save(swapped)
            answer = swapping.client.post("/v1/reload")
            assert answer.status_code == 200, answer.text
            assert answer.json()["changed"] is True
        until(lambda: answer.json()["model"] in seen)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    last = answer.json()["model"]
    assert {first, last} <= seen
    assert versions(swapping) == {last}


def test_damaged_folder_leaves_the_old_model_serving(swapping: Served, swapped: Path):
    before = swapping.get("/v1/model").json()["version"]
    tensors = swapped / "tensors.safetensors"
    whole = tensors.read_bytes()
    for damaged in (whole[:-100], whole[: len(whole) // 2] + b"\0" + whole[len(whole) // 2 + 1 :], b""):
        tensors.write_bytes(damaged)  # in place: mapped data must not change either
        document = problem_of(swapping.client.post("/v1/reload"), 409)
        assert "damaged" in document["detail"]
        assert before in document["detail"]
        assert versions(swapping, 3) == {before}
        assert swapping.get("/v1/users/u3/recommendations").status_code == 200
    (swapped / "manifest.json").write_text("{")
    swapping.process.send_signal(signal.SIGHUP)
    until(lambda: swapping.lines().count('"refused"') == 4)
    shutil.rmtree(swapped)
    assert "does not exist" in problem_of(swapping.client.post("/v1/reload"), 409)["detail"]
    assert versions(swapping, 3) == {before}
    fitted(2).save(swapped)
    assert swapping.client.post("/v1/reload").json()["changed"] is True
    assert 'purerec_reloads_total{result="refused"} 5' in swapping.get("/metrics").text


def test_hangup_reloads_through_a_link(tmp_path: Path):
    fitted(0).save(tmp_path / "monday")
    fitted(1).save(tmp_path / "tuesday")
    link = tmp_path / "current"
    link.symlink_to("monday")
    service = Served(link)
    try:
        before = service.get("/v1/model").json()["version"]
        link.unlink()
        link.symlink_to("tuesday")
        service.process.send_signal(signal.SIGHUP)
        until(lambda: service.get("/v1/model").json()["version"] != before)
        assert "tuesday" not in service.get("/v1/model").text
    finally:
        service.close()


def test_term_drains_what_is_in_flight(running: Served):
    body = b'{"users": ["u3"], "k": 2}'
    head = f"POST /v1/recommend HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {TOKEN}\r\n".encode()
    with running.connect() as connection:
        connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body[:5])
        until(lambda: "purerec_requests_in_flight 2" in running.get("/metrics").text)
        running.client.close()
        running.process.send_signal(signal.SIGTERM)
        until(lambda: _refused(running.port))
        assert running.process.poll() is None
        connection.sendall(body[5:])
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"user":"u3"' in answer
    assert running.process.wait(10) == 0


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_ctrl_c_ends_it(running: Served):
    running.get("/v1/model")
    assert running.stop(signal.SIGINT) == 130
    assert running.lines().count("interrupted") == 0  # standard error is a log of JSON lines
    assert running.lines().count("stopped") >= 1


def test_workers_share_and_are_replaced(guarded: Served):
    """Killing a worker loses only the requests that it had; another replaces it."""
    children = _children(guarded.process.pid)
    assert len(children) == 2
    for child in children:
        maps = Path(f"/proc/{child}/smaps").read_text()
        assert "memfd:purerec" in maps
    os.kill(children[0], signal.SIGKILL)
    until(lambda: "worker replaced" in guarded.lines(), 30)
    assert len(_children(guarded.process.pid)) == 2
    assert guarded.get("/v1/model").status_code == 200
    assert "purerec_workers 2" in guarded.get("/metrics").text


def test_workers_end_with_the_supervisor(place: Path):
    service = Served(place, "--workers", "2")
    children = _children(service.process.pid)
    service.process.kill()
    service.process.wait()
    until(lambda: not any(Path(f"/proc/{child}/exe").exists() for child in children))
    service.close()


def _children(pid: int) -> list[int]:
    if not Path(f"/proc/{pid}/task").exists():
        pytest.skip("needs /proc")
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def _fails(*arguments: str) -> str:
    command = [sys.executable, "-m", "purerec.cli", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_what_cannot_be_served(place: Path, served: Served):
    assert "--port" in _fails(str(place), "--port", str(served.port))
    assert "does not exist" in _fails(str(place / "none"), "--port", "0")
    (place / "tensors.safetensors").write_bytes(b"short")
    assert "damaged" in _fails(str(place), "--port", "0", "--workers", "2")


def test_wrong_options(place: Path):
    for options, message in (
        ({"host": "no.such.host.invalid"}, "--host 'no.such.host.invalid' cannot be used"),
        ({"cors": ["shop.example"]}, "an origin such as"),
        ({"token_file": place / "none"}, "token file"),
        ({"access_log": "all"}, "--access-log takes"),
    ):
        with pytest.raises(ConfigError, match=message):
            serve(place, port=0, **options)


def test_start_is_quick(place: Path):
    """Not in seconds, which depend on the machine: within five times the import of numba and numpy."""
    code = "import numpy, numba, polars"
    bare = min(_seconds([sys.executable, "-c", code]) for _ in range(2))
    start = time.perf_counter()
    service = Served(place)
    service.get("/v1/users/u3/recommendations")
    seconds = time.perf_counter() - start
    service.close()
    assert seconds < 5 * bare + 1


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start
