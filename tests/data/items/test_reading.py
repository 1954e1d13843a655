"""Item tables from files and frames."""

import numpy as np
import polars as pl
import pytest

import purerec as pr
from purerec.errors import ReadError

TEXT = """item_id,title,genre,year,in_stock,studio
1,Toy Story,Animation|Comedy,1995,yes,Pixar
2,GoldenEye,Action,1995,no,
3,Casablanca,Drama|Romance|Drama,1942,yes,Warner
x9,,,,,Warner
"""


@pytest.fixture
def table(tmp_path):
    (tmp_path / "items.csv").write_text(TEXT)
    return pr.read_items(tmp_path / "items.csv")


def test_kinds_are_told_apart(table):
    assert {name: column.kind for name, column in table.columns.items()} == {
        "genre": "tags",
        "year": "number",
        "in_stock": "flag",
        "studio": "text",
    }
    assert table.ids.to_list() == ["1", "2", "3", "x9"]
    assert table.titles.to_list() == ["Toy Story", "GoldenEye", "Casablanca", None]
    assert table.row(0) == {"genre": ["Animation", "Comedy"], "year": 1995, "in_stock": True, "studio": "Pixar"}
    assert table.row(2, ["GENRE"]) == {"GENRE": ["Drama", "Romance"]}
    assert table.row(3) == {"studio": "Warner"}


def test_frames(table):
    frame = pl.DataFrame(
        {
            "sku": [7, 8],
            "price": [1.5, None],
            "new": [True, None],
            "tags": [["a", "b"], None],
            "poster": ["/p/7.png", None],
        }
    )
    found = pr.read_items(frame)
    assert found.row(0) == {"price": 1.5, "new": True, "tags": ["a", "b"], "poster": "/p/7.png"}
    assert found.row(1) == {}
    assert found.image == "poster"
    assert table.image is None
    pandas = pytest.importorskip("pandas")
    assert pr.read_items(pandas.DataFrame({"id": ["a"], "size": [3]})).row(0) == {"size": 3}


def test_other_separators_encodings_and_parquet(tmp_path):
    (tmp_path / "a.tsv").write_bytes("name\tid\tcolour\nKäse\tk1\tgelb\n".encode("latin-1"))
    found = pr.read_items(tmp_path / "a.tsv", encoding="latin-1")
    assert (found.ids.to_list(), found.titles.to_list(), found.row(0)) == (["k1"], ["Käse"], {"colour": "gelb"})
    pl.DataFrame({"item": [1], "size": [2]}).write_parquet(tmp_path / "a.parquet")
    assert pr.read_items(tmp_path / "a.parquet").row(0) == {"size": 2}


def test_aligned_with_the_items_of_a_model(table):
    data = pr.Interactions.from_columns([1, 1, 2], ["3", "1", "nowhere"])
    found = table.aligned(data.items)
    assert found.n_warm == 3
    assert found.ids.to_list() == [*data.items.ids.to_list(), "2", "x9"]
    assert found.row(data.items.index("3"))["year"] == 1942
    assert found.row(data.items.index("nowhere")) == {}
    assert found.titles[data.items.index("nowhere")] is None
    assert found.row(3) == table.row(1)
    again = found.aligned(pr.Interactions.from_columns([1], ["2"]).items)
    assert (again.n_warm, again.row(0)) == (1, table.row(1))
    whole = pr.read_items(pl.DataFrame({"item": [1, 2], "a": [1, 2]})).aligned(
        pr.Interactions.from_columns([1], [2]).items
    )
    assert whole.ids.to_list() == [2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("item\n1\n", "one column only"),
        ("item,a\n", "no rows"),
        ("item,a\n1,2\n1,3\n", "'1' is there more than once in column 'item'"),
        ("item,a\n,2\n", "row 1 has no id in column 'item'"),
        ("item,a,a \n1,2,3\n", "two columns are called 'a'"),
        ("item,a=b\n1,2\n", "column 'a=b'"),
        (
            "item,a\n0,1\n1,2,3\n",
            "row 2 has 3 fields, but there are 2 headings; put values that contain ',' in double",
        ),
        (f"item,{'x' * 200_000}\n1,2,3\n", "cannot be read as a table"),
        (f"item,a\n1,{'x' * 9000}\n", "row 1 of column 'a' has 9,000 characters"),
        ("item," + ",".join(f"c{n}" for n in range(70)) + "\n1" + ",1" * 70 + "\n", "up to 64 columns"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(ReadError, match=message) as error:
        pr.read_items(tmp_path / "items.csv")
    assert "items.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_row_of_bytes_that_are_no_text_is_named_too(tmp_path):
    path = tmp_path / "items.csv"
    path.write_bytes(b"item,a\n0,1\n1,\xff\xfe,3\n")
    with pytest.raises(ReadError, match="row 2 has 3 fields"):
        pr.read_items(path)


def test_other_wrong_input(tmp_path):
    with pytest.raises(ReadError, match="no such file"):
        pr.read_items(tmp_path / "nothing.csv")
    with pytest.raises(ReadError, match="int"):
        pr.read_items(3)
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(ReadError, match="Parquet"):
        pr.read_items(tmp_path / "x.parquet")
    with pytest.raises(ReadError, match="infinite"):
        pr.read_items(pl.DataFrame({"item": [1], "a": [np.inf]}))
    with pytest.raises(ReadError, match="no column 'nope'"):
        pr.read_items(pl.DataFrame({"item": [1], "a": [1]}), item="nope")


def test_inches_do_not_join_items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text('item,title,price\n1,27" monitor,199\n2,"mouse",9\n3,24" monitor,149\n4,cable,3\n')
    found = pr.read_items(path)
    assert len(found.ids) == 4
    assert found.titles.to_list() == ['27" monitor', "mouse", '24" monitor', "cable"]
    path.write_text('item,title,price\n1,27" monitor,199\n2,"mouse, black",9\n3,24" monitor,149\n')
    with pytest.raises(ReadError, match="row 2 has a quotation mark inside a field"):
        pr.read_items(path)
