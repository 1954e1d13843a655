"""Reading a data set gives the same as reading its files, whatever the size of the pieces."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import purerec as pr
from conftest import need
from purerec.data.large.dataset import Dataset
from purerec.data.large.places import Place
from purerec.errors import ConfigError, DataError, ReadError, StoreError
from purerec.storage.ingest import ingest as module


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces of a few kilobytes, so that a small file has several."""
    monkeypatch.setattr(module, "_FEWEST_MB", 0)


MB = 16 * 4096 / 2**20
"""For pieces of 4 kB"""


def same(one, other):
    assert one.fingerprint == other.fingerprint
    assert one.users == other.users
    assert one.items == other.items
    labels = (one.item_labels, other.item_labels)
    assert labels == (None, None) or labels[0].equals(labels[1])


def write(path, rows, header="user,item,rating,timestamp"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def some_rows(n=800, seed=0):
    rng = np.random.default_rng(seed)
    return [
        f"{rng.integers(0, 90)},i{rng.integers(0, 40)},{rng.integers(1, 6)},{1_500_000_000 + rng.integers(0, 9)}"
        for _ in range(n)
    ]


def test_a_data_set_is_its_file(tmp_path):
    path = write(tmp_path / "log.csv", some_rows())
    found = pr.ingest(path, tmp_path / "out", partitions=4, memory_mb=MB)
    same(pr.read(tmp_path / "out"), pr.read(path))
    assert pr.read(tmp_path / "out").name == "log"
    assert found.facts.rows == 800
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.csv", "out"]


IDS = st.one_of(st.integers(-5, 30).map(str), st.sampled_from(["007", "a", "Ünal", 'say "hi"', "x,y", "two\nlines"]))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(IDS, IDS), min_size=1, max_size=40), parts=st.integers(1, 3), size=st.integers(60, 400)
)
def test_whatever_the_ids_and_the_pieces(tmp_path_factory, rows, parts, size):
    folder = tmp_path_factory.mktemp("any")
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    path = write(folder / "log.csv", quoted, header="user,item")
    pr.ingest(path, folder / "out", partitions=parts, memory_mb=16 * size / 2**20)
    same(pr.read(folder / "out"), pr.read(path))


def test_files_of_all_kinds_are_one_log(tmp_path):
    need("pyarrow")
    rows = some_rows(900)
    whole = pr.read(write(tmp_path / "whole.csv", rows))
    one = write(tmp_path / "1.csv", rows[:300])
    with gzip.open(tmp_path / "2.csv.gz", "wt") as file:
        file.write("\n".join(["user,item,rating,timestamp", *rows[300:600]]))
    table = pr.read(write(tmp_path / "rest.csv", rows[600:]))
    pl.DataFrame(
        {
            "user": table.users.take(table.user_idx),
            "item": table.items.take(table.item_idx),
            "rating": table.rating,
            "timestamp": table.timestamp,
        }
    ).write_parquet(tmp_path / "3.parquet")
    files = [one, tmp_path / "2.csv.gz", tmp_path / "3.parquet"]
    pr.ingest(files, tmp_path / "out", memory_mb=MB)
    same(pr.read(tmp_path / "out"), whole)


def test_one_id_that_is_no_number_makes_all_of_them_text(tmp_path):
    rows = [f"{n},1" for n in range(500)]
    path = write(tmp_path / "log.csv", [*rows, "007,2"], header="user,item")
    pr.ingest(path, tmp_path / "out", memory_mb=MB)
    found = pr.read(tmp_path / "out")
    assert found.users.find("007") is not None
    same(found, pr.read(path))


def test_titles_and_times_of_different_units(tmp_path):
    rows = [f"{n % 7},{n % 5},{1_500_000_000 + n},Film {n % 5}" for n in range(200)]
    seconds = write(tmp_path / "s.csv", rows, header="user,item,timestamp,title")
    millis = write(
        tmp_path / "ms.csv",
        [f"{n % 7},{n % 5},{(1_600_000_000 + n) * 1000},Film {n % 5}" for n in range(200)],
        header="user,item,timestamp,title",
    )
    pr.ingest([seconds, millis], tmp_path / "out", memory_mb=MB)
    found = pr.read(tmp_path / "out")
    assert found.time_unit == "ms"
    assert found.timestamp[0] == 1_500_000_000_000
    assert found.timestamp[-1] == 1_600_000_199_000
    assert [found.label(n) for n in range(5)] == [f"Film {n}" for n in range(5)]


def test_a_part_has_its_users_and_nothing_else(tmp_path):
    path = write(tmp_path / "log.csv", some_rows())
    found = pr.ingest(path, tmp_path / "out", partitions=5, memory_mb=MB)
    for name in found.facts.sha256:
        if "00003" in name or "00001" in name:
            continue
        if not name.startswith("items"):
            (tmp_path / "out" / name).unlink()  # a worker reads only its own
    part = found.read_parts([3, 1])
    whole = pr.read(path)
    assert len(part) == found.facts.part_rows[3] + found.facts.part_rows[1]
    assert len(part.users) == found.facts.part_users[3] + found.facts.part_users[1]
    for user in list(part.users)[:10]:
        own, here = (log.pairs.row(log.users.index(user)) for log in (part, whole))
        assert sorted(part.items.take(own)) == sorted(whole.items.take(here))


BAD = [
    ("5,i1,4,1500000000\n7,i2,x,1500000000", "row {row} has the rating 'x'"),
    ("5,i1,4,1500000000\n7,,4,1500000000", "row {row} has no item"),
    ("5,i1,4,1500000000\n7,i2,4", "row {row} has 3 fields where the first has 4"),
    ("5,i1,4,1500000000\n7,i2,4,-3", "row {row} has the timestamp -3"),
]


@pytest.mark.parametrize(("tail", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_row_is_named_with_its_file(tmp_path, tail, message):
    good = write(tmp_path / "good.csv", some_rows())
    bad = write(tmp_path / "bad.csv", [*some_rows(700), tail, *some_rows(5)])
    with pytest.raises(ReadError) as caught:
        pr.ingest([good, bad], tmp_path / "out", memory_mb=MB)
    assert message.format(row=703) in str(caught.value)
    assert "bad.csv" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "good.csv"]


def test_what_cannot_be_ingested(tmp_path):
    good = write(tmp_path / "good.csv", some_rows(20))
    other = write(tmp_path / "other.csv", ["1,2"], header="user,item")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "lists.txt").write_text("0 10 11 17\n1 10\n2 4 5\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    (tmp_path / "mac.csv").write_bytes(b"user,item\r1,2\r1,3\r")
    rest = write(tmp_path / "rest.csv", ["tea,anna", "milk,bob"], header="jam,carl")
    sessions = write(tmp_path / "sessions.csv", ["7,3"], header="session,item")
    table = tmp_path / "table.parquet"
    pl.DataFrame({"item": ["tea"], "user": ["anna"]}).write_parquet(table)
    out = tmp_path / "out"
    for files, error, message in [
        ([good, other], ReadError, "other.csv: has no rating, and"),
        ([other, rest], ReadError, "rest.csv: has no header, and .*other.csv has"),
        ([rest, other], ReadError, "rest.csv: has no header, and .*other.csv has"),
        ([other, sessions], ReadError, "the user is in the column 'session', and in .*other.csv it is in 'user'"),
        ([table, rest], ReadError, "rest.csv: has no header, and .*table.parquet has"),
        ([tmp_path / "none.csv"], ReadError, "no such file"),
        ([tmp_path / "empty"], ReadError, "no CSV or Parquet files"),
        ([tmp_path / "empty.csv"], ReadError, "the file is empty"),
        ([tmp_path / "lists.txt"], ReadError, "on each line"),
        ([tmp_path / "mac.csv"], ReadError, "its lines end in CR alone"),
        ([], ConfigError, "no files"),
    ]:
        with pytest.raises(error, match=message):
            pr.ingest(files, out, memory_mb=MB)
        assert not out.exists()
    with pytest.raises(StoreError, match="holds other files"):
        pr.ingest(good, tmp_path / "full", memory_mb=MB)
    with pytest.raises(ConfigError, match="partitions must be from 1"):
        pr.ingest(good, out, partitions=0)
    assert (tmp_path / "full" / "letter.txt").read_text() == "dear"


def test_a_table_cut_into_files_with_columns_by_number(tmp_path):
    """Only the first part has the header."""
    rows = ["tea,anna", "milk,bob", "tea,carl"]
    whole = write(tmp_path / "whole.csv", rows, header="sku,customer")
    first, rest = write(tmp_path / "first.csv", rows[:1], header="sku,customer"), tmp_path / "rest.csv"
    rest.write_text("\n".join(rows[1:]) + "\n")
    pr.ingest([first, rest], tmp_path / "out", item=0, user=1)
    same(pr.read(tmp_path / "out"), pr.read(whole))


@pytest.mark.parametrize(("encoding", "heading"), [("latin-1", "catégorie"), ("cp1251", "название категории")])
@pytest.mark.parametrize("packed", [False, True])
def test_other_encodings(tmp_path, encoding, heading, packed):
    """A letter may have more bytes in UTF-8 than in the file."""
    rows = [f"{n},{n + 100},{heading}" for n in range(100, 600)]
    path = tmp_path / "log.csv"
    content = "\n".join([f"user,item,{heading}", *rows, ""]).encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    pr.ingest(path, tmp_path / "out", encoding=encoding, memory_mb=MB)
    same(pr.read(tmp_path / "out"), pr.read(path, encoding=encoding))


def test_damage_is_found(tmp_path):
    path = write(tmp_path / "log.csv", some_rows())
    out = tmp_path / "out"
    pr.ingest(path, out, partitions=2, memory_mb=MB)
    part = out / "part-00001.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:-5] + b"12345")
    with pytest.raises(ReadError, match=r"part-00001.parquet: is damaged"):
        pr.read(out)
    part.write_bytes(content)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["data"]["rows"] = 3
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ReadError, match=r"manifest.json is damaged"):
        pr.read(out)
    pr.ingest(path, out, memory_mb=MB)
    with pytest.raises(ReadError, match="columns are known"):
        pr.read(out, user="visitor")


def test_too_large_for_memory(tmp_path, monkeypatch):
    pr.ingest(write(tmp_path / "log.csv", some_rows()), tmp_path / "out", memory_mb=MB)
    monkeypatch.setattr("purerec.data.large.dataset.available_mb", lambda: 0.01)
    with pytest.raises(DataError, match="800 rows take some"):
        pr.read(tmp_path / "out")


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    path = write(tmp_path / "log.csv", some_rows(300))
    again = write(tmp_path / "more.csv", some_rows(300, seed=1))
    out, real, calls = tmp_path / "out", module.spill, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(module, "spill", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pr.ingest([path, again], out, memory_mb=MB)
    assert not out.exists()
    with pytest.raises(StoreError, match="the files of the interrupted run differ"):
        pr.ingest([again, path], out, memory_mb=MB, resume=True)
    before = len(calls)
    found = pr.ingest([path, again], out, memory_mb=MB, resume=True)
    monkeypatch.setattr(module, "spill", real)
    assert found.facts == pr.ingest([path, again], tmp_path / "at once", memory_mb=MB).facts
    assert 0 < len(calls) - before < 6
    assert not (tmp_path / "out.ingest").exists()


def test_a_killed_run_goes_on(tmp_path):
    path = write(tmp_path / "log.csv", some_rows(4_000))
    whole = pr.ingest(path, tmp_path / "whole", memory_mb=MB, partitions=16)
    code = (
        "import purerec.storage.ingest.ingest as m; m._FEWEST_MB = 0; "
        f"m.ingest({str(path)!r}, {str(tmp_path / 'out')!r}, memory_mb={MB}, partitions=16)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    pieces = tmp_path / "out.ingest"
    while not (pieces / "000005").exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out").exists()
    assert pr.ingest(path, tmp_path / "out", memory_mb=MB, partitions=16, resume=True).facts == whole.facts


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_places_that_fsspec_reaches(tmp_path, scheme, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    need("pyarrow")
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "log.csv", some_rows())
    root = f"file://{tmp_path}/there" if scheme == "file" else "memory://there"
    system, place = fsspec.core.url_to_fs(root)
    system.makedirs(place, exist_ok=True)
    system.pipe_file(f"{place}/log.csv", path.read_bytes())
    found = pr.ingest(f"{root}/log.csv", f"{root}/out", memory_mb=MB, partitions=3)
    same(pr.read(f"{root}/out"), pr.read(path))
    assert Dataset.open(Place(f"{root}/out")).facts == found.facts
    assert len(found.read_parts([0])) == found.facts.part_rows[0]
    with pytest.raises(ReadError, match="there is no such file"):
        pr.ingest(f"{root}/none.csv", tmp_path / "x")
    with pytest.raises(ReadError, match="text at a URL"):
        pr.read(f"{root}/log.csv")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".purerec")] == []


def test_a_folder_of_parquet_files_as_spark_writes_it(tmp_path):
    folder = tmp_path / "clicks"
    folder.mkdir()
    rows = some_rows(90)
    path = write(tmp_path / "clicks.csv", rows)
    table = pl.read_csv(path)
    table[:40].write_parquet(folder / "part-00000.snappy.parquet")
    table[40:].write_parquet(folder / "part-00001.snappy.parquet")
    (folder / "_SUCCESS").write_text("")
    same(pr.read(folder), pr.read(path))
    table[:5].with_columns(pl.lit(None, dtype=pl.String).alias("item")).write_parquet(folder / "part-2.parquet")
    with pytest.raises(ReadError, match=r"part-2.parquet: row 0 has no item"):
        pr.read(folder)
