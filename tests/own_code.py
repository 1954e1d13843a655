"""Custom code for a test: modules that only it can import, and names that are unregistered afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from purerec.data.plugins import named, readers
from purerec.evaluation import own
from purerec.models import registry


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, whose modules are found there and nowhere else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_OWN", {})
    monkeypatch.setattr(own, "_OWN", {})
    monkeypatch.setattr(readers, "_READERS", {})
    monkeypatch.delenv(named.IMPORT_FIRST, raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and Path(str(sys.modules[name].__file__)).parent == tmp_path:
            del sys.modules[name]
