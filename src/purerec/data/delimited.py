"""Rows of delimited text, read by polars; if that fails, the error names the bad line.

Also whether polars would change a value, so that the text is to be read in another way.
"""

from __future__ import annotations

import csv
import io
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl

from purerec.data.contents import BLANK, Content, raise_not_utf8, reason
from purerec.data.sniffing import Role, TextLayout, split_line, text_lines
from purerec.errors import ReadError

POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What polars raises for files it cannot read; for damaged ones, it may panic, which is not even an Exception"""
_STAND_IN = "\x1f"
"""Replaces '::', since polars accepts only single-byte separators: the 'unit separator' of ASCII"""
_ROW = "row"


@dataclass(frozen=True)
class TextRows:
    """The columns that have a role, as text, without blank lines."""

    table: pl.DataFrame
    rows: pl.Series
    """(n,) the row of the body that each comes from, counting blank lines"""
    body: bytes
    first_line: int
    layout: TextLayout

    def line(self, at: int) -> int:
        """The line of the file, from 1, at which a row of the table starts."""
        row = int(self.rows[at])
        if not _has_quotes(self.layout) or b'"' not in self.body:
            return self.first_line + row
        # A quoted field may span several lines.
        before = 0
        try:
            text = io.StringIO(self.body.decode(errors="replace"), newline="")
            reader = csv.reader(text, delimiter=self.layout.delimiter)
            for n, _ in enumerate(reader):
                if n == row:
                    break
                before = reader.line_num
        except csv.Error:
            return self.first_line + row
        return self.first_line + before


def polars_csv(
    source: Path | bytes, layout: TextLayout, types: dict[Role, pl.DataType], *, skip_lines: int
) -> pl.DataFrame:
    """The columns that have a role, with these types; blank lines are rows of nulls."""
    # With '::', every second column is the empty one between the colons.
    step = 2 if layout.delimiter == "::" else 1
    schema: dict[str, pl.DataType] = {f"column_{n}": pl.String() for n in range(step * (len(layout.names) - 1) + 1)}
    for role, n in layout.roles.items():
        schema[f"column_{step * n}"] = types[role]
    table = pl.read_csv(
        source,
        has_header=False,
        skip_lines=skip_lines,
        separator=layout.delimiter[0],
        schema=schema,
        columns=[f"column_{step * n}" for n in sorted(layout.roles.values())],
        quote_char='"' if _has_quotes(layout) else None,
        glob=False,
    )
    return table.select([pl.col(f"column_{step * n}").alias(role) for role, n in layout.roles.items()])


def text_rows(content: Content, start: int, layout: TextLayout, where: str) -> TextRows:
    """Every line of the body that is not blank, all columns as text."""
    body, first_line = bytes(content.raw[start:]).removeprefix(b"\xef\xbb\xbf"), content.line_number(start)
    if not body:
        raise ReadError(f"{where}: there are no interactions in it; give a file with one interaction per row")
    split = replace(layout, delimiter=_STAND_IN) if layout.delimiter == "::" else layout
    separated = body.replace(b"::", _STAND_IN.encode()) if split is not layout else body
    try:
        table = polars_csv(separated, split, {role: pl.String() for role in layout.roles}, skip_lines=0)
        table = table.with_row_index(_ROW)
        if any(_looks_blank(table[role]).any() for role in ("user", "item") if role in layout.roles):
            table = table.filter(~_blank_rows(separated, split))
    except POLARS_ERRORS as error:
        _raise_for(body, first_line, layout, where, error)
    return TextRows(table.drop(_ROW), table[_ROW], body, first_line, layout)


def may_have_unusual_integers(raw: bytes | mmap.mmap, start: int) -> bool:
    """Return whether a number is written as 007, +7 or ' 7', so that parsing it as an integer would change it."""
    view = np.frombuffer(raw, dtype=np.uint8)[start:]
    chunk = 1 << 17  # stays in the cache during all passes over it
    for start in range(0, len(view), chunk):
        part = view[max(start - 1, 0) : start + chunk + 1]
        if (part == 43).any() or (part == 32).any():  # '+' or ' '
            return True
        before, here, after = part[:-2], part[1:-1], part[2:]
        zero = here == 48
        zero &= (before - np.uint8(48)) > 9  # not preceded by a digit
        if zero.any():  # rare: a number that starts with 0
            at = np.flatnonzero(zero)
            leading = (after[at] - np.uint8(48)) <= 9  # a digit after it
            if (leading & (before[at] != 46)).any() or (before[at] == 45).any():  # but 4.05 is not 05; and -0
                return True
    return bool(len(view) > 1 and view[0] == 48 and 48 <= view[1] <= 57)


def has_other_colons(raw: bytes | mmap.mmap, start: int) -> bool:
    """Return whether a colon is not part of '::'; polars, which splits at single bytes, would also split there."""
    view = np.frombuffer(raw, dtype=np.uint8)[start:]
    chunk = 1 << 17
    for at in range(0, len(view), chunk):
        colon = view[max(at - 1, 0) : at + chunk + 1] == 58
        if ((colon[:-2] ^ colon[2:]) < colon[1:-1]).any():
            return True
    return False


def _has_quotes(layout: TextLayout) -> bool:
    return layout.delimiter not in ("::", _STAND_IN)


def _looks_blank(cells: pl.Series) -> pl.Series:
    """True for nothing or whitespace, but not for '""', which is an empty value."""
    return cells.is_null() | ((cells != "") & (cells.str.strip_chars(BLANK) == ""))


def _blank_rows(separated: bytes, layout: TextLayout) -> pl.Series:
    """(n_rows,) which rows are blank in all columns, including those without a role."""
    everything = {f"column_{n}": pl.String() for n in range(len(layout.names))}
    table = pl.read_csv(
        separated,
        has_header=False,
        separator=layout.delimiter,
        schema=everything,
        quote_char='"' if _has_quotes(layout) else None,
    )
    blank = _looks_blank(table.to_series(0))
    for n in range(1, table.width):
        blank &= _looks_blank(table.to_series(n))
    return blank


def _raise_for(body: bytes, first_line: int, layout: TextLayout, where: str, error: BaseException) -> NoReturn:
    """Raise an error that names the first bad line."""
    try:
        text = body.decode()
    except UnicodeDecodeError as bad:
        raise_not_utf8(body, bad, where, first_line=first_line)
    expected = len(layout.names)
    for at, n_fields in _field_counts(text, layout):
        if n_fields != expected:
            raise ReadError(
                f"{where}: row {first_line + at} has {n_fields} field{'s' * (n_fields != 1)} where the first has "
                f"{expected}; fix or remove the row (quote fields that contain the delimiter)"
            )
    for at, line in enumerate(text_lines(text)):
        if line.count('"') % 2:
            raise ReadError(
                f"{where}: row {first_line + at} has a quotation mark inside a field; "
                "quote the whole field and double the mark, or remove it"
            )
    raise ReadError(f"{where}: cannot be read as delimited text ({reason(error)}); fix the file")


def _field_counts(text: str, layout: TextLayout) -> Iterator[tuple[int, int]]:
    """For every row that is not blank, its first line, from 0, and its number of fields."""
    if not _has_quotes(layout):
        for at, line in enumerate(text_lines(text)):
            if line.strip(BLANK):
                yield at, len(split_line(line, layout.delimiter))
        return
    reader, at = csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter), 0
    try:
        for fields in reader:
            if any(field.strip(BLANK) for field in fields):
                yield at, len(fields)
            at = reader.line_num
    except csv.Error:  # a field longer than the module accepts
        return
