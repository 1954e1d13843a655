"""External ids and their internal indices. Indices from callers are checked: integers in range, never negative or
rounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.errors import DataError, UnknownIdError
from purerec.types import I32, I64

Id = int | str

_LUT_SPARSITY = 8
"""Integer ids whose range is at most this many times the number of rows are indexed with a table, not a hash."""


class Vocabulary:
    """External ids in a fixed order; the position of an id is its internal index.

    Ids are either 64-bit integers or strings, and are kept exactly. A lookup accepts either of the two ('196' finds
    196 and vice versa), since command lines and JSON only have strings.
    """

    __slots__ = ("_index", "ids", "what")

    def __init__(self, ids: pl.Series, what: Literal["user", "item"]) -> None:
        if ids.dtype not in (pl.Int64, pl.String):
            raise DataError(f"{what} ids must be integers or strings, not {ids.dtype}")
        self.ids = ids.alias(what)
        self.what = what
        self._index: dict[Id, int] | None = None

    @classmethod
    def of(cls, ids: Iterable[Id], what: Literal["user", "item"]) -> Vocabulary:
        """A vocabulary of the given ids in the given order; integers only if all of them are."""
        listed = list(ids)
        for at, i in enumerate(listed):
            if isinstance(i, bool) or not isinstance(i, str | int | np.integer):
                raise DataError(f"row {at} has the {what} {i!r}, which is not a valid id; ids are integers or text")
        whole = not any(isinstance(i, str) for i in listed)
        if whole and all(-(2**63) <= int(i) < 2**63 for i in listed):
            return cls(pl.Series(what, [int(i) for i in listed], dtype=pl.Int64), what)
        return cls(pl.Series(what, [str(i) for i in listed], dtype=pl.String), what)

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Vocabulary)
            and self.ids.dtype == other.ids.dtype
            and len(self) == len(other)
            and bool((self.ids == other.ids).all())
        )

    __hash__ = None  # type: ignore[assignment]  # makes it unhashable

    def __repr__(self) -> str:
        shown = ", ".join(repr(i) for i in self.ids.head(3).to_list())
        return f"Vocabulary({len(self):,} {self.what}s: {shown}{', ...' if len(self) > 3 else ''})"

    @property
    def is_integer(self) -> bool:
        return self.ids.dtype == pl.Int64

    def first_unusable(self, idx: I32) -> int | None:
        """Position of the first index whose id is unusable: only whitespace, a NUL in it, or a byte order mark."""
        if self.is_integer:
            return None
        bad = self.ids.str.contains(r"\A[ \t\r\n\x0b\x0c\x{feff}]*\z|\x00|\A\x{feff}").to_numpy()
        return int(np.flatnonzero(bad[idx])[0]) if bad.any() else None

    def find(self, external: Id) -> int | None:
        """Internal index of one external id, or None."""
        if isinstance(external, bool) or not isinstance(external, str | int | np.integer):
            return None  # True and 1.0 would find 1
        if self._index is None:
            # Built on first use; assignment is atomic, so at worst two threads both build it.
            self._index = dict(zip(self.ids.to_list(), range(len(self)), strict=True))
        found = self._index.get(external)
        if found is None:
            other = _other_spelling(external)
            found = self._index.get(other) if other is not None else None
        return found

    def index(self, external: Id) -> int:
        """Internal index of one external id; an unknown one raises an error with a remedy."""
        found = self.find(external)
        if found is None:
            fact = f"{self.what} {external!r} was not in training"
            if self.what == "item":
                raise UnknownIdError(fact, "leave it out or fit again with data that has it")
            raise UnknownIdError(
                fact,
                "use recommend_for(history=...) for new people",
                command="for new people, give items that they like: `purerec recommend DIR --history ITEM,ITEM`",
            )
        return found

    def indices(self, external: Iterable[Id]) -> I32:
        """Internal indices of several external ids."""
        return np.fromiter((self.index(e) for e in external), dtype=np.int32)

    def take(self, idx: npt.ArrayLike) -> pl.Series:
        """External ids of internal indices."""
        return self.ids.gather(indices_of(idx, len(self), self.what))

    def __getitem__(self, idx: int) -> Id:
        value: Id = self.ids[index_of(idx, len(self), self.what)]
        return value

    def __iter__(self) -> Iterator[Id]:
        return iter(self.ids.to_list())


def _other_spelling(external: Id) -> Id | None:
    if isinstance(external, str):
        digits = external.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 20 and str(int(external)) == external:
            return int(external)
        return None
    return str(external) if isinstance(external, int | np.integer) else None


def as_series(ids: pl.Series | npt.NDArray[Any] | Sequence[Id], what: Literal["user", "item"]) -> pl.Series:
    """Ids in any of these forms, as a column."""
    if isinstance(ids, pl.Series):
        return ids
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return pl.Series(ids)
    return Vocabulary.of(ids, what).ids


def encode(ids: pl.Series, what: Literal["user", "item"]) -> tuple[Vocabulary, I32]:
    """The sorted vocabulary of a column of ids, and the column as internal indices. Linear in the rows."""
    if ids.dtype.is_integer():
        whole = ids.cast(pl.Int64, strict=False)
        ids = ids.cast(pl.String) if whole.null_count() > ids.null_count() else whole  # beyond 64 bits
    elif ids.dtype != pl.String:
        ids = ids.cast(pl.String)
    if ids.dtype == pl.Int64 and len(ids):
        values = ids.to_numpy()
        low, high = int(values.min()), int(values.max())
        if high - low < max(_LUT_SPARSITY * len(values), 1 << 16):
            return _encode_by_table(values, low, high - low + 1, what)
    unique = ids.unique().sort()
    table = pl.DataFrame({"id": unique, "idx": np.arange(len(unique), dtype=np.int32)}).lazy()
    joined = ids.alias("id").to_frame().lazy().join(table, on="id", how="left", maintain_order="left")
    return Vocabulary(unique, what), np.ascontiguousarray(joined.select("idx").collect()["idx"].to_numpy())


def _encode_by_table(values: I64, low: int, span: int, what: Literal["user", "item"]) -> tuple[Vocabulary, I32]:
    shifted = values - low if low else values
    present = np.zeros(span, dtype=np.bool_)
    present[shifted] = True
    table = np.cumsum(present, dtype=np.int32)
    table -= 1
    unique = np.flatnonzero(present).astype(np.int64) + low
    return Vocabulary(pl.Series(what, unique, dtype=pl.Int64), what), table[shifted]


def indices_of(given: Any, n: int, what: str) -> I64:
    """(len(given),) indices of users or items, each from 0 to n - 1."""
    found = whole_numbers(given, what)
    if len(found) and (found.min() < 0 or found.max() >= n):
        bad = found[(found < 0) | (found >= n)][0]
        raise DataError(f"{what} indices must be from 0 to {n - 1}, not {bad}")
    return found


def index_of(given: Any, n: int, what: str) -> int:
    """One index."""
    found = indices_of(given, n, what)
    if np.ndim(given):
        raise DataError(f"one {what} index is needed, not {len(found)} in a list")
    return int(found[0])


def whole_numbers(given: Any, what: str) -> I64:
    """(len(given),) integers, for indices whose range is not yet known."""
    try:
        found = np.asarray(given)
    except ValueError:  # lists of different lengths
        found = np.empty((0, 0))
    if found.ndim > 1:
        raise DataError(f"{what} indices must be a number or a flat list of them, not {_shown(given)}")
    if not found.size:
        return np.zeros(0, dtype=np.int64)
    if found.dtype.kind not in "iu" or found.max() >= 2**63 or _has_bools(given):
        raise DataError(f"{what} indices must be whole numbers of 64 bits, not {_shown(given)}")
    return np.ascontiguousarray(np.atleast_1d(found), dtype=np.int64)


def _has_bools(given: Any) -> bool:
    """numpy would treat True in a list of numbers as 1."""
    return isinstance(given, list | tuple) and any(isinstance(value, bool | np.bool_) for value in given)


def _shown(given: Any) -> str:
    text = " ".join(repr(given).split())
    return text if len(text) <= 80 else text[:77] + "..."
