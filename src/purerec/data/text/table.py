"""The rows of a text table as Interactions.

The fast path passes the file to polars with the types suggested by its first lines. If polars fails, or would change
a value (an id such as 007), the rows are read again as text, so that every value can be checked and the offending row
named. Blank lines are always skipped.
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.text.contents import Content, is_utf8
from purerec.data.text.delimited import POLARS_ERRORS, TextRows, has_quotes, polars_csv, text_rows, with_quotes
from purerec.data.text.scanning import has_other_colons, may_have_unusual_integers, uneven_row
from purerec.data.text.sniffing import CANONICAL_INTEGER, Role, TextLayout, plain_headings
from purerec.data.validation import checked
from purerec.errors import DataError, ReadError


def read_rows(
    content: Content, start: int, layout: TextLayout, *, where: str, name: str, path: Path | None = None
) -> Interactions:
    """The rows of a text table, from `start` on; `path` is the file with the same bytes, if there is one."""
    layout = with_quotes(layout, content, start, where)
    table = _read_typed(path, content, start, layout)
    if table is not None:
        try:
            data = checked(table, where=where, name=name)
            if not _has_header_as_row(data, layout):
                return data
        except DataError:
            pass  # the second pass, as text, names the row or finds that the line just looks blank
    rows = text_rows(content, start, layout, where)
    _refuse_header_as_row(rows, layout, where)
    return checked(with_integer_ids(rows.table), where=where, name=name, row_number=rows.line)


def _has_header_as_row(data: Interactions, layout: TextLayout) -> bool:
    """Return whether the headings of users and items may be among the ids."""
    ids: dict[Role, pl.Series] = {"user": data.users.ids, "item": data.items.ids}
    return layout.has_header and all(_is_heading(ids[role], layout, role).any() for role in ids)


def _refuse_header_as_row(rows: TextRows, layout: TextLayout, where: str) -> None:
    if not layout.has_header:
        return
    again = _is_heading(rows.table["user"], layout, "user") & _is_heading(rows.table["item"], layout, "item")
    if again.any():
        row = rows.line(int(np.flatnonzero(again)[0]))
        raise ReadError(f"{where}: row {row} is the header again, as in files that were joined; remove the row")


def _is_heading(cells: pl.Series, layout: TextLayout, role: Role) -> npt.NDArray[np.bool_]:
    if cells.dtype != pl.String:
        return np.zeros(len(cells), dtype=bool)
    return plain_headings(cells).eq(layout.names[layout.roles[role]]).fill_null(False).to_numpy()


def body(content: Content, layout: TextLayout) -> int:
    """Where the first line below the header starts."""
    start = content.skip_blank_lines()
    return content.skip_blank_lines(content.after_line(start)) if layout.has_header else start


def _read_typed(path: Path | None, content: Content, start: int, layout: TextLayout) -> pl.DataFrame | None:
    """The rows, with numeric types if the first lines suggest them; None if that fails or could change an id."""
    types: dict[Role, pl.DataType] = {}
    for role, n in layout.roles.items():
        cells = [row[n] for row in layout.sample if n < len(row)]
        if role in ("user", "item"):
            whole = all(CANONICAL_INTEGER.match(cell) for cell in cells)
            types[role] = pl.Int64() if whole else pl.String()
        elif role == "rating":
            types[role] = pl.Float32()
        elif role == "timestamp":
            if all(re.fullmatch(r"[0-9]+", cell.strip()) for cell in cells):
                types[role] = pl.Int64()
            elif all(re.fullmatch(r"[0-9]+\.[0-9]*(e[+-]?[0-9]+)?", cell.strip(), re.I) for cell in cells):
                types[role] = pl.Float64()
            else:
                types[role] = pl.String()
        else:
            types[role] = pl.String()
    ids_as_numbers = pl.Int64() in (types["user"], types["item"])
    if ids_as_numbers and may_have_unusual_integers(content.raw, start):
        return None
    if layout.delimiter == "::" and has_other_colons(content.raw, start):
        return None
    # polars counts the fields of a row only if all of them are needed and line breaks are never part of one.
    n_fields = len(layout.names)
    counted = len(layout.roles) == n_fields and content.raw.find(b'"', start) < 0
    if (
        not counted
        and uneven_row(content.raw, start, layout.delimiter, n_fields, quoted=has_quotes(layout)) is not None
    ):
        return None
    is_file = path is not None and isinstance(content.raw, mmap.mmap) and is_utf8(str(path))
    source = path if path is not None and is_file else bytes(content.raw)
    try:
        table = polars_csv(source, layout, types, skip_lines=content.line_number(start) - content.first_line)
    except POLARS_ERRORS:
        return None
    if any('"' in cell for row in layout.sample for cell in row):  # a line of the sample may be half of a row
        table = with_integer_ids(table)
    return _without_blank_rows(table, content, layout)


def _without_blank_rows(table: pl.DataFrame, content: Content, layout: TextLayout) -> pl.DataFrame | None:
    """Remove blank lines, which are rows of nulls; None if such a row may be something else."""
    if not any(table[role].null_count() for role in ("user", "item")):
        return table
    if len(layout.roles) < len(layout.names) or content.raw.find(b'"') >= 0:
        return None
    return table.filter(~pl.all_horizontal(pl.all().is_null()))


def with_integer_ids(text: pl.DataFrame) -> pl.DataFrame:
    """Ids as integers, if all of them are written as integers."""
    for role in ("user", "item"):
        if text[role].dtype != pl.String:
            continue
        numbers = text[role].cast(pl.Int64, strict=False)
        same = numbers.cast(pl.String) == text[role]
        if numbers.null_count() == text[role].null_count() and bool(same.all()):
            text = text.with_columns(numbers)
    return text


# ---------------------------------------------------------------------- tables
