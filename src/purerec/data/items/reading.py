"""An item table from a file (CSV or TSV with a header, Parquet) or a DataFrame, with any columns besides the item."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from purerec.data.items.columns import Column, Flags, Numbers, Tags, Words, split_tags
from purerec.data.items.table import LONGEST_CELL, ItemTable
from purerec.data.text.contents import check_file, content_of, shown
from purerec.data.text.delimited import marks_quote, unquoted
from purerec.data.text.sniffing import KNOWN_NAMES, split_line
from purerec.errors import DataError, ReadError

_ID_NAMES = (*KNOWN_NAMES["item"], "id")
_TITLE_NAMES = (*KNOWN_NAMES["label"], "name")


def read_items(
    source: str | os.PathLike[str] | pl.DataFrame | Any,
    *,
    item: str | None = None,
    title: str | None = None,
    encoding: str = "utf-8",
) -> ItemTable:
    """An item table from a file, or from a polars or pandas DataFrame.

    The item column is `item`, or recognised by its name (item, item_id, sku, id, ...), or the first; likewise for the
    title. Columns of numbers, booleans and text are recognised; text that contains | is split into tags.
    """
    if isinstance(source, str | os.PathLike):
        where, frame = shown(source), _frame_of(Path(os.fsdecode(source)), encoding)
    else:
        where, frame = "table", _as_polars(source)
    names = _names(frame.columns, where)
    frame.columns = names
    id_name = _chosen(names, item, _ID_NAMES, where) or names[0]
    title_name = _chosen([name for name in names if name != id_name], title, _TITLE_NAMES, where)
    ids = _ids(frame[id_name], where, id_name)
    titles = None if title_name is None else _text(frame[title_name], where, title_name)
    others = [name for name in names if name not in (id_name, title_name)]
    try:
        return ItemTable(ids, {name: _column(frame[name], where, name) for name in others}, titles)
    except ReadError:
        raise
    except DataError as error:
        raise ReadError(f"{where}: {error}") from None


def _frame_of(path: Path, encoding: str) -> pl.DataFrame:
    where = shown(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        check_file(path)
        try:
            return pl.read_parquet(io.BytesIO(path.read_bytes()))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ReadError(f"{where} is not a Parquet file that can be read ({type(error).__name__})") from None
    content = content_of(path, encoding)
    start = content.skip_blank_lines()
    heading = bytes(content.raw[start : content.after_line(start)]).decode().strip("\r\n")
    if not heading:
        raise ReadError(f"{where}: the file is empty; give a table with headings, such as item,title,genre,year")
    separator = max(("\t", ",", ";"), key=heading.count)
    if separator not in heading:
        raise ReadError(f"{where}: the first line has one column only; give a table with headings, item and others")
    n_fields = len(split_line(heading, separator))
    quote = '"' if marks_quote(content, start, separator, n_fields, where) else None
    try:
        body = io.BytesIO(bytes(content.raw[start:]))
        frame = pl.read_csv(body, separator=separator, infer_schema=False, quote_char=quote)
        return frame if quote else frame.with_columns(unquoted(cs.string()))
    except pl.exceptions.PolarsError as error:
        _check_widths(bytes(content.raw[start:]).decode(errors="replace"), separator, where)
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ReadError(f"{where} cannot be read as a table: {reason}") from None


def _check_widths(text: str, separator: str, where: str) -> None:
    """Name the first row with more fields than the heading, such as one with a comma in a title or a data URL."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    with contextlib.suppress(csv.Error):  # polars' own reason is given instead
        heading = next(rows, [])
        for number, row in enumerate(rows, start=1):
            if len(row) > len(heading):
                raise ReadError(
                    f"{where}: row {number} has {len(row)} fields, but there are {len(heading)} headings; "
                    f"put values that contain {separator!r} in double quotes"
                )


def _as_polars(source: Any) -> pl.DataFrame:
    if isinstance(source, pl.DataFrame):
        return source.clone()
    try:
        found = pl.from_pandas(source) if hasattr(source, "iloc") else pl.DataFrame(source)
    except Exception as error:
        raise ReadError(f"an item table is a path or a frame, not {type(source).__name__} ({error})") from None
    return found


def _names(columns: list[str], where: str) -> list[str]:
    names = [name.strip("\ufeff \t") for name in columns]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ReadError(f"{where}: two columns are called {min(twice)!r}; give each a name of its own")
    return names


def _chosen(names: list[str], asked: str | None, known: tuple[str, ...], where: str) -> str | None:
    if asked is not None:
        if asked not in names:
            raise ReadError(f"{where} has no column {asked!r}; there are {', '.join(names)}")
        return asked
    plain = {"".join(c for c in name.lower() if c not in "_- "): name for name in reversed(names)}
    return next((plain[name] for name in known if name in plain), None)


def _ids(column: pl.Series, where: str, name: str) -> pl.Series:
    ids = column if column.dtype.is_integer() else _text(column, where, name)
    if not len(ids):
        raise ReadError(f"{where}: there are no rows")
    if ids.null_count():
        row = int(np.flatnonzero(ids.is_null().to_numpy())[0])
        raise ReadError(f"{where}: row {row + 1} has no id in column {name!r}")
    if ids.n_unique() < len(ids):
        twice = ids.filter(ids.is_duplicated())[0]
        raise ReadError(f"{where}: item {twice!r} is there more than once in column {name!r}; give each item one row")
    return ids.cast(pl.Int64) if ids.dtype.is_integer() else ids


def _text(column: pl.Series, where: str, name: str) -> pl.Series:
    try:
        text = column.cast(pl.String).str.strip_chars()
    except pl.exceptions.PolarsError:
        raise ReadError(
            f"{where}: column {name!r} has values of the kind {column.dtype}; convert it to text"
        ) from None
    text = text.set(text == "", None)
    longest = text.str.len_chars().max()
    if isinstance(longest, int) and longest > LONGEST_CELL:
        row = int((text.str.len_chars() > LONGEST_CELL).fill_null(value=False).arg_max() or 0)
        raise ReadError(
            f"{where}: row {row + 1} of column {name!r} has {longest:,} characters, more than {LONGEST_CELL:,}; "
            "shorten it, or leave the column out"
        )
    return text


def _column(column: pl.Series, where: str, name: str) -> Column:
    if column.dtype == pl.Boolean:
        return Flags(column.cast(pl.Int8).fill_null(-1).to_numpy())
    if column.dtype.is_numeric():
        return _numbers(column.cast(pl.Float64), where, name)
    if isinstance(column.dtype, pl.List):
        rows = column.cast(pl.List(pl.String)).to_list()
        return Tags.of([[tag.strip() for tag in row or [] if tag and tag.strip()] for row in rows])
    text = _text(column, where, name)
    there = text.drop_nulls()
    if len(there) and there.str.to_lowercase().is_in(list(Flags.words)).all():
        return Flags(text.str.to_lowercase().replace_strict(Flags.words, default=-1, return_dtype=pl.Int8).to_numpy())
    numbers = there.cast(pl.Float64, strict=False)
    if len(there) and not numbers.null_count() and numbers.is_finite().all():
        return _numbers(text.cast(pl.Float64), where, name)
    if there.str.contains("|", literal=True).any():
        return Tags.of([split_tags(value or "") for value in text.to_list()])
    return Words.of(text.to_list())


def _numbers(column: pl.Series, where: str, name: str) -> Numbers:
    values = column.fill_null(float("nan")).to_numpy().astype(np.float64)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise ReadError(f"{where}: row {row + 1} of column {name!r} is infinite; leave it empty")
    return Numbers(values)
