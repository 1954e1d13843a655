"""Parquet files, and folders: a data set in parts, or Parquet files that belong together, as Spark writes them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.large.dataset import Dataset
from purerec.data.large.places import Place, is_url
from purerec.data.text.contents import check_file, is_utf8, reason, shown
from purerec.data.text.delimited import POLARS_ERRORS
from purerec.data.text.sniffing import ColumnRoles, Role, find_roles
from purerec.data.validation import checked
from purerec.errors import DataError, ReadError

PARQUET = (".parquet", ".pq")
_TABLES = (".csv", ".tsv")


def read_folder(place: Place, columns: ColumnRoles, name: str | None) -> Interactions | None:
    """All rows of a folder; None if it is not a folder."""
    names = place.names()
    if names is None:
        return None
    found = Dataset.open(place)
    if found is not None:
        if given := [role for role, column in columns.items() if column is not None]:
            raise ReadError(f"{place}: is a data set whose columns are known; leave out {' and '.join(given)}")
        return found.read(name=name)
    files = [file for file in names if file.lower().endswith(PARQUET)]
    if not files:
        raise ReadError(f"{place}: is a directory; give the file of interactions inside it")
    if others := [file for file in names if file.lower().removesuffix(".gz").endswith(_TABLES)]:
        raise ReadError(
            f"{place}: has Parquet files, which belong together, and others, such as {others[0]}; give one file, or "
            "all of them to `purerec ingest`"
        )
    tables = {file: read_parquet(place / file, columns) for file in files}
    whole = name or place.name
    try:
        return checked(pl.concat(tables.values(), how="vertical_relaxed"), where=str(place), name=whole)
    except (DataError, *POLARS_ERRORS) as error:
        for file, table in tables.items():  # names the file if only one is at fault
            checked(table, where=str(place / file), name=file)
        if isinstance(error, DataError):
            raise
        raise ReadError(f"{place}: its files have different types ({reason(error)}); write them alike") from None


def read_parquet(place: Place, columns: ColumnRoles) -> pl.DataFrame:
    """The columns that have a role."""
    with _readable(place):
        scan = _scan(place)
        names = _names_of_roles(scan, place, columns)
        return scan.select([pl.col(name).alias(role) for role, name in names.items()]).collect()


def parquet_columns(place: Place, columns: ColumnRoles) -> dict[Role, str]:
    """The name of the column of each role that `read_parquet` finds."""
    with _readable(place):
        return _names_of_roles(_scan(place), place, columns)


def _scan(place: Place) -> pl.LazyFrame:
    return pl.scan_parquet(_source(place), glob=False, hive_partitioning=False)


def _names_of_roles(scan: pl.LazyFrame, place: Place, columns: ColumnRoles) -> dict[Role, str]:
    names = scan.collect_schema().names()
    return {role: names[n] for role, n in find_roles(names, columns, where=shown(place.address)).items()}


@contextmanager
def _readable(place: Place) -> Iterator[None]:
    """Report errors of the Parquet reader as ours."""
    try:
        yield
    except (*POLARS_ERRORS, OSError, ValueError) as error:
        if isinstance(error, ReadError):
            raise
        fact = f"{shown(place.address)}: not a readable Parquet file"
        raise ReadError(f"{fact} ({reason(error)}); write it again") from None


def _source(place: Place) -> str | io.BytesIO:
    if is_url(place.address):
        return io.BytesIO(place.read())
    check_file(place.path)
    return place.address if is_utf8(place.address) else io.BytesIO(place.read())
