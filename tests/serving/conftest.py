"""Servers run as in practice: another process, a free port on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest

from purerec.data.interactions import Interactions
from purerec.data.items.reading import read_items
from purerec.data.items.table import ItemTable
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import make_model

MARKUP = '<img src=x onerror="alert(1)"> & Söhne'
TOKEN = "a-token-for-tests-only-0123456789"


def tiny_log(seed: int = 0) -> Interactions:
    """40 people with two tastes, 60 items, some without a title and one with markup; ids that need quoting."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(np.add.outer(np.arange(40), np.arange(60)) % 2 == 0)
    kept = rng.random(len(user)) < 0.4
    users = np.array([*(f"u{n}" for n in range(37)), "196", "a/b c", "Jürgen?"])
    items = np.array([*(f"i{n}" for n in range(55)), "50", "181", "172", "x/y", "50%"])
    log = Interactions.from_columns(users[user[kept]], items[item[kept]], name="tiny")
    titles = {f"i{n}": f"Story {n} of the {'Sea' if n % 2 else 'Star'}" for n in range(55)}
    titles |= {"i0": MARKUP, "x/y": "Amélie à Paris"}
    return log.with_labels(titles)


def fitted(seed: int = 0, name: str = "ials", **settings: Any) -> Recommender:
    settings = settings or ({"dim": 4} if name == "ials" else {})
    return make_model(name, **settings).fit(tiny_log(seed), seed=seed)


def item_table() -> ItemTable:
    """Genres, years and stock of the numbered items, and of two that nobody had."""
    n = range(57)
    columns = {"genre": [("Sea|Ship" if i % 2 else "Star") for i in n], "year": [1960 + i for i in n]}
    stock = {"in_stock": [i % 3 > 0 for i in n], "poster": [f"/posters/{i}.png" for i in n]}
    return read_items(pl.DataFrame({"item": [f"i{i}" for i in n], **columns, **stock}))


@pytest.fixture(scope="session")
def model() -> Recommender:
    return fitted().set_items(item_table())


@pytest.fixture(scope="session")
def folder(model: Recommender, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("serving") / "model", metrics={"P@5": 0.5})


class Served:
    """A running service."""

    def __init__(self, folder: Path, *options: str, token: str | None = None) -> None:
        env = {k: v for k, v in os.environ.items() if k != "PUREREC_TOKEN"}
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the service
        self.process = subprocess.Popen(
            [sys.executable, "-m", "purerec.cli", "serve", str(folder), "--port", "0", *options],
            env=env | ({"PUREREC_TOKEN": token} if token else {}),
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("serving http://"):
            self.stop()
            said = self.lines()
            self.log.close()
            raise AssertionError(f"{line!r}, {said}")
        self.url = line.split()[1]
        self.port = int(self.url.rpartition(":")[2])
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    def get(self, path: str, **kwargs: Any) -> httpx.Response:
        return self.client.get(path, **kwargs)

    def post(self, path: str, body: Any, **kwargs: Any) -> httpx.Response:
        return self.client.post(path, json=body, **kwargs)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def raw(self, data: bytes) -> bytes:
        """Send bytes as they are and read until the other end closes."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)

    def lines(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()

    def close(self) -> None:
        self.client.close()
        self.stop()
        self.log.close()


def processes(service: Served) -> list[int]:
    """The service itself, then its workers."""
    pid = service.process.pid
    if not Path(f"/proc/{pid}/task").exists():
        pytest.skip("needs /proc")
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def read_all(connection: socket.socket) -> bytes:
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except (ConnectionResetError, BrokenPipeError):
        pass
    return b"".join(parts)


def problem_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of an answer, checked for its form."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert set(document) - {"errors"} == {"type", "title", "status", "detail", "instance"}
    assert document["status"] == status
    assert "Traceback" not in answer.text
    return document


def until(condition: Callable[[], Any], seconds: float = 15.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="session")
def served(folder: Path) -> Iterator[Served]:
    """Open to all, one process."""
    service = Served(folder, "--timeout", "2")
    yield service
    service.close()


@pytest.fixture(scope="session")
def guarded(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With a token, two workers, CORS for one origin."""
    copy = folder.with_name("guarded")
    fitted().save(copy)
    service = Served(copy, "--workers", "2", "--cors", "https://shop.example", token=TOKEN)
    yield service
    service.close()


def table(answer: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in answer]


def frame(found: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return found.select(columns).rows()
