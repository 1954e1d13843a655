"""Rows of delimited text, read by polars; if that fails, the error names the bad line."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import polars as pl
import polars.selectors as cs

from purerec.data.text.contents import BLANK, Content, raise_not_utf8, reason
from purerec.data.text.scanning import stray_mark, uneven_row
from purerec.data.text.sniffing import Role, TextLayout, split_line
from purerec.errors import ReadError, counted

POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What polars raises for files it cannot read; for damaged ones, it may panic, which is not even an Exception"""
_STAND_IN = "\x1f"
"""Replaces '::', since polars accepts only single-byte separators: the 'unit separator' of ASCII"""
_ROW = "row"
_NEWLINE, _BOM = b"\n", b"\xef\xbb\xbf"


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
        if not has_quotes(self.layout) or b'"' not in self.body:
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
        quote_char='"' if has_quotes(layout) else None,
        glob=False,
    )
    table = table.select([pl.col(f"column_{step * n}").alias(role) for role, n in layout.roles.items()])
    return table if layout.quoted else table.with_columns(unquoted(cs.string()))


def unquoted(cells: pl.Expr) -> pl.Expr:
    """Without the quotation marks around whole cells."""
    inside = cells.str.slice(1, cells.str.len_chars() - 2).str.replace_all('""', '"', literal=True)
    return pl.when(cells.str.contains(r'(?s)\A"(?:[^"]|"")*"\z')).then(inside).otherwise(cells)


def with_quotes(layout: TextLayout, content: Content, start: int, where: str) -> TextLayout:
    """The layout with the meaning that quotation marks have in these rows."""
    if not has_quotes(layout) or marks_quote(content, start, layout.delimiter, len(layout.names), where):
        return layout
    return replace(layout, quoted=False)


def marks_quote(content: Content, start: int, delimiter: str, n_fields: int, where: str) -> bool:
    """Return whether quotation marks enclose fields, so that delimiters and line breaks between them belong to these.

    If some are neither at the start nor at the end of a field, as in 27" monitor, they are just characters, provided
    that all rows then have the same number of fields.
    """
    if content.raw[start : start + len(_BOM)] == _BOM:
        start += len(_BOM)
    if (stray := stray_mark(content.raw, start, delimiter)) is None:
        return True
    if uneven_row(content.raw, start, delimiter, n_fields, quoted=False) is None:
        return False
    raise ReadError(
        f"{where}: row {content.line_number(stray)} has a quotation mark inside a field; "
        "quote the whole field and double the mark, or remove it"
    )


def text_rows(content: Content, start: int, layout: TextLayout, where: str) -> TextRows:
    """Every line of the body that is not blank, all columns as text."""
    body, first_line = bytes(content.raw[start:]).removeprefix(_BOM), content.line_number(start)
    if not body:
        raise ReadError(f"{where}: there are no interactions in it; give a file with one interaction per row")
    split = replace(layout, delimiter=_STAND_IN) if layout.delimiter == "::" else layout
    separated = body.replace(b"::", _STAND_IN.encode()) if split is not layout else body
    if (at := uneven_row(separated, 0, split.delimiter, len(layout.names), quoted=has_quotes(split))) is not None:
        _raise_uneven(separated, at, first_line, split, where)
    try:
        table = polars_csv(separated, split, {role: pl.String() for role in layout.roles}, skip_lines=0)
        table = table.with_row_index(_ROW)
        if any(_looks_blank(table[role]).any() for role in ("user", "item") if role in layout.roles):
            table = table.filter(~_blank_rows(separated, split))
    except POLARS_ERRORS as error:
        _check_utf8(body, first_line, where)
        raise ReadError(f"{where}: cannot be read as delimited text ({reason(error)}); fix the file") from None
    return TextRows(table.drop(_ROW), table[_ROW], body, first_line, layout)


def has_quotes(layout: TextLayout) -> bool:
    """Return whether quotation marks enclose fields; beside '::' they never do."""
    return layout.quoted and layout.delimiter not in ("::", _STAND_IN)


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
        quote_char='"' if has_quotes(layout) else None,
    )
    blank = _looks_blank(table.to_series(0))
    for n in range(1, table.width):
        blank &= _looks_blank(table.to_series(n))
    return blank


def _raise_uneven(body: bytes, at: int, first_line: int, layout: TextLayout, where: str) -> NoReturn:
    """Name the row that starts here and has another number of fields."""
    _check_utf8(body, first_line, where)
    expected, fields = len(layout.names), _fields(body[at:].decode(), layout)
    raise ReadError(
        f"{where}: row {first_line + body.count(_NEWLINE, 0, at)} has {counted(fields, 'field')} where the first has "
        f"{expected}; fix or remove the row (quote fields that contain the delimiter)"
    )


def _fields(text: str, layout: TextLayout) -> int:
    """The number of fields of the first row."""
    if not has_quotes(layout):
        return len(text.partition("\n")[0].split(layout.delimiter))
    try:
        return len(next(csv.reader(io.StringIO(text, newline=""), delimiter=layout.delimiter)))
    except csv.Error:  # a field longer than the module accepts
        return len(split_line(text.partition("\n")[0], layout.delimiter))


def _check_utf8(body: bytes, first_line: int, where: str) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as bad:
        raise_not_utf8(body, bad, where, first_line=first_line)
