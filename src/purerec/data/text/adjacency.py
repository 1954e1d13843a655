"""Adjacency lists: each line has a user and that user's items, separated by blanks.

    0 10 11 17
    1 10
    2

The usual form of published train and test files (NGCF, LightGCN). It differs from a table in that lines have
different lengths and no user has two lines. A user without items is allowed and adds nothing.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from purerec.data.text.contents import BLANK, Content, raise_not_utf8
from purerec.data.text.sniffing import text_lines
from purerec.errors import ReadError
from purerec.types import I64

_OTHER_SEPARATORS = re.compile(r'::|[\t,;|"]')
_FRACTION = re.compile(r"[+-]?\d*\.\d*$")


def is_adjacency(sample: str, *, equally_long: bool = False) -> bool:
    """Return whether the first lines of a file are lists of ids, and cannot be rows of a table.

    `equally_long`: accept them even if all lines have the same number of fields and could be a table.
    """
    lines = [line for line in text_lines(sample, most=200) if line.strip(BLANK)]
    if not lines or any(_OTHER_SEPARATORS.search(line) for line in lines):
        return False
    rows = [line.split() for line in lines]
    if not equally_long and len({len(row) for row in rows}) == 1:
        return False
    return len({row[0] for row in rows}) == len(rows) and all(_is_id(cell) for row in rows for cell in row)


def _is_id(cell: str) -> bool:
    """Unlike words, ids have a digit; unlike ratings, they have no fraction."""
    return any(letter.isdigit() for letter in cell) and not _FRACTION.match(cell)


def adjacency_rows(content: Content, where: str) -> tuple[pl.DataFrame, I64]:
    """One row per pair, user and item as text, and (n,) the line of each."""
    raw = bytes(content.raw)
    try:
        text = raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise_not_utf8(raw, error, where)
    lines = pl.Series(text.split("\n"), dtype=pl.String).str.strip_chars(BLANK)
    numbers = np.flatnonzero((lines != "").to_numpy())
    fields = lines.gather(numbers).str.replace_all(r"[ \t\r\x0b\x0c]+", " ").str.split(" ")
    users = fields.list.first()
    _refuse_second_lines(users, numbers + 1, where)
    lengths = fields.list.len().to_numpy().astype(np.int64)
    at = np.repeat(np.arange(len(users)), lengths - 1)
    items = fields.list.slice(1).filter(lengths > 1).explode()
    return pl.DataFrame({"user": users.gather(at), "item": items}), numbers[at] + 1


def _refuse_second_lines(users: pl.Series, lines: I64, where: str) -> None:
    if users.n_unique() == len(users):
        return
    second = int(np.flatnonzero(~users.is_first_distinct().to_numpy())[0])
    first = int(np.flatnonzero((users == users[second]).to_numpy())[0])
    raise ReadError(
        f"{where}: row {lines[second]} has the user {users[second]!r}, who already has row {lines[first]}; write all "
        "items of a user on one line (or, if this is a table, give every row the same number of fields)"
    )
