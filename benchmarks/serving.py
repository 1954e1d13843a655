"""The throughput of `purerec serve`: known people and new ones mixed, while the model is swapped every second.

Compared, in the same run and with the same client, with a bare FastAPI endpoint that reads a body as long as ours and
sends an answer as long as ours: the limit of the framework. The client is a separate process with keep-alive
connections; each sends its next request when the last is answered.

python benchmarks/serving.py [--json FILE] [--seconds 6] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from purerec.experiments.provenance import write_results

HISTORY = 20
ECHO = """
import sys, socket, uvicorn
from fastapi import FastAPI, Request, Response

app, answer = FastAPI(), b"x" * int(sys.argv[1])

@app.post("/v1/recommend")
async def echo(request: Request) -> Response:
    await request.body()
    return Response(answer, media_type="application/json")

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(f"serving http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
config = uvicorn.Config(app, http="httptools", access_log=False, log_level="error", server_header=False)
uvicorn.Server(config).run([listener])
"""


# ---------------------------------------------------------------------- the client, in a separate process


class Connection(asyncio.Protocol):
    """Sends a request, records how long the answer took, sends the next."""

    def __init__(self, requests: list[bytes], start: int, until: float) -> None:
        self.requests, self.next, self.until = requests, start, until
        self.times: list[float] = []
        self.sizes: list[int] = []
        self.errors = 0
        self.buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.send()

    def send(self) -> None:
        self.sent = time.perf_counter()
        if self.sent >= self.until:
            self.transport.close()
            return
        self.transport.write(self.requests[self.next % len(self.requests)])
        self.next += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.index(b"content-length: ") + 16
        length = int(head[at : head.find(b"\r\n", at) if b"\r\n" in head[at:] else None])
        if len(body) < length:
            return
        self.times.append(time.perf_counter() - self.sent)
        self.sizes.append(length)
        self.errors += not head.startswith(b"HTTP/1.1 200")
        self.buffer = b""
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self.until:
            self.errors += 1
        self.done.set_result(None)


async def ask(url: str, file: Path, connections: int, seconds: float) -> dict[str, Any]:
    """What this many connections see in this many seconds."""
    host, port = url.removeprefix("http://").split(":")
    requests = [
        f"POST /v1/recommend HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}".encode()
        for body in json.loads(file.read_text())
    ]
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    made = [
        (await loop.create_connection(lambda n=n: Connection(requests, n * 97, start + seconds), host, int(port)))[1]
        for n in range(connections)
    ]
    await asyncio.gather(*(one.done for one in made))
    times = np.array([t for one in made for t in one.times])
    return {
        "requests": len(times),
        "per_s": len(times) / seconds,
        "p50_ms": float(np.quantile(times, 0.5)) * 1e3,
        "p99_ms": float(np.quantile(times, 0.99)) * 1e3,
        "max_ms": float(times.max()) * 1e3,
        "errors": sum(one.errors for one in made),
        "answer_bytes": float(np.mean([size for one in made for size in one.sizes])),
    }


def client(url: str, file: Path, connections: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--ask", url, str(file), str(connections), str(seconds)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


# ---------------------------------------------------------------------- the servers


@contextmanager
def running(command: list[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    env = {**os.environ}
    env.pop("PUREREC_TOKEN", None)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env)
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[1], process
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


@contextmanager
def swapping(process: subprocess.Popen[str], folder: Path, models: list[Any]) -> Iterator[list[int]]:
    """Replace the model every second, as a nightly update would."""
    stop, swaps = threading.Event(), [0]

    def go() -> None:
        while not stop.wait(1.0):
            swaps[0] += 1
            models[swaps[0] % 2].save(folder)
            process.send_signal(signal.SIGHUP)

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield swaps
    finally:
        stop.set()
        thread.join()


def bodies(model: Any, n: int = 2000) -> list[str]:
    """Half for people of the training data, half for new ones with a history."""
    rng = np.random.default_rng(0)
    users, items = (vocabulary.ids.cast(str).to_list() for vocabulary in (model.users, model.items))
    found = []
    for number in range(n):
        history = [items[i] for i in rng.choice(len(items), HISTORY, replace=False)]
        known = {"users": [users[rng.integers(len(users))]]}
        found.append(json.dumps({**(known if number % 2 else {"history": history}), "k": 10}))
    return found


def measured(workers: int, seconds: float, rounds: int, connections: int, models: list[Any], place: Path) -> Any:
    """Ours and the bare endpoint alternately; for each, the round with the most requests."""
    folder, file = place / "model", place / "bodies.json"
    models[0].save(folder)
    file.write_text(json.dumps(bodies(models[0])))
    serve = [sys.executable, "-m", "purerec.cli", "serve", str(folder), "--port", "0", "--workers", str(workers)]
    ours, bare, swaps, errors = [], [], 0, 0
    with running(serve) as (url, process):
        warm = client(url, file, connections, 1.0)
        echo = [sys.executable, "-c", ECHO, str(round(warm["answer_bytes"]))]
        with running(echo) as (echo_url, _):
            client(echo_url, file, connections, 1.0)
            for _ in range(rounds):
                with swapping(process, folder, models) as count:
                    ours.append(client(url, file, connections, seconds))
                swaps += count[0]
                errors += ours[-1]["errors"]
                bare.append(client(echo_url, file, connections, seconds))
    best = max(ours, key=lambda found: found["per_s"])
    bound = max(bare, key=lambda found: found["per_s"])
    return {
        "workers": workers,
        "connections": connections,
        "purerec": {**_rounded(best), "errors": errors, "swaps": swaps},
        "bare_fastapi": _rounded(bound),
        "ratio": round(best["per_s"] / bound["per_s"], 3),
    }


def _rounded(found: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in found.items()}


def started(folder: Path) -> float:
    """Seconds from the command to the first list, with kernels already compiled; the best of three."""
    import urllib.request

    best = np.inf
    body = b'{"history": [], "k": 10}'
    for _ in range(3):
        start = time.perf_counter()
        with running([sys.executable, "-m", "purerec.cli", "serve", str(folder), "--port", "0"]) as (url, _):
            request = urllib.request.Request(url + "/v1/recommend", body)
            with urllib.request.urlopen(request) as answer:
                answer.read()
            best = min(best, time.perf_counter() - start)
    return float(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--ask", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        url, file, connections, seconds = options.ask
        print(json.dumps(asyncio.run(ask(url, Path(file), int(connections), float(seconds)))))
        return
    import purerec as pr

    data = pr.load("ml-100k")
    models = [pr.PURE(epochs=12).fit(data, seed=seed) for seed in (0, 1)]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        models[0].save(place / "start")
        result = {
            "data": data.name,
            "model": "pure",
            "history": HISTORY,
            "k": 10,
            "cpus": os.cpu_count(),
            "load_before": round(os.getloadavg()[0], 1),
            "start_seconds": round(started(place / "start"), 2),
            "runs": [
                measured(workers, options.seconds, options.rounds, options.connections, models, place)
                for workers in (1, 2)
            ],
        }
    if options.json is not None:
        write_results(options.json, result)
    print(f"first list {result['start_seconds']} s after the command")
    for run in result["runs"]:
        for who in ("purerec", "bare_fastapi"):
            found = run[who]
            print(
                f"{run['workers']} workers, {who:<13}{found['per_s']:>8.0f} per s, p50 {found['p50_ms']:.2f} ms, "
                f"p99 {found['p99_ms']:.2f} ms, {found['errors']} errors, {found.get('swaps', 0)} swaps"
            )


if __name__ == "__main__":
    main()
