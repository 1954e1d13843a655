"""Fixtures for the toy data set."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data.toy import Server
from purerec.data.catalog import CATALOG


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the real cache and data folders of the person who runs the tests."""
    monkeypatch.delenv("PUREREC_DATA", raising=False)
    monkeypatch.setenv("PUREREC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda entry: monkeypatch.setitem(CATALOG, "toy", entry)
