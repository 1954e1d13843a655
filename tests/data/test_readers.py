import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import need
from purerec.data.interactions import Interactions
from purerec.data.readers import columns_found, read, read_labels
from purerec.errors import DataError, ReadError


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(data):
    columns = [data.users.take(data.user_idx).to_list(), data.items.take(data.item_idx).to_list()]
    columns += [a.tolist() for a in (data.rating, data.timestamp) if a is not None]
    return list(zip(*columns, strict=True))


EXPECTED = [(196, 242, 3.0, 881250949), (186, 302, 3.0, 891717742), (22, 377, 1.0, 878887116)]
BODY = "196{d}242{d}3{d}881250949\n186{d}302{d}3{d}891717742\n22{d}377{d}1{d}878887116\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "userId,movieId,rating,timestamp\n" + BODY.format(d=",")),
        ("a.csv", "\ufeffuser,item,rating,time\n" + BODY.format(d=",")),
        ("a.csv", BODY.format(d=",")),
        ("a.csv", BODY.format(d=",").replace("\n", "\r\n")),
        ("a.csv", '"user_id","sku","stars","date"\n' + BODY.format(d=",")),
        ("a.csv", BODY.format(d=";")),
        ("a.txt", BODY.format(d="|")),
        ("u.data", BODY.format(d="\t")),
        ("a.tsv", "uid\titem_id\tscore\tts\n" + BODY.format(d="\t")),
        ("ratings.dat", BODY.format(d="::")),
        ("ml.inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + BODY.format(d="\t")),
        ("yelp.rating", BODY.format(d="\t")),
        ("a.csv", "time,rating,item,user\n881250949,3,242,196\n891717742,3,302,186\n878887116,1,377,22\n"),
        ("a.csv", BODY.format(d=",").rstrip("\n")),
        ("a.csv", BODY.format(d=",") + "\n\n"),
    ],
)
def test_the_same_rows_from_every_format(tmp_path, name, content):
    assert rows(read(write(tmp_path, name, content))) == EXPECTED
    packed = write(tmp_path, name + ".gz", gzip.compress(content.encode()))
    assert rows(read(packed)) == EXPECTED


def test_unknown_headings_above_codes_are_not_taken_for_data(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("who,what\n" + "".join(f"u{n},sku-{n}\n" for n in range(9)))
    with pytest.raises(ReadError, match="'who', 'what'; say which with user='NAME'"):
        read(path)
    assert len(read(path, user="who", item="what")) == 9


def test_two_columns_without_header(tmp_path):
    data = read(write(tmp_path, "clicks.csv", "ann,book\nbob,pen\n"))
    assert rows(data) == [("ann", "book"), ("bob", "pen")]
    assert data.name == "clicks"


def test_third_column_is_a_rating_or_a_time(tmp_path):
    assert read(write(tmp_path, "a.csv", "1,2,5\n3,4,1\n")).rating is not None
    timed = read(write(tmp_path, "b.csv", "1,2,978300760\n3,4,978300761\n"))
    assert timed.rating is None
    assert timed.timestamp.tolist() == [978300760, 978300761]


def test_ids_are_kept_exactly(tmp_path):
    data = read(write(tmp_path, "a.csv", "user,item\n007,1\n7,01\n+7,1\nÄ€,2\n 7,3\n9223372036854775808,1\n"))
    assert data.users.take(data.user_idx).to_list() == ["007", "7", "+7", "Ä€", " 7", "9223372036854775808"]
    assert data.items.take(data.item_idx).to_list() == ["1", "01", "1", "2", "3", "1"]


@pytest.mark.parametrize("late", ["x9", "009", "+9", "-0", "99999999999999999999", "1_0"])
def test_a_strange_id_far_down_is_not_changed(tmp_path, late):
    lines = [f"{n % 50 + 1},{n % 7 + 1}" for n in range(60_000)] + [f"{late},3"]
    data = read(write(tmp_path, "a.csv", "\n".join(lines)))
    assert data.users.find(late) is not None
    assert data.users.take(data.user_idx[-1:]).to_list() == [late]
    assert data.items.ids.to_list() == [1, 2, 3, 4, 5, 6, 7]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-(2**63), 2**63 - 1).map(str), st.from_regex(r"[0-9+\-]{1,6}", fullmatch=True)),
            st.text(st.characters(min_codepoint=48, max_codepoint=0x2FF), min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_round_trip_of_any_ids(tmp_path, pairs):
    path = tmp_path / "any.csv"
    pl.DataFrame(pairs, schema=["user", "item"], orient="row").write_csv(path, quote_style="always")
    data = read(path)
    assert [(str(u), str(i)) for u, i in rows(data)] == pairs


def test_columns_by_name_and_by_position(tmp_path):
    path = write(tmp_path, "a.csv", "who,what,noise\nann,book,1\nbob,pen,2\n")
    assert rows(read(path, user="who", item="what")) == [("ann", "book"), ("bob", "pen")]
    bare = write(tmp_path, "b.csv", "x,ann,book\ny,bob,pen\n")
    assert rows(read(bare, user=1, item=2, header=False))[0][:2] == ("ann", "book")
    assert rows(read(bare, user="2", item="3", header=False))[0][:2] == ("ann", "book")


@pytest.mark.parametrize(
    ("stamps", "unit", "first"),
    [
        (["978300760", "978300761"], "s", 978300760),
        (["978300760123", "978300761000"], "ms", 978300760123),
        (["978300760123456", "978300761000000"], "us", 978300760123456),
        (["978300760.5", "978300761"], "ms", 978300760500),
        (["8.7e8", "978300761"], "s", 870000000),
        (["2001-01-01", "2001-01-02"], "ms", 978307200000),
        (["2001-01-01T00:00:01", "2001-01-02T00:00:00"], "ms", 978307201000),
        (["2001-01-01 00:00:01", "2001-01-02 00:00:00"], "ms", 978307201000),
        (["0", "5"], "s", 0),
        (["01/02/2001", "31/01/2001"], "ms", 980985600000),
        (["20010201", "20010131"], "ms", 980985600000),
        ([20010201, 20010131], "ms", 980985600000),
        ([20010201, 20010132], "s", 20010201),  # no date
        (["02/01/2001", "01/31/2001"], "ms", 980985600000),
        (["02/01/2001 00:00", "01/31/2001 13:45"], "ms", 980985600000),
        (["01.02.2001", "31.01.2001"], "ms", 980985600000),
        (["02/02/2001", "01/01/2001"], "ms", 981072000000),
        (["01-02-2001", "31-01-2001"], "ms", 980985600000),
    ],
)
def test_times_in_any_unit(tmp_path, stamps, unit, first):
    text = "user,item,timestamp\n" + "".join(f"{n},1,{s}\n" for n, s in enumerate(stamps))
    data = read(write(tmp_path, "a.csv", text))
    assert data.time_unit == unit
    assert data.timestamp[0] == first


def test_titles(tmp_path):
    data = read(write(tmp_path, "a.csv", "user,item,title\n1,7,Seven\n2,8,\n3,7,Seven again\n"))
    assert data.item_labels.to_list() == ["Seven", None]
    titles = write(tmp_path, "t.csv", "item_id,title\n7,<b>Seven</b>\n8,Eight\n")
    assert read_labels(titles) == {"7": "<b>Seven</b>", "8": "Eight"}
    assert read_labels(write(tmp_path, "m.dat", "7::Seven (1995)::Crime\n8::8½::Art\n")) == {
        "7": "Seven (1995)",
        "8": "8½",
    }


HEAD = "user,item,rating,timestamp\n"
GOOD = "1,2,3,978300760\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("\n\n", "no rows"),
        (HEAD, "no interactions"),
        ("who,what\n1,2\n", "no column is recognised as the user; there are 'who', 'what'; say which"),
        ("user,rating\n1,2\n", "no column is recognised as the item; there are 'user', 'rating'"),
        (HEAD + GOOD + "1,3,good,978300760\n", "row 3 has the rating 'good', which is not a number"),
        (HEAD + GOOD + "1,3,nan,978300760\n", "row 3 has the rating nan"),
        (HEAD + GOOD + "1,3,inf,978300760\n", "row 3 has the rating inf"),
        (HEAD + GOOD + "1,3,4,-5\n", "row 3 has the timestamp -5, before 1970"),
        (HEAD + GOOD + "1,3,4,99999999999999999999\n", "row 3 has the timestamp"),
        (HEAD + GOOD + "1,3,4,9000000000000000000\n", "row 3 has the timestamp 9000000000000000000"),
        (HEAD + GOOD * 3 + "1,3,4,978300760000\n", "row 5 has the timestamp 978300760000, far from the others"),
        (HEAD + GOOD + "1,3,4,yesterday\n", "row 3 has the timestamp 'yesterday'"),
        (HEAD + GOOD + "1,3\n", "row 3 has 2 fields where the first has 4"),
        (HEAD + GOOD + "1,3,4,978300760,9,9\n", "row 3 has 6 fields where the first has 4"),
        (HEAD + GOOD + ",3,4,978300760\n", "row 3 has no user"),
        (HEAD.encode() + GOOD.encode() + b"\xff\xfe,3,4,978300760\n", "row 3 is not UTF-8 .byte 0xff."),
        (b"PAR1\0\0\0\0", "binary file"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "binary file"),
        ("one\ntwo\n", "single column"),
        ("user,item,date\n1,2,02/02/2001\n1,3,01/02/2001\n", "row 3 .* either number may be the month"),
        ("user,item,date\n1,2,02-02-2001\n1,3,01-02-2001\n", "row 3 .* either number may be the month"),
        ("user;item;rating\n1;2;3\n1;3;2,5\n", "row 3 has the rating '2,5'.*; write decimals with a point"),
        ('{"user": 1, "item": 2}\n{"user": 1, "item": 3}\n', "is JSON, which is not read directly; convert it"),
        ('[\n{"user": 1, "item": 2}\n]\n', "is JSON"),
        (b"PK\x03\x04", "binary file, not text; unpack it"),
        ("who,what\n1,2\n", "say which with user='NAME', item='NAME'"),
    ],
)
def test_bad_files_name_the_file_the_row_and_the_remedy(tmp_path, content, message):
    path = write(tmp_path, "bad.csv", content)
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert "bad.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_sheet_is_to_be_saved_as_text(tmp_path):
    with pytest.raises(ReadError, match=r"a\.xlsx: is a binary file, not text; save the sheet as CSV"):
        read(write(tmp_path, "a.xlsx", b"PK\x03\x04"))


@pytest.mark.parametrize("name", ["timestamp", "played_at", "Purchase Date", "order-date", "viewedAt"])
def test_times_are_recognised_by_name(tmp_path, name):
    found = read(write(tmp_path, "a.csv", f"user,item,{name}\nanna,tea,2024-03-01\nbob,tea,2024-03-02\n"))
    assert (found.timestamp[1] - found.timestamp[0], found.rating) == (86_400_000, None)


def test_the_columns_found_in_a_file(tmp_path):
    named = columns_found(write(tmp_path, "a.csv", "sku,customer_id\ntea,anna\n"))
    assert list(named.names.items()) == [("item", "sku"), ("user", "customer_id")]
    assert not named.by_position
    packed = tmp_path / "a.tsv.gz"
    packed.write_bytes(gzip.compress(b"who\twhat\nanna\ttea\n"))
    assert columns_found(packed).by_position
    assert list(columns_found(packed).names) == ["user", "item"]
    assert columns_found(packed, user="who", item="what").names == {"user": "who", "item": "what"}
    table = tmp_path / "a.parquet"
    pl.DataFrame({"sku": ["tea"], "shop": ["east"], "customer_id": ["anna"]}).write_parquet(table)
    assert columns_found(table).names == {"user": "customer_id", "item": "sku"}
    assert columns_found(table, item="shop").names == {"user": "customer_id", "item": "shop"}
    assert columns_found(write(tmp_path, "lists.txt", "0 1 2\n1 3\n")) is None
    assert columns_found(tmp_path) is None


def test_a_bad_row_far_down_is_named(tmp_path):
    lines = ["user,item,rating"] + ["1,2,3"] * 50_000 + ["1,2,x"] + ["1,2,3"] * 10
    with pytest.raises(ReadError, match="row 50002 has the rating 'x'"):
        read(write(tmp_path, "a.csv", "\n".join(lines)))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_is_not_needed_may_be_left_out(tmp_path, kind):
    frame = pl.DataFrame(
        {"user": [1, 2], "item": [3, 4], "rating": ["good", "bad"], "event_time": ["1:05 PM", "noon"]}
    )
    place = tmp_path / f"log.{kind}"
    frame.write_csv(place) if kind == "csv" else frame.write_parquet(place)
    with pytest.raises(ReadError, match="or leave the column out with rating=''"):
        read(place)
    with pytest.raises(ReadError, match=r"neither a number nor a date.* or leave the column out with timestamp=''"):
        read(place, rating="")
    with pytest.raises(ReadError, match="there is no column"):
        read(place, user="")
    data = read(place, rating="", timestamp="")
    assert (len(data), data.rating, data.timestamp) == (2, None, None)


def test_paths_that_are_no_files(tmp_path):
    with pytest.raises(ReadError, match="no such file"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(ReadError, match="is a directory"):
        read(tmp_path)
    with pytest.raises(ReadError, match="not a readable Parquet"):
        read(write(tmp_path, "a.parquet", "user,item\n1,2\n"))
    with pytest.raises(ReadError, match="cannot be read"):
        read(write(tmp_path, "a.csv.gz", gzip.compress(BODY.encode())[:20]))


def test_other_encodings_when_told(tmp_path):
    path = write(tmp_path, "a.csv", "user,item\nJosé,1\n".encode("latin-1"))
    assert rows(read(path, encoding="latin-1")) == [("José", 1)]
    with pytest.raises(ReadError, match="encoding"):
        read(path)
    with pytest.raises(ReadError, match="cannot be read as klingon"):
        read(path, encoding="klingon")


def test_missing_column_lists_those_there(tmp_path):
    path = write(tmp_path, "a.csv", HEAD + GOOD)
    with pytest.raises(ReadError, match="no column 'uid' for the user; there are 'user', 'item'"):
        read(path, user="uid")


def test_parquet_polars_pandas_arrow_scipy(tmp_path):
    need("pandas")
    need("pyarrow")
    frame = pl.DataFrame({"uid": [3, 1], "sku": ["a", "ü"], "rating": [1.5, 2.0]})
    frame.write_parquet(tmp_path / "a.parquet")
    expected = [(3, "a", 1.5), (1, "ü", 2.0)]
    import pandas as pd

    tables = [
        tmp_path / "a.parquet",
        frame,
        frame.lazy(),
        frame.to_arrow(),
        pd.DataFrame(frame.to_dict(as_series=False)),
    ]
    for table in tables:
        assert rows(read(table)) == expected
    with pytest.raises(ReadError, match="cannot read a list"):
        read([1, 2])
    with pytest.raises(ReadError, match="no column is recognised as the user; there are 'a'"):
        read(pl.DataFrame({"a": [1]}))
    with pytest.raises(ReadError, match="row 1 has no user"):
        read(pd.DataFrame({"user": ["x", None], "item": [1, 2]}))
    with pytest.raises(ReadError, match="row 1 has no item"):
        read(pd.DataFrame({"user": [1, 2], "item": [1, None]}))


def test_scipy_matrices():
    from scipy.sparse import csr_array

    ones = read(csr_array(np.array([[0, 1], [1, 0]])))
    assert rows(ones) == [(0, 1), (1, 0)]
    assert read(csr_array(np.array([[0, 3.5], [1, 0]]))).rating.tolist() == [3.5, 1.0]


def test_whole_number_floats_are_ids_and_fractions_are_not():
    assert rows(read(pl.DataFrame({"user": [1.0, 2.0], "item": [1, 2]}))) == [(1, 1), (2, 2)]
    with pytest.raises(ReadError, match="a fraction"):
        read(pl.DataFrame({"user": [1.5, 2.0], "item": [1, 2]}))


def test_positive_rating(tmp_path):
    data = read(write(tmp_path, "a.csv", "user,item,rating\n1,1,5\n1,2,3\n"), positive_rating=4)
    assert data.n_positives == 1
    with pytest.raises(DataError, match="lower the rating"):
        read(tmp_path / "a.csv", positive_rating=9)


def test_known_data(data_dir):
    data = read(data_dir / "ml-1m" / "ratings.dat", positive_rating=4)
    assert (data.n_users, data.n_items, len(data), data.n_positives) == (6040, 3706, 1_000_209, 575_281)


# ---------------------------------------------------------------------- ids


@pytest.mark.parametrize("empty", ["", '""', "  ", '"  "', '"\ufeff"'])
@pytest.mark.parametrize("other", ["5", "b-5"])
def test_an_empty_id_is_refused_quoted_or_bare(tmp_path, empty, other):
    for name, d in (("a.csv", ","), ("a.tsv", "\t")):
        for line, role in ((f"{empty}{d}{other}", "user"), (f"{other}{d}{empty}", "item")):
            with pytest.raises(ReadError, match=rf"row 3 has (no {role}|the {role} '.*', which is not a valid id)"):
                read(write(tmp_path, name, f"user{d}item\n1{d}2\n{line}\n"))
    with pytest.raises(ReadError, match="row 2 has the user ''"):
        read(write(tmp_path, "a.csv", 'user,item\n"",""\n1,2\n'))


def test_an_empty_id_in_a_table_is_refused():
    with pytest.raises(ReadError, match="row 1 has the item ''"):
        read(pl.DataFrame({"user": [1, 2], "item": ["a", ""]}))
    with pytest.raises(DataError, match="row 1 has the user ''"):
        Interactions.from_columns(["a", ""], [1, 2])


def test_a_colon_that_is_no_separator_does_not_shift_the_columns(tmp_path):
    good = "".join(f"{n}::{n + 1}\n" for n in range(1, 20_000))
    with pytest.raises(ReadError, match="row 20000 has 1 field where the first has 2"):
        read(write(tmp_path, "a.dat", good + "3:4:5\n"))
    assert rows(read(write(tmp_path, "b.dat", "a:b::c\nd::e:f\n"))) == [("a:b", "c"), ("d", "e:f")]


def test_quotes_mean_nothing_between_double_colons(tmp_path):
    assert read_labels(write(tmp_path, "m.dat", '1::"Great" Films::x\n2::The "End::y\n')) == {
        "1": '"Great" Films',
        "2": 'The "End',
    }


# ---------------------------------------------------------------------- which column is which


def test_one_column_cannot_be_two_things(tmp_path):
    path = write(tmp_path, "a.csv", HEAD + GOOD)
    for roles in ({"user": "item", "item": "item"}, {"user": "rating", "rating": "rating"}, {"item": 0, "user": 0}):
        with pytest.raises(ReadError, match="is given for both the"):
            read(path, **roles)
    with pytest.raises(ReadError, match="the column 'user' is given for both the user and the timestamp"):
        read(pl.DataFrame({"user": [1], "item": [2]}), user="user", timestamp="user")


def test_headings_of_other_scripts_are_told_apart(tmp_path):
    path = write(tmp_path, "a.csv", "用户,商品\na,b\n")
    assert rows(read(path, user="用户", item="商品")) == [("a", "b")]
    with pytest.raises(ReadError, match="no column '客户' for the user; there are '用户', '商品'"):
        read(path, user="客户", item="商品")


@pytest.mark.parametrize("column", [True, 1.5, (0,), 7, -1])
def test_columns_are_names_or_positions(tmp_path, column):
    with pytest.raises(ReadError, match="position"):
        read(write(tmp_path, "a.csv", HEAD + GOOD), user=column)


@pytest.mark.parametrize("delimiter", ["", "||", "ä", '"', "\n"])
def test_delimiters_that_cannot_be_used(tmp_path, delimiter):
    with pytest.raises(ReadError, match=r"delimiter .* cannot be used"):
        read(write(tmp_path, "a.csv", HEAD + GOOD), delimiter=delimiter)
