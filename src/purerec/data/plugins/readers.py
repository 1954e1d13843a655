"""Custom readers for other file formats, by file suffix.

A reader takes a path and returns a table (pandas, polars or Arrow), a scipy sparse matrix or `Interactions`. The
result is checked like any other table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from purerec.data.plugins.named import import_first, installed_object
from purerec.errors import ConfigError, ReadError

GROUP = "purerec.readers"

Reader = Callable[[Path], Any]
AnyReader = TypeVar("AnyReader", bound=Reader)

_BUILT_IN = (".csv", ".tsv", ".txt", ".dat", ".inter", ".rating", ".parquet", ".pq", ".gz")
_READERS: dict[str, Reader] = {}


def register_reader(suffix: str) -> Callable[[AnyReader], AnyReader]:
    """Use your own function, from a path to a table, to read files with this suffix.

    @pr.register_reader(".jsonl")
    def read_jsonl(path):
        return polars.read_ndjson(path)
    """
    if not isinstance(suffix, str) or not re.fullmatch(r"\.[A-Za-z0-9_-]+", suffix):
        raise ConfigError(f"a reader is registered for a suffix such as '.jsonl', not for {suffix!r}")
    if suffix.lower() in _BUILT_IN:
        raise ConfigError(
            f"purerec reads {suffix} itself; give those files another suffix, or read(your_reader(path))"
        )

    def register(reader: AnyReader) -> AnyReader:
        _READERS[suffix.lower()] = _callable(reader, suffix)
        return reader

    return register


def reader_of(suffix: str) -> Reader | None:
    """The custom reader for files with this suffix, if there is one."""
    if suffix in _BUILT_IN or not suffix:
        return None
    import_first()
    if suffix in _READERS:
        return _READERS[suffix]
    found = installed_object(GROUP, suffix.removeprefix("."))
    return None if found is None else _callable(found, suffix)


def _callable(reader: Any, suffix: str) -> Any:
    if not callable(reader):
        raise ConfigError(f"the reader of {suffix} files is a {type(reader).__name__}; give a function of the path")
    return reader


def read_with(reader: Reader, path: Path, where: str) -> Any:
    """Call a reader on a file; any error in it becomes a ReadError."""
    try:
        return reader(path)
    except ReadError:
        raise
    except Exception as error:
        raise ReadError(f"{where}: its reader failed ({type(error).__name__}: {error})") from error
