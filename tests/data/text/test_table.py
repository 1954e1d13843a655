"""Rows of text tables: none are joined, shifted or made up, whatever is in the columns that are not needed."""

import pytest

import purerec as pr
from purerec.data.readers import read
from purerec.errors import ReadError


def write(folder, name, content):
    path = folder / name
    path.write_text(content)
    return path


def rows(data):
    columns = [data.users.take(data.user_idx).to_list(), data.items.take(data.item_idx).to_list()]
    return list(zip(*columns, strict=True))


def test_marks_that_quote_nothing_are_characters(tmp_path):
    assert rows(read(write(tmp_path, "a.csv", 'user,item\nx,1\na"b,1\nc"d,2\n'))) == [
        ("x", 1),
        ('a"b', 1),
        ('c"d', 2),
    ]
    inches = 'user,item,name,price\n1,5,27" monitor,199\n2,6,mouse,9\n3,7,24" monitor,149\n4,8,cable,3\n'
    assert rows(read(write(tmp_path, "b.csv", inches))) == [(1, 5), (2, 6), (3, 7), (4, 8)]
    names = 'user\titem\tname\n"1"\t5\t"Weird Al" Yankovic\n2\t"6"\t"Heroes" ""\n'
    assert rows(read(write(tmp_path, "c.tsv", names))) == [(1, 5), (2, 6)]
    doubled = 'user,item\n"the ""one""",1\na"b,2\n'
    assert rows(read(write(tmp_path, "d.csv", doubled))) == [('the "one"', 1), ('a"b', 2)]


def test_a_stray_quotation_mark_is_named(tmp_path):
    content = 'user,item,name\n1,5,"a, b"\n2,6,27" monitor\n3,7,24" monitor\n'
    with pytest.raises(ReadError, match="row 3 has a quotation mark inside a field"):
        read(write(tmp_path, "a.csv", content))
    with pytest.raises(ReadError, match="row 2 has a quotation mark inside a field"):
        read(write(tmp_path, "b.csv", 'user,item,name\n1,5,"a, b\n2,6,c\n'))


def test_a_mark_after_a_space_does_not_quote(tmp_path):
    assert rows(read(write(tmp_path, "a.csv", 'user,name,item\n1, "Toys",7\n2, b,8\n'))) == [(1, 7), (2, 8)]
    with pytest.raises(ReadError, match="row 2 has a quotation mark inside a field"):
        read(write(tmp_path, "b.csv", 'user,name,item\n1, "Home, Garden",7\n2, b,8\n'))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,category,item\n1,Books,5\n1,Toys,6\n2,Home, Garden,7\n3,Toys,6\n", "row 4 has 4 fields"),
        ("user,price,item\n1,20,5\n1,30,6\n2,1,250,7\n3,20,6\n", "row 4 has 4 fields"),
        ("user,category,item,price\n1,a,5,2\n\n2,7,8.5\n", "row 4 has 3 fields"),
        ('user,name,item\n1,"a\nb",5\n\n2,b,6\n1,"c, d",e,7\n', "row 6 has 4 fields"),
        ("user,item,name\n1,5,a\n2,6", "row 3 has 2 fields"),
        ("user::name::item\n1::a::5\n2::6\n", "row 3 has 2 fields"),
        ('user::name::item\n1::"a\nb"::6\n', "row 2 has 2 fields"),
    ],
)
def test_a_row_with_other_fields_is_named_even_if_they_are_not_needed(tmp_path, content, message):
    with pytest.raises(ReadError, match=f"{message} where the first has"):
        read(write(tmp_path, "a.csv", content))
    with pytest.raises(ReadError, match=f"{message} where the first has"):
        pr.ingest(tmp_path / "a.csv", tmp_path / "out")


def test_a_header_in_the_middle_is_named(tmp_path):
    joined = "user,item\n1,5\n2,6\nuser,item\n3,5\n"
    with pytest.raises(ReadError, match="row 4 is the header again"):
        read(write(tmp_path, "a.csv", joined))
    with pytest.raises(ReadError, match="row 4 is the header again"):
        read(write(tmp_path, "a.inter", "user_id:token\titem_id:token\na\tb\nb\tc\nuser_id:token\titem_id:token\n"))
    assert rows(read(write(tmp_path, "b.csv", "user,item\nuser,tea\nanna,item\n"))) == [
        ("user", "tea"),
        ("anna", "item"),
    ]
    with pytest.raises(ReadError, match=r"row 3 has the user .* not a valid id"):
        read(write(tmp_path, "c.csv", "a,5\nb,6\n\ufeffc,5\n"))


@pytest.mark.parametrize("missing", ["NULL", "\\N", "nan", "None", "<NA>"])
def test_an_id_that_stands_for_a_missing_value_is_named(tmp_path, missing):
    for good in ("5", "sku-5"):
        with pytest.raises(ReadError, match=r"row 3 has the item .* stands for a missing value"):
            read(write(tmp_path, "a.csv", f"user,item\n1,{good}\n2,{missing}\n"))


def test_an_artist_called_null(tmp_path):
    assert rows(read(write(tmp_path, "a.csv", "user,item\n1,NULL\n2,Nico\n"))) == [(1, "NULL"), (2, "Nico")]
