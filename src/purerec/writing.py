"""A table in parts -> one file, of which no more than a few parts are ever in memory.

Parquet, CSV or JSON lines, by the suffix. The file is written under a temporary name and renamed when it is complete:
whoever is interrupted leaves nothing behind, and an earlier file of that name stays until then.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from purerec.errors import ConfigError, StoreError

SUFFIXES = (".parquet", ".csv", ".jsonl", ".ndjson")


def check_target(path: str | os.PathLike[str]) -> Path:
    """The path, if a table can be written there; to be asked before the work is done."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{target}: a table is written as {', '.join(SUFFIXES)}; choose a name that ends so")
    if target.is_dir():
        raise StoreError(f"{target} is a folder; give the name of a file")
    _temporary(target).unlink()
    return target


def write_parts(path: str | os.PathLike[str], parts: Iterator[pl.DataFrame]) -> int:
    """Write all parts, which have the same columns and of which there is at least one; returns the rows written."""
    target = check_target(path)
    work = _temporary(target)
    counted = _Counted(parts)
    try:
        if target.suffix.lower() == ".parquet":
            _write_parquet(work, counted)
        else:
            with work.open("wb") as file:
                for n, part in enumerate(counted):
                    if target.suffix.lower() == ".csv":
                        part.write_csv(file, include_header=n == 0)
                    else:
                        part.write_ndjson(file)
        work.chmod(0o666 & ~_umask())
        work.replace(target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        try:
            work.unlink(missing_ok=True)
        except KeyboardInterrupt:  # one Ctrl-C comes twice, from Polars and from Python itself
            work.unlink(missing_ok=True)
            raise
    return counted.rows


class _Counted:
    """Parts, and how many rows have gone by. Keeps an error of theirs, which Polars would wrap in one of its own."""

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


def _write_parquet(work: Path, parts: _Counted) -> None:
    """By Polars' streaming engine, which takes the parts from a Python source one after the other."""
    from polars.io.plugins import register_io_source

    stream = iter(parts)
    first = next(stream)

    def source(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        for part in chain([first], stream):
            yield part if columns is None else part.select(columns)

    try:
        with work.open("wb") as file:  # by its name, Polars' threads would make it anew after an interruption
            register_io_source(source, schema=dict(first.schema)).sink_parquet(file)
    except pl.exceptions.PolarsError as error:
        if parts.error is not None:
            raise parts.error from None
        raise StoreError(f"cannot write {work.name}: {error}") from None


def _temporary(target: Path) -> Path:
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from None
    return Path(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
