"""Which column is which, and its type."""

import pytest

from purerec.data.readers import read
from purerec.data.text.sniffing import find_roles, sniff
from purerec.errors import ReadError


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,item\n1,2,3\n")
    with pytest.raises(ReadError, match="several columns are called 'item', the item; rename all but one"):
        read(tmp_path / "a.csv")
    with pytest.raises(ReadError, match="several columns are called 'item'"):
        read(tmp_path / "a.csv", item="item")
    assert read(tmp_path / "a.csv", item=2).items[0] == 3
    (tmp_path / "b.csv").write_text("user,item,note,note\n1,2,3,4\n")
    assert read(tmp_path / "b.csv").shape == (1, 1)


def test_a_newline_in_an_item_does_not_turn_users_into_text(tmp_path):
    (tmp_path / "a.csv").write_text('user,item\n1,"a\nb"\n2,c\n')
    data = read(tmp_path / "a.csv")
    assert data.users.ids.to_list() == [1, 2]
    assert data.items.ids.to_list() == ["a\nb", "c"]
    (tmp_path / "b.csv").write_text('user,item\n1,"7"\n2,"8"\n')
    assert read(tmp_path / "b.csv").items.ids.to_list() == [7, 8]


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("uuid,customer_id,product_id,created_at", {"user": 1, "item": 2, "timestamp": 3}),
        ("customer_id,customer,product_id,product", {"user": 0, "item": 2}),
        ("user_id,video_id,content", {"user": 0, "item": 1}),
        ("user,item,time,date", {"user": 0, "item": 1, "timestamp": 3}),
        ("user,movie,title", {"user": 0, "item": 1, "label": 2}),
    ],
)
def test_the_more_specific_of_two_names(header, roles):
    assert find_roles(header.split(","), {}, where="log.csv") == roles


@pytest.mark.parametrize(
    ("lines", "delimiter"),
    [
        (["1;2;3,5", "1;3;4,0"], ";"),
        (["1|2|3,5", "1|3|4,0"], "|"),
        (["user;item;date, time", "1;2;2024-05-01, 10:15"], ";"),
        (["1,5,a|b|c|d", "2,6,c|d|e|f"], ","),
        (["u1,The Big One", "u2,A Small Two"], ","),
        (["u1,i1,2024-05-01 10:15", "u2,i2,2024-05-02 10:15"], ","),
        (["a b", "c d"], " "),
    ],
)
def test_a_delimiter_inside_a_column_is_not_the_delimiter_of_the_file(lines, delimiter):
    assert sniff("\n".join(lines), where="log.csv", columns={}).delimiter == delimiter
