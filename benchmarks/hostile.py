"""How `purerec serve` copes with mixed good and hostile traffic: requests answered, requests failed, memory.

The good traffic has the token: lists over persistent connections, lists over a new connection each, /healthz. The
hostile traffic, from a separate process, has none: see `ATTACKS`. Memory is that of all processes of the service.

python benchmarks/hostile.py [--json FILE] [--seconds 60] [--workers 1,2]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from purerec.experiments.provenance import write_results

TOKEN = "only-for-this-run-0123456789"
IDLE = 600
"""More connections than a worker has room for."""
SLOW = 40
SENT_AT_MOST = 8 << 20
HEAD = b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
GET = b"GET /v1/model HTTP/1.1\r\nhost: localhost\r\n\r\n"

# ---------------------------------------------------------------------- hostile, in a separate process

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_random = random.Random(0)


async def pour(streams: Streams, piece: bytes) -> None:
    """Send the same piece again and again, until the other end closes the connection."""
    for _ in range(SENT_AT_MOST // len(piece)):
        if streams[1].transport.is_closing():
            return
        streams[1].write(piece)
        await streams[1].drain()


async def pipelining_and_close(streams: Streams) -> None:
    streams[1].write(GET * _random.randint(2, 50))
    if _random.random() < 0.5:  # with a reset
        linger = struct.pack("ii", 1, 0)
        streams[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


async def gone_half_way(streams: Streams) -> None:
    streams[1].write(HEAD + b'content-length: 1000\r\n\r\n{"users": [')
    await asyncio.sleep(_random.random() * 0.05)


async def endless_trailers(streams: Streams) -> None:
    streams[1].write(CHUNKED + b"0\r\n")
    await pour(streams, b"".join(b"x-%d: y\r\n" % n for n in range(1000)))


async def endless_chunk_extensions(streams: Streams) -> None:
    streams[1].write(CHUNKED + b"5;")
    await pour(streams, b"a=b;" * 2000)


async def blank_lines_in_tiny_chunks(streams: Streams) -> None:
    streams[1].write(CHUNKED)
    await pour(streams, b"4\r\n\r\n\r\n\r\n" * 1000)


async def endless_head(streams: Streams) -> None:
    streams[1].write(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
    await pour(streams, b"".join(b"x-%d: y\r\n" % n for n in range(1000)))


async def huge_head(streams: Streams) -> None:
    streams[1].write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 100_000 + b"\r\n\r\n")
    await streams[0].read(1 << 16)


async def garbage(streams: Streams) -> None:
    streams[1].write(_random.randbytes(_random.randint(1, 20_000)))
    await streams[0].read(1 << 16)


async def answers_not_taken(streams: Streams) -> None:
    streams[0]._transport.pause_reading()  # type: ignore[attr-defined]  # asyncio hides it
    streams[1].write(GET * 3000)
    await asyncio.sleep(1)


async def slow_sender(streams: Streams) -> None:
    for letter in HEAD + b"content-length: 1000\r\n\r\n" + b" " * 1000:
        if streams[1].transport.is_closing():
            return
        streams[1].write(bytes([letter]))
        await asyncio.sleep(0.2)


async def idle(streams: Streams) -> None:
    await streams[0].read(1)


Attack = Callable[[Streams], Awaitable[None]]
ATTACKS: dict[Attack, tuple[int, float]] = {
    pipelining_and_close: (4, 0.02),
    gone_half_way: (4, 0.02),
    endless_trailers: (1, 0.1),
    endless_chunk_extensions: (1, 0.1),
    blank_lines_in_tiny_chunks: (1, 0.1),
    endless_head: (1, 0.1),
    huge_head: (1, 0.1),
    garbage: (2, 0.02),
    answers_not_taken: (1, 0.1),
    slow_sender: (SLOW, 0.1),
    idle: (IDLE, 0.5),
}
"""How many run concurrently, and the seconds between one and the next."""


async def attack(port: int, seconds: float) -> dict[str, int]:
    """Run all of them at once; return how often each was made."""
    until, made = time.monotonic() + seconds, Counter[str]()

    async def repeat(kind: Attack, pause: float) -> None:
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(OSError, TimeoutError):
                streams = await asyncio.open_connection("127.0.0.1", port)
                made[kind.__name__] += 1
                try:
                    async with asyncio.timeout(left):
                        await kind(streams)
                finally:
                    streams[1].transport.abort() if kind is answers_not_taken else streams[1].close()
            await asyncio.sleep(pause)

    await asyncio.gather(*(repeat(kind, pause) for kind, (many, pause) in ATTACKS.items() for _ in range(many)))
    return dict(made)


# ---------------------------------------------------------------------- good


class Good:
    """Requests that must not fail, and how long they took."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port, self._until = port, time.monotonic() + seconds
        self.times: list[float] = []
        self.failures: list[str] = []

    async def run(self) -> None:
        body = json.dumps({"users": ["7"], "k": 10}).encode()
        lists = b"%sauthorization: Bearer %s\r\ncontent-length: %d\r\n\r\n%s"
        wanted = lists % (HEAD, TOKEN.encode(), len(body), body)
        health = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        await asyncio.gather(
            *(self._kept(wanted, 0.01) for _ in range(4)),
            *(self._fresh(wanted, 0.02) for _ in range(2)),
            self._fresh(health, 0.05),
        )

    async def _kept(self, request: bytes, pause: float) -> None:
        """Send all requests over one connection."""
        streams = None
        while time.monotonic() < self._until:
            with self._noted("kept"):
                streams = streams or await asyncio.open_connection("127.0.0.1", self._port)
                await self._asked(streams, request)
                await asyncio.sleep(pause)
                continue
            streams = None

    async def _fresh(self, request: bytes, pause: float) -> None:
        while time.monotonic() < self._until:
            with self._noted("fresh"):
                streams = await asyncio.open_connection("127.0.0.1", self._port)
                await self._asked(streams, request)
                streams[1].close()
            await asyncio.sleep(pause)

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, ValueError, asyncio.IncompleteReadError) as error:
            self.failures.append(f"{what}: {error!r}")

    async def _asked(self, streams: Streams, request: bytes) -> None:
        start = time.perf_counter()
        streams[1].write(request)
        async with asyncio.timeout(30):
            head = await streams[0].readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await streams[0].readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(head.partition(b"\r\n")[0].decode())
        self.times.append(time.perf_counter() - start)


# ---------------------------------------------------------------------- the service


@contextmanager
def running(folder: Path, workers: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "purerec.cli", "serve", str(folder), "--port", "0", "--workers", str(workers)]
    with tempfile.TemporaryFile() as log:
        env = {**os.environ, "PUREREC_TOKEN": TOKEN}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env)
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().rpartition(":")[2]), process
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def memory_mb(pid: int) -> float:
    """Memory of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in [pid, *map(int, children)])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def held(workers: int, seconds: float, folder: Path) -> dict[str, Any]:
    """One run: the results of the good requests, the attacks made, and the memory."""
    with running(folder, workers) as (port, process):
        memory: list[float] = []

        async def watch() -> None:
            while True:
                memory.append(memory_mb(process.pid))
                await asyncio.sleep(0.2)

        await Good(port, 1.0).run()  # warm up
        before = memory_mb(process.pid)
        watching = asyncio.create_task(watch())
        command = [sys.executable, __file__, "--attack", str(port), str(seconds)]
        attacker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        good = Good(port, seconds)
        await good.run()
        made = json.loads((await attacker.communicate())[0])
        watching.cancel()
        ended = process.poll()
    times = np.array(good.times) * 1e3
    thirds = np.array_split(np.array(memory), 3)
    return {
        "workers": workers,
        "seconds": seconds,
        "good": len(good.times) + len(good.failures),
        "failed": len(good.failures),
        "failures": dict(Counter(good.failures).most_common(5)),
        "p50_ms": round(float(np.quantile(times, 0.5)), 1),
        "p99_ms": round(float(np.quantile(times, 0.99)), 1),
        "max_ms": round(float(times.max()), 1),
        "hostile": made,
        "memory_mb": {
            "before": round(before, 1),
            "first_third": round(float(thirds[0].mean()), 1),
            "last_third": round(float(thirds[-1].mean()), 1),
            "peak": round(max(memory), 1),
        },
        "alive": ended is None,
    }


def fitted(place: Path) -> Path:
    import purerec as pr

    rng = np.random.default_rng(0)
    data = pr.Interactions.from_columns(rng.integers(0, 500, 20_000), rng.integers(0, 800, 20_000), name="made up")
    return pr.make_model("ials", dim=8).fit(data, seed=0).save(place / "model")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--attack", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most) if most > 0 else 4096, most))
    if options.attack:
        print(json.dumps(asyncio.run(attack(int(options.attack[0]), float(options.attack[1])))))
        return 0
    load = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as name:
        folder = fitted(Path(name))
        runs = [asyncio.run(held(int(n), options.seconds, folder)) for n in options.workers.split(",")]
    result = {"cpus": os.cpu_count(), "load_before": load, "runs": runs}
    if options.json is not None:
        write_results(options.json, result)
    for run in runs:
        memory = run["memory_mb"]
        print(
            f"{run['workers']} workers: {run['good']} good requests, {run['failed']} failed {run['failures']}, "
            f"p99 {run['p99_ms']} ms; {sum(run['hostile'].values())} hostile connections; "
            f"memory {memory['first_third']} -> {memory['last_third']} MB, peak {memory['peak']}"
        )
    return int(any(run["failed"] or not run["alive"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
