"""Clients that try to stop the service, fill its memory, or keep others out."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from conftest import ROOT
from serving.conftest import TOKEN, Served, fitted, problem_of, processes, read_all, until

HEAD = b"POST /healthz HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted().save(tmp_path_factory.mktemp("attacked") / "model")


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two workers"])
def attacked(request: pytest.FixtureRequest, folder: Path) -> Iterator[Served]:
    service = Served(folder, "--workers", str(request.param), "--timeout", "5", token=TOKEN)
    yield service
    service.close()


def memory_mb(service: Served) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in processes(service))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# ---------------------------------------------------------------------- stopping it


def test_pipelining_and_closing_ends_nothing(attacked: Served):
    before = processes(attacked)
    request = b"GET /v1/model HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for _ in range(50):
        with attacked.connect() as connection:
            connection.sendall(request * 20)
    assert attacked.get("/v1/model").status_code == 200
    assert processes(attacked) == before


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("default", [False, True], ids=["", "SIGPIPE was at its default"])
def test_a_log_that_nobody_reads_any_more(folder: Path, workers: int, default: bool):
    code = "from purerec.serving.process.launch import serve; import sys; "
    code += "serve(sys.argv[1], port=0, workers=int(sys.argv[2]))"
    if default:
        code = "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); " + code
    command = [sys.executable, "-c", code, str(folder), str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        url = process.stdout.readline().split()[1]
        process.stdout.close()
        process.stderr.close()
        for _ in range(20):
            assert httpx.get(url + "/v1/model", trust_env=False).status_code == 200
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)  # which the supervisor logs, too
        time.sleep(1)
        assert httpx.get(url + "/v1/model", trust_env=False).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("streams", [">&- 2>&-", "> /dev/full 2> /dev/full"])
def test_streams_that_are_closed_or_full(folder: Path, streams: str, tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = f"exec {sys.executable} -m purerec.cli serve {folder} --port {port} {streams}"
    process = subprocess.Popen(["bash", "-c", command])
    try:
        until(lambda: _status(f"http://127.0.0.1:{port}/v1/model") == 200, 30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def _status(url: str) -> int | None:
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.TransportError:
        return None


# ---------------------------------------------------------------------- memory


def poured(service: Served, start: bytes, piece: bytes, megabytes: int = 30) -> tuple[int, bytes]:
    """Send `piece` again and again; return how many bytes were accepted, and the answer."""
    with service.connect() as connection:
        # Otherwise the system would buffer megabytes that the service never sees.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        connection.sendall(start)
        sent = 0
        try:
            while sent < megabytes << 20:
                connection.sendall(piece)
                sent += len(piece)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return sent, read_all(connection)


ENDLESS = {
    "trailers": (CHUNKED + b"0\r\n", b"".join(b"x-%d: y\r\n" % n for n in range(5000))),
    "one trailer": (CHUNKED + b"0\r\nx: ", b"y" * 50_000),
    "chunk extensions": (CHUNKED + b"5;", b"a=b;" * 10_000),
    "tiny chunks": (CHUNKED, b"1\r\n \r\n" * 10_000),
    "blank lines": (CHUNKED, b"4\r\n\r\n\r\n\r\n" * 5_000),
    "headers": (HEAD, b"".join(b"x-%d: y\r\n" % n for n in range(5000))),
    "one header": (HEAD + b"x: ", b"y" * 50_000),
    "a request line": (b"GET /", b"y" * 50_000),
    "blank lines before a request": (b"", b"\r\n" * 25_000),
    "a body": (HEAD + b"content-length: 1000000000\r\n\r\n", b" " * 50_000),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_endless_requests_are_cut_off(attacked: Served, what: str):
    before = memory_mb(attacked)
    for path in (b"/healthz", b"/v1/recommend"):
        start, piece = ENDLESS[what]
        sent, answer = poured(attacked, start.replace(b"/healthz", path), piece)
        assert sent < 12 << 20
        assert answer == b"" or answer.startswith(
            (b"HTTP/1.1 413", b"HTTP/1.1 431", b"HTTP/1.1 400", b"HTTP/1.1 401")
        )
    assert memory_mb(attacked) < before + 15
    assert attacked.get("/healthz").status_code == 200


def test_many_small_requests_in_one_piece_wait_unparsed(attacked: Served):
    """Each would cost a hundred times its bytes if it were parsed before its turn."""
    request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    before = memory_mb(attacked)
    connections = [attacked.connect() for _ in range(20)]
    for connection in connections:
        connection.setblocking(False)
        while True:
            try:
                connection.send(request * 5000)
            except BlockingIOError:
                break
    time.sleep(1)
    assert memory_mb(attacked) < before + 40
    for connection in connections:
        connection.close()
    assert attacked.get("/healthz").status_code == 200


@pytest.mark.parametrize(("size", "status"), [(32_768, b"200"), (32_769, b"431"), (100_000, b"431")])
def test_the_limit_of_a_head(attacked: Served, size: int, status: bytes):
    """In one piece, and in many."""
    start, end = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: ", b"\r\n\r\n"
    head = start + b"y" * (size - len(start) - len(end)) + end
    assert attacked.raw(head).startswith(b"HTTP/1.1 " + status)
    with attacked.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(head), 9001):
            connection.sendall(head[at : at + 9001])
            time.sleep(0.005)
        assert read_all(connection).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("fields", "status"), [(100, b"200"), (101, b"431")])
def test_the_limit_of_fields(attacked: Served, fields: int, status: bytes):
    more = b"".join(b"x-%d: y\r\n" % n for n in range(fields - 2))
    head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + more + b"\r\n"
    assert attacked.raw(head).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize(("more", "status"), [(0, 422), (1, 413)])
@pytest.mark.parametrize(
    "framed", [bytes, lambda body: iter([body[:70_000], body[70_000:]])], ids=["length", "chunks"]
)
def test_the_limit_of_a_body(attacked: Served, more: int, status: int, framed: Callable[[bytes], object]):
    body = b" " * ((1 << 20) + more)
    problem_of(attacked.client.post("/v1/recommend", content=framed(body)), status)  # type: ignore[arg-type]


def test_trailers_are_no_headers(attacked: Served):
    """They come after the token was checked, and must not replace it or any other header."""
    start = CHUNKED.replace(b"/healthz", b"/v1/reload").replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    answer = attacked.raw(start + b"0\r\nauthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401")


# ---------------------------------------------------------------------- keeping others out


def test_idle_connections_do_not_keep_others_out(attacked: Served):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard > 0 else 4096, hard))
    held = []
    try:
        for n in range(1300):  # both workers are full
            held.append(attacked.connect())
            if n % 3 == 1:
                held[-1].sendall(b"GET / HT")
            if n % 3 == 2:
                held[-1].sendall(b"POST /readyz HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n1")
        for _ in range(10):
            assert httpx.get(attacked.url + "/healthz", trust_env=False).status_code == 200
        assert attacked.get("/v1/model").status_code == 200
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_slow_senders_do_not_take_the_place_of_requests(attacked: Served):
    """More than the service handles at once, each with half a body."""
    held = [attacked.connect() for _ in range(300)]
    for connection in held:
        connection.sendall(
            b"POST /v1/recommend HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %s\r\ncontent-length: 9\r\n\r\n1"
            % TOKEN.encode()
        )
    for _ in range(5):
        assert attacked.get("/v1/users/u3/recommendations").status_code == 200
    for connection in held:
        connection.close()


def test_the_rest_of_a_request_that_is_answered_already_has_to_come_in_time(folder: Path):
    """A preflight is answered without its body."""
    service = Served(folder, "--timeout", "1", "--cors", "*")
    with service.connect() as connection:
        connection.sendall(
            b"OPTIONS /v1/recommend HTTP/1.1\r\nhost: localhost\r\norigin: https://a.example\r\n"
            b"access-control-request-method: POST\r\ncontent-length: 1000\r\n\r\n"
        )
        assert connection.recv(1000).startswith(b"HTTP/1.1 204")
        with contextlib.suppress(OSError):
            for _ in range(100):
                connection.sendall(b"x")
                time.sleep(0.1)
            pytest.fail("it is still open")
    service.close()


def test_stopping_loses_no_request_of_a_connection_that_is_kept(folder: Path):
    """Under load, on SIGTERM: every request is answered, the last one of each connection with `connection: close`."""
    for workers in (1, 2):
        service = Served(folder, "--workers", str(workers))
        ends: list[str] = []
        request = b"GET /v1/users/u3/recommendations HTTP/1.1\r\nhost: localhost\r\n\r\n"

        def ask(ends: list[str], service: Served, request: bytes) -> None:
            with service.connect() as connection:
                while True:
                    try:
                        connection.sendall(request)
                        answer = b""
                        while b"\r\n\r\n" not in answer or len(answer.partition(b"\r\n\r\n")[2]) < int(
                            re.findall(rb"content-length: (\d+)", answer)[0]
                        ):
                            part = connection.recv(1 << 16)
                            if not part:
                                ends.append(f"closed after {len(answer)} bytes")
                                return
                            answer += part
                    except OSError as error:
                        ends.append(repr(error))
                        return
                    if b"connection: close" in answer:
                        ends.append("told")
                        return

        threads = [threading.Thread(target=ask, args=(ends, service, request)) for _ in range(12)]
        for thread in threads:
            thread.start()
        time.sleep(0.7)
        service.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(30)
        code = service.process.wait(20)
        service.close()
        assert ends == ["told"] * 12
        assert code == 0


# ---------------------------------------------------------------------- all at once


def test_good_requests_amid_hostile_ones(tmp_path: Path):
    """The short form; `python benchmarks/hostile.py` runs for a minute, with one worker and with two."""
    seconds = os.environ.get("PUREREC_HOSTILE_SECONDS", "5")
    file = tmp_path / "found.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "hostile.py"), "--seconds", seconds, "--json", str(file)]
    done = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(file.read_text())["results"]["runs"][0]
    assert run["failed"] == 0
    assert run["alive"]
    assert run["good"] > 50
    assert all(run["hostile"].get(kind, 0) > 0 for kind in ("endless_trailers", "pipelining_and_close", "idle"))
    assert run["memory_mb"]["peak"] < run["memory_mb"]["before"] + 40
