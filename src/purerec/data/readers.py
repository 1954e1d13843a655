"""From files and tables to Interactions: CSV, TSV, `.dat`, `.inter`, `.rating`, adjacency lists, Parquet, gzip;
pandas, polars, Arrow, scipy.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.large.folders import PARQUET, parquet_columns, read_folder, read_parquet
from purerec.data.large.places import Place, is_url
from purerec.data.picking import WITH_OWN_SPLIT
from purerec.data.plugins.readers import read_with, reader_of
from purerec.data.text.adjacency import adjacency_rows, is_adjacency
from purerec.data.text.contents import check_file, content_of, reason, shown
from purerec.data.text.delimited import text_rows, with_quotes
from purerec.data.text.sniffing import ROLES, ColumnRoles, FoundColumns, find_roles, sniff
from purerec.data.text.table import body, read_rows, with_integer_ids
from purerec.data.validation import checked
from purerec.errors import ReadError


def read(
    source: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    timestamp: str | int | None = None,
    label: str | int | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    positive_rating: float | None = None,
    lists: bool | None = None,
    name: str | None = None,
) -> Interactions:
    """Read interactions from a path, a pandas/polars/Arrow table or a scipy sparse matrix.

    A path may be a folder: a data set written by `ingest`, or Parquet files that belong together. Both, and single
    Parquet files, may also be at a URL that fsspec reaches, such as s3://bucket/clicks (extra `ingest`).

    A text file is a table, or has a user and all of that user's items on each line (`purerec.data.text.adjacency`);
    which of the two is detected unless `lists` is given.

    Columns are found by their names (user, user_id, uid, customer, ...; item, movieId, sku, ...) or, without a
    header, by position: user, item, rating, timestamp. Name them to override that. Rows with a rating of at least
    `positive_rating` count as positives; without it, every row does.

    A file whose suffix has a registered reader (`register_reader`) is read by that.
    """
    columns: ColumnRoles = {"user": user, "item": item, "rating": rating, "timestamp": timestamp, "label": label}
    if isinstance(source, str | os.PathLike):
        path, place = Path(os.fsdecode(source)), Place(os.fsdecode(source))
        folder = read_folder(place, columns, name)
        if folder is not None:
            data = folder
        elif (reader := reader_of(_suffix(path))) is not None:
            check_file(path)
            found = read_with(reader, path, shown(path))
            data = (
                replace(found, name=name or _stem(path))
                if isinstance(found, Interactions)
                else checked(_from_object(found, columns, shown(path)), where=shown(path), name=name or _stem(path))
            )
        elif _suffix(path) in PARQUET:
            data = checked(read_parquet(place, columns), where=shown(place.address), name=name or _stem(path))
        elif is_url(place.address):
            fact = f"{place}: text at a URL is not read directly"
            raise ReadError(fact, "ingest it", command=f"use: purerec ingest {place} --out FOLDER")
        else:
            data = _read_text(path, columns, name or _stem(path), delimiter, header, encoding, lists)
    else:
        where = name or "table"
        data = checked(_from_object(source, columns, where), where=where, name=name or "data")
    if name is None and data.name in WITH_OWN_SPLIT:  # this is a file, not that data set
        data = replace(data, name=f"{data.name} (file)")
    return data.with_positives(positive_rating) if positive_rating is not None else data


def read_labels(
    path: str | os.PathLike[str],
    *,
    item: str | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
) -> dict[str, str]:
    """Item titles from a file with an item and a title column, for `Interactions.with_labels`.

    If an item has several titles, the first is used.
    """
    where, path = shown(path), Path(os.fsdecode(path))
    if _suffix(path) in PARQUET:
        raise ReadError(f"{where}: titles are read from text, not from Parquet; write them as CSV")
    content = content_of(path, encoding)
    layout = sniff(
        content.sample(where),
        where=where,
        suffix=_suffix(path),
        columns={"item": item, "label": label},
        required=("item", "label"),
    )
    start = body(content, layout)
    text = text_rows(content, start, with_quotes(layout, content, start, where), where).table.drop_nulls()
    text = text.unique("item", keep="first", maintain_order=True)
    return dict(zip(text["item"].to_list(), text["label"].to_list(), strict=True))


# ---------------------------------------------------------------------- files


def columns_found(source: str | os.PathLike[str], *, encoding: str = "utf-8", **options: Any) -> FoundColumns | None:
    """The columns that `read`, with these options, detects in a table; None for anything else, and for URLs."""
    path, place = Path(os.fsdecode(source)), Place(os.fsdecode(source))
    columns: ColumnRoles = {role: options.get(role) for role in ROLES}
    if path.is_dir() or is_url(place.address) or reader_of(_suffix(path)):
        return None
    if _suffix(path) in PARQUET:
        return FoundColumns(parquet_columns(place, columns), by_position=False)
    if is_list_file(source, encoding=encoding, **options):
        return None
    sample = content_of(path, encoding, beginning=True).sample(shown(path))
    return sniff(sample, where=shown(path), suffix=_suffix(path), columns=columns).found


def is_list_file(
    source: str | os.PathLike[str], *, encoding: str = "utf-8", equally_long: bool = False, **options: Any
) -> bool:
    """Return whether `read`, with these options, treats a file as one with a user and their items on each line.

    `equally_long`: even if all lines have the same number of fields, so that it could be a table.
    """
    path = Path(os.fsdecode(source))
    suffix = _suffix(path)
    if options.get("lists") is not None or _tells_a_table(**options) or suffix in PARQUET or reader_of(suffix):
        return bool(options.get("lists"))
    sample = content_of(path, encoding, beginning=True).sample(shown(path))
    return is_adjacency(sample, equally_long=equally_long)


def _tells_a_table(*, delimiter: str | None = None, header: bool | None = None, **columns: Any) -> bool:
    named = any(columns.get(role) is not None for role in ROLES)
    return delimiter not in (None, " ") or bool(header) or named


def _stem(path: Path) -> str:
    return shown(path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name)


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _read_text(
    path: Path,
    columns: ColumnRoles,
    name: str,
    delimiter: str | None,
    header: bool | None,
    encoding: str,
    lists: bool | None,
) -> Interactions:
    where = shown(path)
    content = content_of(path, encoding)
    sample = content.sample(where)
    if lists is None:
        lists = not _tells_a_table(delimiter=delimiter, header=header, **columns) and is_adjacency(sample)
    if lists:
        pairs, lines = adjacency_rows(content, where)
        return checked(with_integer_ids(pairs), where=where, name=name, row_number=lambda at: int(lines[at]))
    layout = sniff(
        sample,
        where=where,
        suffix=_suffix(path),
        delimiter=delimiter,
        header=header,
        columns=columns,
    )
    return read_rows(content, body(content, layout), layout, where=where, name=name, path=path)


def _from_object(source: Any, columns: ColumnRoles, where: str) -> pl.DataFrame:
    try:
        return _converted(source, columns, where)
    except ReadError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # a table library may raise anything
        raise ReadError(
            f"{where}: cannot be converted from a {type(source).__name__} ({reason(error)}); "
            "give columns of plain integers, numbers, text and dates"
        ) from error


def _converted(source: Any, columns: ColumnRoles, where: str) -> pl.DataFrame:
    module = type(source).__module__.split(".")[0]
    if module == "scipy" and getattr(source, "ndim", None) == 2 and hasattr(source, "tocoo"):
        coo = source.tocoo()
        table = pl.DataFrame({"user": coo.row.astype(np.int64), "item": coo.col.astype(np.int64)})
        values = np.asarray(coo.data)
        if values.dtype.kind not in "biuf":
            raise ReadError(f"{where}: the matrix holds {values.dtype} values; ratings are numbers: convert it")
        if len(values) and not (values == 1).all():
            table = table.with_columns(pl.Series("rating", values.astype(np.float64)))
        return table
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if module == "pandas" and getattr(source, "ndim", None) == 2:
        names = [str(c) for c in source.columns]
        roles = find_roles(names, columns, where=where)
        return pl.DataFrame([_from_pandas(source.iloc[:, n]).alias(role) for role, n in roles.items()])
    if module == "pyarrow":
        source = pl.from_arrow(source)
    if not isinstance(source, pl.DataFrame):
        raise ReadError(
            f"cannot read a {type(source).__name__}; give a path, a pandas, polars or Arrow table, "
            "or a scipy sparse matrix"
        )
    roles = find_roles(source.columns, columns, where=where)
    return source.select([pl.col(source.columns[n]).alias(role) for role, n in roles.items()])


def _from_pandas(series: Any) -> pl.Series:
    values = series.to_numpy()
    if values.dtype.kind in "iufbM":
        return pl.Series(values)
    missing = series.isna().to_numpy()
    return pl.Series([None if gone else v for v, gone in zip(series.to_list(), missing, strict=True)], strict=False)
