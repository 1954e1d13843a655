"""Columns of an item table: numbers, flags (true or false), words (one text each) and tags (several each)."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from purerec.types import F64, I32, I64, Array, Mask

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

CellValue = int | float | bool | str | list[str] | None
"""A value as shown to people and in JSON; None: missing"""


class Column(ABC):
    """One or more values per row. A missing value satisfies no condition."""

    kind: ClassVar[str]

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def cell(self, row: int) -> CellValue:
        """One value."""

    @abstractmethod
    def take(self, rows: I64) -> Column:
        """Some rows, in this order; -1 stands for an empty row."""

    @abstractmethod
    def is_any(self, values: Sequence[str]) -> Mask:
        """(n,) True for rows with one of these values; a ValueError names a value that does not fit the column"""

    @abstractmethod
    def groups(self) -> tuple[I64, I32]:
        """Compressed rows: the groups that each row belongs to, as numbers. Words that differ in case are one group,
        with the code of the first of them."""


@dataclass(frozen=True, eq=False)
class Numbers(Column):
    values: F64
    """(n,) NaN if missing"""
    kind: ClassVar[str] = "number"

    def __len__(self) -> int:
        return len(self.values)

    def cell(self, row: int) -> CellValue:
        value = float(self.values[row])
        if np.isnan(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else value

    def take(self, rows: I64) -> Numbers:
        return Numbers(np.where(rows >= 0, self.values[rows], np.nan))

    def is_any(self, values: Sequence[str]) -> Mask:
        return np.isin(self.values, [self.number(value) for value in values])

    def compare(self, sign: str, value: str) -> Mask:
        number = self.number(value)
        with np.errstate(invalid="ignore"):
            found: Mask = _COMPARE[sign](self.values, number)
        return found

    @staticmethod
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(text) from None
        if not np.isfinite(value):
            raise ValueError(text)
        return value

    def groups(self) -> tuple[I64, I32]:
        there = ~np.isnan(self.values)
        codes = np.unique(self.values[there], return_inverse=True)[1]
        return _starts(there), codes.astype(np.int32)


@dataclass(frozen=True, eq=False)
class Flags(Column):
    values: Array
    """(n,) int8: 1, 0, or -1 if missing"""
    kind: ClassVar[str] = "flag"
    words: ClassVar[dict[str, int]] = {"true": 1, "yes": 1, "false": 0, "no": 0}

    def __len__(self) -> int:
        return len(self.values)

    def cell(self, row: int) -> CellValue:
        value = int(self.values[row])
        return None if value < 0 else bool(value)

    def take(self, rows: I64) -> Flags:
        return Flags(np.where(rows >= 0, self.values[rows], np.int8(-1)).astype(np.int8))

    def is_any(self, values: Sequence[str]) -> Mask:
        known = {**self.words, "1": 1, "0": 0}
        if odd := [value for value in values if value.lower() not in known]:
            raise ValueError(odd[0])
        return np.isin(self.values, [known[value.lower()] for value in values])

    def groups(self) -> tuple[I64, I32]:
        there = self.values >= 0
        return _starts(there), self.values[there].astype(np.int32)


@dataclass(frozen=True, eq=False)
class Words(Column):
    codes: I32
    """(n,) into `words`; -1 if missing"""
    words: tuple[str, ...]
    """Each once, in alphabetical order"""
    kind: ClassVar[str] = "text"

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Words:
        words = tuple(sorted({value for value in values if value is not None}))
        at = {word: n for n, word in enumerate(words)}
        return cls(np.array([-1 if v is None else at[v] for v in values], dtype=np.int32), words)

    def __len__(self) -> int:
        return len(self.codes)

    def cell(self, row: int) -> CellValue:
        code = int(self.codes[row])
        return None if code < 0 else self.words[code]

    def take(self, rows: I64) -> Words:
        return Words(np.where(rows >= 0, self.codes[rows], np.int32(-1)).astype(np.int32), self.words)

    def is_any(self, values: Sequence[str]) -> Mask:
        return np.isin(self.codes, matching(self.words, values))

    def compare(self, sign: str, value: str) -> Mask:
        """Compare in alphabetical order, ignoring case, which also orders dates such as 2024-05-31."""
        holds, limit = _COMPARE[sign], value.casefold()
        fits: Mask = np.array([*(holds(word.casefold(), limit) for word in self.words), False])  # the last: missing
        return fits[self.codes]

    def groups(self) -> tuple[I64, I32]:
        there = self.codes >= 0
        return _starts(there), _same(self.words)[self.codes[there]]


@dataclass(frozen=True, eq=False)
class Tags(Column):
    starts: I64
    """(n + 1,)"""
    codes: I32
    """The codes of row r are codes[starts[r]:starts[r + 1]], ascending"""
    words: tuple[str, ...]
    """Each once, in alphabetical order"""
    kind: ClassVar[str] = "tags"

    @classmethod
    def of(cls, values: Sequence[Sequence[str]]) -> Tags:
        words = tuple(sorted({tag for tags in values for tag in tags}))
        at = {word: n for n, word in enumerate(words)}
        rows = [sorted({at[tag] for tag in tags}) for tags in values]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        return cls(starts, np.array([code for row in rows for code in row], dtype=np.int32), words)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def cell(self, row: int) -> CellValue:
        codes = self.codes[self.starts[row] : self.starts[row + 1]]
        return [self.words[code] for code in codes.tolist()] or None

    def take(self, rows: I64) -> Tags:
        sizes = np.where(rows >= 0, np.diff(self.starts)[rows], 0) if len(self) else np.zeros(len(rows), np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at = np.repeat(self.starts[rows] - starts[:-1], sizes) + np.arange(starts[-1])
        return Tags(starts, self.codes[at], self.words)

    def is_any(self, values: Sequence[str]) -> Mask:
        found = np.zeros(len(self), dtype=np.bool_)
        owners = np.repeat(np.arange(len(self)), np.diff(self.starts))
        found[owners[np.isin(self.codes, matching(self.words, values))]] = True
        return found

    def groups(self) -> tuple[I64, I32]:
        codes = _same(self.words)[self.codes]
        if np.array_equal(codes, self.codes):
            return self.starts, codes
        owners = np.repeat(np.arange(len(self)), np.diff(self.starts))
        owners, codes = np.unique(np.stack([owners, codes]), axis=1)  # a row may have a tag in two spellings
        return np.searchsorted(owners, np.arange(len(self) + 1)).astype(np.int64), codes.astype(np.int32)


def split_tags(text: str) -> list[str]:
    """The tags in a text such as 'Comedy | Drama'."""
    return [tag for part in text.split("|") if (tag := part.strip())]


def matching(words: Sequence[str], values: Sequence[str]) -> I32:
    """Codes of the words that equal one of the values, ignoring case."""
    wanted = {value.casefold() for value in values}
    return np.array([n for n, word in enumerate(words) if word.casefold() in wanted], dtype=np.int32)


@lru_cache(maxsize=16)  # of the same table for every list
def _same(words: tuple[str, ...]) -> I32:
    """(n_words,) for each word, the code of the first that equals it, ignoring case"""
    first: dict[str, int] = {}
    return np.array([first.setdefault(word.casefold(), n) for n, word in enumerate(words)], dtype=np.int32)


def _starts(there: Mask) -> I64:
    return np.concatenate([[0], np.cumsum(there)]).astype(np.int64)


KINDS: dict[str, Any] = {column.kind: column for column in (Numbers, Flags, Words, Tags)}
