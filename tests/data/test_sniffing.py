"""Which column is which, and its type."""

import pytest

from purerec.data.readers import read
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
