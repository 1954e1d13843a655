"""Writing a table in parts to one file, with only a few parts in memory at a time.

Parquet, CSV or JSON lines, by the suffix; written as described in `storage.files`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from purerec.errors import ConfigError, StoreError
from purerec.storage import open_output
from purerec.storage.files import check_file

SUFFIXES = (".parquet", ".csv", ".jsonl", ".ndjson")


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the path if a table can be written there; call this before any work is done."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{target}: choose a name that ends in one of {', '.join(SUFFIXES)}")
    check_file(target)
    return target


def write_parts(path: str | os.PathLike[str], parts: Iterator[pl.DataFrame]) -> int:
    """Write all parts (at least one, all with the same columns); return the number of rows."""
    target = check_target(path)
    counted = _Counted(parts)
    with open_output(target) as file:
        try:
            _write(file, target.suffix.lower(), counted)
        except pl.exceptions.PolarsError as error:
            if counted.error is not None:
                raise counted.error from None
            raise StoreError(f"cannot write {target}: {error}") from None
    return counted.rows


class _Counted:
    """Parts, and a count of their rows. Keeps their error, which Polars would wrap in its own."""

    def __init__(self, parts: Iterator[pl.DataFrame]) -> None:
        self._parts, self.rows = parts, 0
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[pl.DataFrame]:
        try:
            for part in self._parts:
                self.rows += len(part)
                yield part
        except BaseException as error:
            self.error = error
            raise


def _write(file: BinaryIO, suffix: str, parts: _Counted) -> None:
    if suffix == ".parquet":
        _write_parquet(file, parts)
        return
    for n, part in enumerate(parts):
        if suffix == ".csv":
            part.write_csv(file, include_header=n == 0)
        else:
            part.write_ndjson(file)


def _write_parquet(file: BinaryIO, parts: _Counted) -> None:
    """With Polars' streaming engine, which reads the parts from a Python source one by one."""
    from polars.io.plugins import register_io_source

    stream = iter(parts)
    first = next(stream)

    def source(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        for part in chain([first], stream):
            yield part if columns is None else part.select(columns)

    # Pass the open file, not its name: Polars' threads would recreate the file after an interruption.
    register_io_source(source, schema=dict(first.schema)).sink_parquet(file)
