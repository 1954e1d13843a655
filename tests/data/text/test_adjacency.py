"""Files with a user and their items on each line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from purerec.data.interactions import Interactions
from purerec.data.readers import read
from purerec.data.text.adjacency import is_adjacency
from purerec.errors import ReadError

LISTS = "0 10 11 17\n1 10\n2\n7 11 12\n"
PAIRS = [(0, 10), (0, 11), (0, 17), (1, 10), (7, 11), (7, 12)]


def pairs(data: Interactions) -> list[tuple[object, object]]:
    return list(zip(data.users.take(data.user_idx), data.items.take(data.item_idx), strict=True))


def written(folder: Path, content: str | bytes, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        LISTS,
        LISTS.rstrip("\n"),
        LISTS.replace("\n", "\r\n"),
        LISTS.replace("\n", " \n"),
        LISTS.replace(" ", "  "),
        "\n" + LISTS.replace("\n", "\n\n"),
        "\ufeff" + LISTS,
    ],
)
def test_every_item_of_a_line_is_a_pair(tmp_path: Path, content: str) -> None:
    data = read(written(tmp_path, content))
    assert pairs(data) == PAIRS
    assert (data.users.is_integer, data.items.is_integer, data.rating, data.timestamp) == (True, True, None, None)
    assert pairs(read(written(tmp_path, gzip.compress(content.encode()), "train.txt.gz"))) == PAIRS
    assert pairs(read(written(tmp_path, content), delimiter=" ", header=False)) == PAIRS


def test_ids_of_any_kind_are_kept_exactly(tmp_path: Path) -> None:
    data = read(written(tmp_path, "u1 sku-3 007\nu2 7\n"))
    assert pairs(data) == [("u1", "sku-3"), ("u1", "007"), ("u2", "7")]


def test_a_user_without_items_adds_nothing(tmp_path: Path) -> None:
    assert list(read(written(tmp_path, LISTS)).users) == [0, 1, 7]
    with pytest.raises(ReadError, match="the first row has a single column"):
        read(written(tmp_path, "1\n2\n"))


@pytest.mark.parametrize(
    "table",
    [
        "1 10\n2 11\n3 12\n",  # two columns
        "1 10 4\n2 11 3\n3 12 5\n",  # three
        "1 10 4\n1 11\n2 12 5\n",  # a broken row of a user who has others
        "1 10 4.5\n2 11\n3 12 5.0\n",  # a broken row; ratings with fractions
        "1,10,4\n2,11\n",
        "1\t10\t4\n2\t11\n",
        "1::10::4\n2::11\n",
        "user item\n1 10\n2 11\n",
        "user items\n1 10 11\n2 11\n",
        "The quick brown fox\njumps over\nthe lazy dog\n",
        "",
    ],
)
def test_tables_and_prose_are_not_mistaken_for_lists(table: str) -> None:
    assert not is_adjacency(table)


def test_a_table_with_named_columns_is_never_read_as_lists(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="the first row has a single column"):
        read(written(tmp_path, LISTS), user="0", item="1")


def test_bad_lines_are_named(tmp_path: Path) -> None:
    many = "".join(f"{user} {user + 1} {user % 7}{' 8' * (user % 3)}\n" for user in range(500))
    path = written(tmp_path, many + "\n17 1 2\n")
    with pytest.raises(ReadError, match=r"train.txt: row 502 has the user '17', who already has row 18; write all"):
        read(path)
    with pytest.raises(ReadError, match=r"train.txt: row 501 is not UTF-8 \(byte 0xff\)"):
        read(written(tmp_path, many.encode() + b"900 \xff 1\n"))
    with pytest.raises(ReadError, match=r"train.txt: row 3 has the item 'a\\x00b', which is not a valid id"):
        read(written(tmp_path, "0" + " 12345" * 11_000 + "\n1 10\n2 11 a\0b\n"))


@pytest.mark.parametrize("length", [10_000, 100_000])
def test_lists_longer_than_what_is_looked_at_first(tmp_path: Path, length: int) -> None:
    items = " ".join(map(str, range(length)))
    data = read(written(tmp_path, f"0 {items}\n1 {items} 7000000\n2 1\n"))
    assert (data.n_users, data.n_items, len(data)) == (3, length + 1, 2 * length + 2)
