"""Where the files of a data set are: the user's own folder, the cache, or nowhere yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from data.toy import RATINGS, TITLES, Server, files_in, sha256, toy, zip_at
from purerec.data import catalog
from purerec.data.catalog import Wheel
from purerec.errors import FetchError

pytestmark = pytest.mark.usefixtures("own_cache")


def test_fetch_then_cache(server: Server, with_toy: Any, own_cache: Path, capfd: Any) -> None:
    with_toy(toy(zip_at(server)))
    data = catalog.load("toy")
    assert data.n_interactions == 3  # the repeated pair counts once, with its last rating
    assert data.n_positives == 1
    assert data.item_labels is not None
    assert data.item_labels.to_list() == ["Ten (1910)", "Twenty"]
    assert files_in(own_cache / "toy") == {"toy.tsv", "titles.tsv"}
    said = capfd.readouterr()
    assert said.out == ""
    assert "free" in said.err  # the licence
    catalog.load("toy", offline=True)
    assert catalog.fetch("toy") == own_cache / "toy"
    assert server.hits == ["/toy.zip"]


def test_quiet(server: Server, with_toy: Any, capfd: Any) -> None:
    with_toy(toy(zip_at(server)))
    catalog.load("toy", progress=False)
    assert capfd.readouterr() == ("", "")


def test_cache_dir_wins_over_the_environment(server: Server, with_toy: Any, tmp_path: Path) -> None:
    with_toy(toy(zip_at(server)))
    assert catalog.fetch("toy", cache_dir=tmp_path / "mine") == tmp_path / "mine" / "toy"


def test_own_folder_comes_first(server: Server, with_toy: Any, tmp_path: Path, monkeypatch: Any) -> None:
    with_toy(toy(zip_at(server)))
    folder = tmp_path / "data" / "toy"
    folder.mkdir(parents=True)
    (folder / "toy.tsv").write_bytes(RATINGS)
    monkeypatch.setenv("PUREREC_DATA", str(tmp_path / "data"))
    assert catalog.load("toy").item_labels is None  # no titles there, and none are needed
    assert server.hits == []


def test_damage_in_the_own_folder_is_told(
    server: Server, with_toy: Any, tmp_path: Path, own_cache: Path, monkeypatch: Any, caplog: Any
) -> None:
    with_toy(toy(zip_at(server)))
    folder = tmp_path / "data" / "toy"
    folder.mkdir(parents=True)
    (folder / "toy.tsv").write_bytes(RATINGS)
    (folder / "titles.tsv").write_bytes(b"1\tother titles\n")
    monkeypatch.setenv("PUREREC_DATA", str(tmp_path / "data"))
    assert catalog.load("toy").item_labels is None
    assert "continuing without titles" in caplog.text
    (folder / "toy.tsv").write_bytes(RATINGS[:-5])
    assert catalog.fetch("toy") == own_cache / "toy"
    assert "is damaged or a different file" in caplog.text
    assert "looking elsewhere" in caplog.text


@pytest.mark.parametrize("damaged", ["toy.tsv", "titles.tsv"])
@pytest.mark.parametrize("content", [b"", b"1\t10\t5\t100\n", RATINGS + b"9\t9\t9\t9\n", b"x" * 5000])
def test_damaged_cache_is_fetched_again(
    damaged: str, content: bytes, server: Server, with_toy: Any, own_cache: Path
) -> None:
    with_toy(toy(zip_at(server)))
    folder = catalog.fetch("toy")
    (folder / damaged).write_bytes(content)
    assert catalog.load("toy").n_interactions == 3
    assert server.hits == ["/toy.zip"] * 2
    assert (folder / "toy.tsv").read_bytes() == RATINGS
    assert (folder / "titles.tsv").read_bytes() == TITLES


def test_titles_that_cannot_be_mended_do_not_stop_us(server: Server, with_toy: Any, caplog: Any) -> None:
    with_toy(toy(zip_at(server)))
    (catalog.fetch("toy", progress=False) / "titles.tsv").write_bytes(b"?")
    server.content.clear()
    for offline in (True, False):
        data = catalog.load("toy", progress=False, offline=offline)
        assert data.n_interactions == 3
        assert data.item_labels is None
    assert "continuing without titles" in caplog.text


def test_offline_lists_the_sources(server: Server, with_toy: Any, own_cache: Path) -> None:
    with_toy(toy(zip_at(server), Wheel("toy==1", "0" * 64, (), lambda members: members)))
    with pytest.raises(FetchError) as caught:
        catalog.load("toy", offline=True)
    text = str(caught.value)
    for part in (
        "$PUREREC_DATA: not set",
        f"cache: {own_cache / 'toy'} has no toy.tsv",
        f"{server.url}/toy.zip: not asked, as offline",
        "pip download toy==1: not asked",
        "https://example.org/toy by hand",
        "set PUREREC_DATA to the folder that has toy/toy.tsv",
    ):
        assert part in text
    assert "\n" not in text
    assert server.hits == []


def start(server: Server) -> subprocess.Popen[str]:
    """Another process that fetches the toy data set into the same cache."""
    code = textwrap.dedent(f"""
        from purerec.data import catalog
        from purerec.data.catalog import Archive, CATALOG, Entry, File, FileLayout
        titles = File("titles.tsv", {sha256(TITLES)!r}, 1000)
        layout = FileLayout(File("toy.tsv", {sha256(RATINGS)!r}, 1000), (titles,))
        members = (("toy/titles.tsv", "titles.tsv"), ("toy/toy.tsv", "toy.tsv"))
        source = Archive({server.url + "/toy.zip"!r}, members)
        CATALOG["toy"] = Entry("toy", "Toy", "free", "", layouts=(layout,), sources=(source,))
        print(catalog.fetch("toy", progress=False))
    """)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, env={**os.environ})


def wait_for(condition: Any, limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def test_processes_at_once_download_once(server: Server, own_cache: Path) -> None:
    zip_at(server)
    server.stall_after, server.stall_s = 30, 1.0
    running = [start(server) for _ in range(3)]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, str(own_cache / "toy")), err
    assert server.hits == ["/toy.zip"]
    assert files_in(own_cache / "toy") == {"toy.tsv", "titles.tsv"}


def test_threads_at_once_download_once(server: Server, with_toy: Any) -> None:
    with_toy(toy(zip_at(server)))
    server.stall_after, server.stall_s = 30, 0.3
    threads = [threading.Thread(target=catalog.fetch, args=("toy",), kwargs={"progress": False}) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.hits == ["/toy.zip"]


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.glob(".part-*") if path.exists()] if folder.exists() else []


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
def test_an_interruption_leaves_no_half_file(server: Server, own_cache: Path) -> None:
    zip_at(server)
    server.stall_after, server.stall_s = 30, 3.0
    process = start(server)
    wait_for(lambda: server.hits and parts(own_cache / "toy"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    assert files_in(own_cache / "toy") == set()


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
def test_after_a_killed_process_the_next_one_succeeds(server: Server, with_toy: Any, own_cache: Path) -> None:
    source = zip_at(server)
    server.stall_after, server.stall_s = 30, 3.0
    process = start(server)
    wait_for(lambda: server.hits and parts(own_cache / "toy"))
    process.kill()
    process.communicate(timeout=30)
    assert parts(own_cache / "toy")  # nobody could clean up
    server.stall_s = 0.0
    with_toy(toy(source))
    catalog.fetch("toy", progress=False)
    assert files_in(own_cache / "toy") == {"toy.tsv", "titles.tsv"}


def test_interrupted_before_the_names_are_given(
    server: Server, with_toy: Any, own_cache: Path, monkeypatch: Any
) -> None:
    with_toy(toy(zip_at(server)))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        catalog.fetch("toy", progress=False)
    assert files_in(own_cache / "toy") == set()
