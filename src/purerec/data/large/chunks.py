"""Read a large file piece by piece.

Each piece is read and checked as `readers.read` does with a whole file, so ids, errors and the rows they name are
the same. Only one piece is in memory at a time.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.large.places import Place
from purerec.data.text.adjacency import is_adjacency
from purerec.data.text.contents import BLANK, Content, reason, refuse_binary, text_codec
from purerec.data.text.sniffing import ColumnRoles, FoundColumns, TextLayout, find_roles, sniff
from purerec.data.text.table import body, read_rows
from purerec.data.validation import checked
from purerec.errors import MissingExtraError, ReadError

_ROW_BYTES = 24
"""Approximate bytes per row of a table without text, in a text file."""
_MAGIC_GZIP, _MAGIC_PARQUET = b"\x1f\x8b", b"PAR1"


@dataclass(frozen=True)
class Position:
    """How far a file has been read."""

    offset: int = 0
    """Bytes of UTF-8 text after decompression and decoding, or rows of a Parquet file"""
    line: int = 1
    """The number of the next line"""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file, and where the next ones start."""

    data: Interactions
    end: Position
    columns: FoundColumns


@dataclass(frozen=True)
class HowToRead:
    """How to read all files."""

    columns: ColumnRoles
    encoding: str = "utf-8"
    chunk_bytes: int = 1 << 26

    @property
    def by_number(self) -> bool:
        """True if users and items are in columns of given positions, whatever a header says."""
        return isinstance(self.columns.get("user"), int) and isinstance(self.columns.get("item"), int)


def chunks(place: Place, how: HowToRead, start: Position) -> Iterator[Chunk]:
    """The rows of a file from `start` on."""
    if _is_parquet(place):
        yield from _parquet_chunks(place, how, start)
    else:
        yield from _text_chunks(place, how, start)


def expected_rows(place: Place) -> int:
    """The approximate number of rows, from the size of the file."""
    size = int(place.version()["size"])
    with place.open() as file:
        is_packed = file.read(4)[:2] == _MAGIC_GZIP
    packing = 4 if is_packed or _is_parquet(place) else 1
    return packing * size // _ROW_BYTES


# ---------------------------------------------------------------------- text


def _text_chunks(place: Place, how: HowToRead, start: Position) -> Iterator[Chunk]:
    where, name = str(place), place.name
    layout, first = _layout(place, how)
    position = start if start.offset else first
    with _Text(place, how.encoding) as text:
        text.skip(position.offset)
        for block in _blocks(text, how.chunk_bytes, quotes=layout.delimiter != "::"):
            end = Position(position.offset + len(block), position.line + block.count(b"\n"))
            if block.strip(BLANK.encode()):
                content = Content(block, position.line)
                yield Chunk(read_rows(content, 0, layout, where=where, name=name), end, layout.found)
            position = end


def _layout(place: Place, how: HowToRead) -> tuple[TextLayout, Position]:
    """The layout of the file, and where its rows start."""
    where = str(place)
    with _Text(place, how.encoding) as text:
        head = Content(text.read(how.chunk_bytes))
    if not head.raw:
        raise ReadError(f"{where}: the file is empty; give a file with one interaction per line")
    refuse_binary(head.raw, text_codec(how.encoding, where), where)
    if b"\n" not in head.raw and b"\r" in head.raw:
        raise ReadError(f"{where}: its lines end in CR alone, as on old Macs; read it with pr.read, or convert it")
    sample = head.sample(where)
    if not any(how.columns.values()) and is_adjacency(sample):
        raise ReadError(
            f"{where}: has a user and all of their items on each line, which is not a table; read it with pr.read, "
            "or write one pair per line"
        )
    suffix = Path(place.name.removesuffix(".gz")).suffix.lower()
    layout = sniff(sample, where=where, suffix=suffix, columns=how.columns)
    start = body(head, layout)
    return layout, Position(start, head.line_number(start))


def _blocks(text: _Text, size: int, *, quotes: bool) -> Iterator[bytes]:
    """Whole rows, about `size` bytes at a time."""
    rest = b""
    while piece := text.read(size):
        whole = rest + piece
        end = _end_of_rows(whole, quotes)
        if end == 0 and len(whole) > 4 * size:
            end = whole.rfind(b"\n") + 1 or len(whole)  # an unclosed quotation mark: the parser reports where
        rest = whole[end:]
        if end:
            yield whole[:end]
    if rest:
        yield rest


def _end_of_rows(block: bytes, quotes: bool) -> int:
    """Where the last complete row ends. A line break inside quotation marks does not end a row."""
    end = block.rfind(b"\n")
    if not quotes or end < 0:
        return end + 1
    marks = block.count(b'"', 0, end)
    while marks % 2 and end >= 0:
        before = block.rfind(b"\n", 0, end)
        marks -= block.count(b'"', max(before, 0), end)
        end = before
    return end + 1


class _Text:
    """The UTF-8 text of a file, decompressed and decoded as it is read."""

    def __init__(self, place: Place, encoding: str) -> None:
        self._where = str(place)
        self._codec = text_codec(encoding, self._where)
        self._decoder = None if self._codec == "utf-8" else codecs.getincrementaldecoder(self._codec)()
        self._raw = place.open()
        self._is_packed = self._raw.read(2) == _MAGIC_GZIP
        self._raw.seek(0)
        self._file = gzip.GzipFile(fileobj=self._raw) if self._is_packed else self._raw
        self._ahead = b""
        """Read and decoded, but not yet asked for"""

    def __enter__(self) -> _Text:
        return self

    def __exit__(self, *about: object) -> None:
        self._file.close()
        self._raw.close()  # a GzipFile does not close it

    def read(self, size: int) -> bytes:
        """About `size` bytes; none at the end."""
        ahead, self._ahead = self._ahead, b""
        return ahead or self._next(size)

    def _next(self, size: int) -> bytes:
        try:
            raw = self._file.read(size)
            if self._decoder is None:
                return raw
            return self._decoder.decode(raw, final=len(raw) < size).encode()
        except UnicodeDecodeError as error:
            raise ReadError(
                f"{self._where}: is not {self._codec} ({error.reason}); give the encoding that the file has"
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ReadError(
                f"{self._where}: cannot be read, the gzip file is damaged ({reason(error)}); get it again"
            ) from None
        except OSError as error:
            raise ReadError(f"{self._where}: cannot be read ({reason(error)}); check the file") from None

    def skip(self, n: int) -> None:
        if self._decoder is None and not self._is_packed:
            self._file.seek(n)
            return
        while n > 0 and (block := self.read(min(n, 1 << 20))):
            n, self._ahead = n - len(block), block[n:]  # n letters may be more than n bytes


# ---------------------------------------------------------------------- Parquet


def _is_parquet(place: Place) -> bool:
    if place.name.lower().endswith((".parquet", ".pq")):
        return True
    with place.open() as file:
        return file.read(4) == _MAGIC_PARQUET


def _parquet_chunks(place: Place, how: HowToRead, start: Position) -> Iterator[Chunk]:
    where, rows = str(place), max(1, how.chunk_bytes // _ROW_BYTES)
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise MissingExtraError("pyarrow", "ingest", purpose="reading Parquet piece by piece") from None
    with place.open() as file:
        try:
            source = ParquetFile(file)
            names = source.schema_arrow.names
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _unreadable(where, error) from None
        roles = find_roles(names, how.columns, where=where)
        done = 0
        batches = source.iter_batches(rows, columns=[names[n] for n in roles.values()])
        while (batch := _next(batches, where)) is not None:
            first, done = done, done + batch.num_rows
            if done <= start.offset or not batch.num_rows:
                continue
            table = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))
            table = table.select([pl.col(names[n]).alias(role) for role, n in roles.items()])
            known = max(0, start.offset - first)
            data = checked(
                table.slice(known),
                where=where,
                name=place.name,
                row_number=partial(add, first + known),
            )
            columns = FoundColumns({role: names[n] for role, n in roles.items()}, by_position=False)
            yield Chunk(data, Position(done, done + 1), columns)


def _next(batches: Iterator[Any], where: str) -> Any:
    try:
        return next(batches, None)
    except Exception as error:  # pyarrow's own errors, raised while reading
        raise _unreadable(where, error) from None


def _unreadable(where: str, error: Exception) -> ReadError:
    return ReadError(f"{where}: not a readable Parquet file ({reason(error)}); write it again")
