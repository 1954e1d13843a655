"""Bad files and tables: they are refused with one sentence, or read correctly, but never cause an internal error."""

import datetime as dt
import decimal
import gzip
import os
import random
import socket
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from attack.inputs import GOOD, ends_well, refused, write
from purerec.data.readers import read, read_labels
from purerec.data.text import contents
from purerec.errors import ConfigError, DataError, ReadError
from purerec.models.registry import REGISTRY, make_model, model_class
from purerec.tuning.settings_file import settings_from

# ---------------------------------------------------------------------- not a file, or damaged


def test_paths_that_lead_to_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s.csv"))
    listening.close()
    assert "is a directory" in refused(tmp_path)
    assert "is a pipe" in refused(tmp_path / "pipe.csv")  # and does not wait for a writer
    assert "is a socket" in refused(tmp_path / "s.csv")
    assert "is a device" in refused(Path("/dev/null"))
    assert "no such file" in refused(tmp_path / "nothing.csv")
    assert "Not a directory" in refused(write(tmp_path, "a.csv", GOOD) / "b.csv")
    assert "File name too long" in refused(tmp_path / ("x" * 300 + ".csv"))
    assert len(refused(tmp_path.joinpath(*["x" * 200] * 40))) < 600
    assert "embedded null" in refused("a\0b.csv")
    for suffix in (".parquet", ".csv.gz"):
        assert "no such file" in refused(tmp_path / f"nothing{suffix}")


def test_what_may_not_be_read(tmp_path, monkeypatch):
    path = write(tmp_path, "a.csv", GOOD)

    def denied(*_args, **_options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)
    assert "cannot be read (Permission denied)" in refused(path)
    monkeypatch.setattr(Path, "stat", denied)  # no permission to search the directory
    assert "cannot be opened (Permission denied)" in refused(path)
    assert "cannot be opened (Permission denied)" in refused(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", [b"\xff\xfe.csv", b"a\nb.csv", b"[a]*?.csv", b"\xff.parquet", b"[a]*?.parquet"])
def test_files_with_strange_names_are_read(tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    if path.suffix == ".parquet":
        path.write_bytes(read_bytes_of_parquet(pl.DataFrame({"user": [1], "item": [2]}), tmp_path))
    else:
        path.write_bytes(GOOD)
    data = read(path)
    assert data.name.isprintable()
    data.name.encode()  # no lone surrogates: the name goes into JSON and onto the screen


def read_bytes_of_parquet(table, folder):
    table.write_parquet(folder / "plain.parquet")
    return (folder / "plain.parquet").read_bytes()


def test_damaged_gzip_files(tmp_path):
    packed = gzip.compress(GOOD)
    for at in range(10, len(packed) - 1, 7):
        broken = bytearray(packed)
        broken[at] ^= 0xFF
        assert "the gzip file is damaged" in refused(write(tmp_path, "a.csv.gz", bytes(broken)))
    for end in (3, 11, 50, len(packed) - 1):
        assert "damaged" in refused(write(tmp_path, "a.csv.gz", packed[:end]))
    assert "damaged" in refused(write(tmp_path, "a.csv.gz", packed + b"junk"))


def test_a_small_file_that_unpacks_to_more_than_memory(tmp_path, monkeypatch):
    path = write(tmp_path, "a.csv.gz", gzip.compress(b"user,item\n" + b"1,2\n" * 15_000_000, 1))
    assert path.stat().st_size < 500_000
    monkeypatch.setattr(contents, "_available_memory", lambda: 40_000_000)
    assert "does not fit into memory" in refused(path)


@pytest.mark.parametrize(
    "encoding", ["zip", "rot13", "base64", "hex", "bz2", "klingon", "", "undefined", "a\0b", "\udcff"]
)
def test_encodings_that_are_none_of_text(tmp_path, encoding):
    with pytest.raises(ReadError, match="not a text encoding"):
        read(write(tmp_path, "a.csv", GOOD), encoding=encoding)
    with pytest.raises(ReadError, match="not a text encoding"):
        read_labels(write(tmp_path, "t.csv", "item,title\n1,a\n"), encoding=encoding)


def test_files_in_another_encoding(tmp_path):
    text = "user,item\nann,1\nJosé,2\n"
    assert read(write(tmp_path, "a.csv", text.encode("utf-16")), encoding="utf-16").users.find("José") is not None
    assert "is UTF-16, not UTF-8" in refused(write(tmp_path, "a.csv", text.encode("utf-16")))
    assert "row 3 is not UTF-8 (byte 0xe9)" in refused(write(tmp_path, "a.csv", text.encode("latin-1")))
    assert "row 3 is not ascii" in refused(write(tmp_path, "a.csv", text), encoding="ascii")
    assert "is not utf-32" in refused(write(tmp_path, "a.csv", text), encoding="utf-32")
    far = "user,item\n" + "ann,1\n" * 20_000
    assert "row 20002 is not UTF-8" in refused(write(tmp_path, "a.csv", far.encode() + b"\xff,2\n"))
    long = "user,item\n" + "é" * 100_000 + ",1\n"  # looking at the start cuts it in the middle of a character
    assert read(write(tmp_path, "a.csv", long)).n_users == 1


def test_nul_bytes(tmp_path):
    assert "binary file" in refused(write(tmp_path, "a.csv", b"user,item\na\0b,1\n"))
    far = b"user,item\n" + b"ann,1\n" * 20_000
    assert "row 20002 has the user 'a\\x00b', which is not a valid id" in refused(
        write(tmp_path, "a.csv", far + b"a\0b,2\n")
    )


# ---------------------------------------------------------------------- columns of other types

TIME = dt.datetime(2001, 1, 1, 12)
NO_IDS = {
    "list": pl.Series([[1], [2]]),
    "array": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
    "struct": pl.Series([{"a": 1}, {"a": 2}]),
    "binary": pl.Series([b"a", b"\xff"]),
    "duration": pl.Series([dt.timedelta(1), dt.timedelta(2)]),
    "boolean": pl.Series([True, False]),
    "date": pl.Series([TIME.date(), TIME.date()]),
    "datetime": pl.Series([TIME, TIME]),
    "time": pl.Series([dt.time(1), dt.time(2)]),
}


MEANINGLESS = [
    (kind, role)
    for kind in NO_IDS
    for role in ("user", "item", "rating", "timestamp", "title")
    if role != "timestamp" or kind not in ("date", "datetime")
]


@pytest.mark.parametrize(("kind", "role"), MEANINGLESS)
def test_columns_of_a_type_that_means_nothing_here(tmp_path, kind, role):
    table = pl.DataFrame({"user": [1, 2], "item": [1, 2]}).with_columns(NO_IDS[kind].alias(role))
    table.write_parquet(tmp_path / "a.parquet")
    name = "label" if role == "title" else role
    assert f"the column of the {name} has values of type {kind}" in refused(tmp_path / "a.parquet")
    with pytest.raises(ReadError, match=f"of type {kind}"):
        read(table)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "b"]),
        (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])), ["a", "b"]),
        (pl.Series([7, 9], dtype=pl.Decimal(38, 0)), [7, 9]),
        (pl.Series([7.0, 9.0], dtype=pl.Float32), [7, 9]),
        (pl.Series([7, 2**64 - 1], dtype=pl.UInt64), ["18446744073709551615", "7"]),
        (pl.Series([7, 2**100], dtype=pl.Int128), ["1267650600228229401496703205376", "7"]),
        (pl.Series([-7, 9], dtype=pl.Int8), [-7, 9]),
    ],
)
def test_ids_of_other_types_that_are_exact(tmp_path, ids, expected):
    pl.DataFrame({"user": ids, "item": [1, 2]}).write_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").users.ids.to_list() == expected


@pytest.mark.parametrize(
    "ids",
    [[1.5, 2.0], [float("inf"), 1.0], [1e300, 1.0], [2.0**60, 1.0], [decimal.Decimal("1.5"), decimal.Decimal(2)]],
)
def test_ids_that_are_not_exact(ids):
    with pytest.raises(ReadError, match=r"row 0 has the user .*(a fraction|too large)"):
        read(pl.DataFrame({"user": ids, "item": [1, 2]}))
    with pytest.raises(ReadError, match="row 1 has no user"):
        read(pl.DataFrame({"user": [ids[1], float("nan")], "item": [1, 2]}, strict=False))


def test_damaged_parquet_files(tmp_path):
    table = pl.DataFrame({"user": np.arange(1000) % 50, "item": np.arange(1000) % 30})
    whole = read_bytes_of_parquet(table, tmp_path)
    for end in (0, 4, 100, len(whole) - 1):
        assert "not a readable Parquet file" in refused(write(tmp_path, "a.parquet", whole[:end]))
    assert "name it .parquet" in refused(write(tmp_path, "a.csv", whole))
    rng = random.Random(0)
    for _ in range(50):
        broken = bytearray(whole)
        broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        ends_well(lambda path: read(path), write(tmp_path, "b.parquet", bytes(broken)))


# ---------------------------------------------------------------------- ratings, times, titles


@pytest.mark.parametrize("rating", ["1e400", "-1e400", "1e39", "nan", "inf", "four", "0x10", "--4", "1 000", "٣"])
def test_ratings_that_are_none(tmp_path, rating):
    message = refused(write(tmp_path, "a.csv", f"user,item,rating\n1,2,3\n\n1,3,{rating}\n"))
    assert f"row 4 has the rating {rating}" in message.replace("'", "")


@pytest.mark.parametrize(
    "stamp",
    ["10000-01-01", "1e400", "9" * 30, "9" * 5000, "9223372036854775807", "-1", "nan", "2001-02-30", "x", "1e19",
     "5000000000", "1969-12-31", "2101-01-01"],
)  # fmt: skip
@pytest.mark.parametrize("others", ["978300760", "978300760.5", "2001-01-01", "2001-01-01 10:00:00"])
def test_times_that_are_none_or_unlike_the_others(tmp_path, stamp, others):
    rows = f"user,item,timestamp\n1,2,{others}\n1,3,{others}\n1,4,{stamp}\n2,2,{others}\n"
    assert "row 4 has the timestamp" in refused(write(tmp_path, "a.csv", rows))


@pytest.mark.parametrize("date", [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)])
def test_dates_far_away(date):
    with pytest.raises(ReadError, match=r"row 1 has the timestamp .*, (before 1970|after 2100)"):
        read(pl.DataFrame({"user": [1, 2], "item": [1, 2], "timestamp": [dt.date(2001, 1, 1), date]}))


def test_times_that_are_all_too_late_for_seconds():
    with pytest.raises(ReadError, match="row 0 has the timestamp 5000000000, far from the others"):
        read(pl.DataFrame({"user": [1, 2], "item": [1, 2], "timestamp": [5_000_000_000, 5_000_000_001]}))


def test_titles_files(tmp_path):
    write(tmp_path, "t.csv", "item,title\n1,One\n1,Uno\n\n2,Two\n3,\n")
    assert read_labels(tmp_path / "t.csv") == {"1": "One", "2": "Two"}
    for name, content, message in (
        ("a.csv", "item,price\n1,2\n", "no column is recognised as the label"),
        ("a.csv", "price,title\n1,2\n", "no column is recognised as the item"),
        ("a.csv", "", "is empty"),
        ("a.csv", "item,title\n", "there are no interactions"),
        ("a.csv", "item,title\n1,a,b\n", "row 2 has 3 fields"),
        ("a.csv.gz", gzip.compress(b"item,title\n")[:15], "damaged"),
        ("a.parquet", b"PAR1", "titles are read from text"),
    ):
        with pytest.raises(ReadError, match=message):
            read_labels(write(tmp_path, name, content))
    with pytest.raises(ReadError, match="is a directory"):
        read_labels(tmp_path)


@pytest.mark.parametrize("threshold", [True, "4", float("nan"), float("inf"), [4]])
def test_thresholds_that_are_no_numbers(tmp_path, threshold):
    path = write(tmp_path, "a.csv", GOOD)
    with pytest.raises(DataError, match="must be a finite number"):
        read(path, positive_rating=threshold)
    with pytest.raises(DataError, match="must be a finite number"):
        read(path).filter(min_rating=threshold)


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize("name", REGISTRY)
def test_truth_values_and_fractions_are_no_numbers(name):
    for field, about in model_class(name).config_class.model_fields.items():
        kind = str(about.annotation)
        if about.annotation is not bool:
            with pytest.raises(ConfigError, match=f"{field}=True"):
                make_model(name, **{field: True})
        if "int" in kind or "float" in kind:
            with pytest.raises(ConfigError, match=f"{field}='True'"):
                make_model(name, **{field: "True"})
        if "int" in kind:
            for fraction in (2.5, "2.5"):
                with pytest.raises(ConfigError, match=field):
                    make_model(name, **{field: fraction})


def test_numbers_as_text_are_converted():
    model = make_model("bpr", dim="8", epochs="3", learning_rate="1e-2", regularization="none")
    assert (model.config.dim, model.config.epochs, model.config.learning_rate) == (8, 3, 0.01)
    assert model.config.regularization is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a = " + "[" * 100_000, "nested too deeply|not TOML"),
        ("[models.bpr]\nsettings = { dim = true }", "dim=True must be a number or text"),
        ("[models.bpr]\nsettings = { dim = 2.5 }", "dim=2.5"),
        ("[models.bpr]\nsettings = { dim = [1] }", r"dim=\[1\]"),
        ("[models.bpr]\nsettings = { dim = 1979-05-27 }", "dim="),
        ("[models.bpr]\nsettings = { dim = " + "9" * 5000 + " }", "not TOML"),
        ("[models.bpr]\nsettings = 3", r"models\.bpr\.settings=3 should be a valid dictionary .*purerec tune --out"),
        ("models = 3", "no settings under"),
        ("\0", "not TOML"),
    ],
)
def test_settings_files(tmp_path, content, message):
    with pytest.raises(ConfigError, match=message):
        settings_from(write(tmp_path, "s.toml", content), "bpr")
