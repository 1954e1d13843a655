"""From a table of users, items, ratings and times to Interactions; errors name the row of an invalid value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.interactions import Interactions, TimeUnit
from purerec.data.text.sniffing import ROLES
from purerec.data.vocabulary import Vocabulary, encode
from purerec.errors import DataError, ReadError
from purerec.types import F32, I32, I64

_LATEST_S = 4_102_444_800  # 1 January 2100
_EARLIEST_S = 315_532_800  # 1 January 1980: no log in a finer unit than seconds is older
_UNITS: tuple[tuple[TimeUnit, int], ...] = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
_LARGEST_EXACT = 2**53
"""Above this, floats cannot represent all integers."""

_SURELY_MISSING = ("\\N", "<NA>")
_MISSING = ("\\n", "<na>", "null", "nan", "none", "na", "n/a", "#n/a")
"""Lower case"""

_SLASHED = ("%d/%m/%Y", "%m/%d/%Y")
"""Possible formats of 03/04/2024"""
_DAY_OR_MONTH_FIRST = r"^(\d{1,2})[/-](\d{1,2})[/-](\d{4})"

Bad = npt.NDArray[np.bool_] | pl.Series


@dataclass(frozen=True)
class _Rows:
    """The columns to check, and how to name their rows in errors."""

    table: pl.DataFrame
    where: str
    row_number: Callable[[int], int]

    def fail(self, role: str, bad: Bad, fact: str, remedy: str) -> NoReturn:
        """Name the first bad row; `fact` may show its value."""
        self.fail_at(int(np.flatnonzero(np.asarray(bad))[0]), role, fact, remedy)

    def fail_at(self, at: int, role: str, fact: str, remedy: str) -> NoReturn:
        value = self.table[role][at]
        self._refuse(role, f"{self.where}: row {self.row_number(at)} has {fact.format(value=value)}", remedy)

    def refuse_type(self, role: str, wanted: str) -> NoReturn:
        kind = str(self.table[role].dtype).split("(")[0].lower()
        self._refuse(role, f"{self.where}: the column of the {role} has values of type {kind}", wanted)

    def _refuse(self, role: str, fact: str, remedy: str) -> NoReturn:
        if role not in ("rating", "timestamp"):
            raise ReadError(fact, remedy)
        more = f"{remedy}, or leave the column out with"
        raise ReadError(fact, f"{more} {role}=''", command=f"{more} --{role} ''")


def checked(
    table: pl.DataFrame, *, where: str, name: str, row_number: Callable[[int], int] = lambda at: at
) -> Interactions:
    """The rows as Interactions; `row_number` gives the number of a row in errors, such as its line in a file."""
    if not len(table):
        raise DataError(f"{where}: there are no interactions in it; give a file with one interaction per row")
    # pandas represents a missing number as NaN.
    table = table.with_columns(pl.col([r for r in ("user", "item") if table[r].dtype.is_float()]).fill_nan(None))
    rows = _Rows(table, where, row_number)
    for role in [r for r in ROLES if r in table.columns and r != "label"]:
        if table[role].null_count():
            remedy = "it has fewer fields than the others or an empty one: fix or remove it"
            rows.fail(role, table[role].is_null(), f"no {role}", remedy)
    users, user_idx = _check_ids(rows, "user")
    items, item_idx = _check_ids(rows, "item")
    rating = _check_rating(rows) if "rating" in table.columns else None
    timestamp: I64 | None = None
    unit: TimeUnit = "s"
    if "timestamp" in table.columns:
        timestamp, unit = _check_timestamp(rows)
    data = Interactions(users, items, user_idx, item_idx, rating, timestamp, unit, name=name)
    if "label" in table.columns:
        titles = pl.DataFrame({"item": items.take(item_idx).cast(pl.String), "label": _check_label(rows)})
        titles = titles.drop_nulls().unique("item", keep="first", maintain_order=True)
        data = data.with_labels(dict(zip(titles["item"].to_list(), titles["label"].to_list(), strict=True)))
    return data


def _check_ids(rows: _Rows, role: Literal["user", "item"]) -> tuple[Vocabulary, I32]:
    column = rows.table[role]
    if column.dtype.is_float() or column.dtype.is_decimal():
        whole = column.cast(pl.Int64, strict=False)
        odd = whole.is_null() | (whole.cast(column.dtype, strict=False) != column)
        if odd.any():
            rows.fail(role, odd, f"the {role} {{value}}, a fraction", "ids are integers or text")
        inexact = whole.abs() > _LARGEST_EXACT
        if column.dtype.is_float() and inexact.any():
            fact = f"the {role} {{value}}, a float too large to be an exact id"
            rows.fail(role, inexact, fact, "give the ids as integers or text")
        column = whole
    elif isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    elif column.dtype != pl.String and not column.dtype.is_integer():
        rows.refuse_type(role, "ids are integers or text: convert it")
    vocabulary, idx = encode(column, role)
    if (at := vocabulary.first_unusable(idx)) is not None:
        remedy = "ids have at least one visible character, no NUL, and no byte order mark: fix or remove it"
        rows.fail_at(at, role, f"the {role} {{value!r}}, which is not a valid id", remedy)
    missing = _missing(vocabulary)
    if missing.any():
        at = int(np.flatnonzero(missing[idx])[0])
        rows.fail_at(at, role, f"the {role} {{value!r}}, which stands for a missing value", "fix or remove the row")
    return vocabulary, idx


def _missing(ids: Vocabulary) -> npt.NDArray[np.bool_]:
    """Which ids are how a database or pandas writes a missing value, and hardly the name of anything."""
    if ids.is_integer:
        return np.zeros(len(ids), dtype=bool)
    maybe = ids.ids.str.to_lowercase().is_in(_MISSING)
    # There may be an artist called NULL, but not among codes.
    codes = ids.ids.filter(~maybe).str.contains("[0-9]")
    return (maybe if len(codes) and codes.all() else ids.ids.is_in(_SURELY_MISSING)).to_numpy()


def _check_rating(rows: _Rows) -> F32:
    column = rows.table["rating"]
    if column.dtype == pl.String or isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String).str.strip_chars().cast(pl.Float32, strict=False)
        if column.null_count():
            at = int(np.flatnonzero(column.is_null().to_numpy())[0])
            comma = re.fullmatch(r"\s*[+-]?\d+,\d+\s*", str(rows.table["rating"][at]))
            remedy = "write decimals with a point, as in 2.5" if comma else "fix or remove it"
            rows.fail_at(at, "rating", "the rating {value!r}, which is not a number", remedy)
    elif not column.dtype.is_numeric():
        rows.refuse_type("rating", "ratings are numbers: convert it")
    values = column.cast(pl.Float32).to_numpy()
    # The sum is finite only if every value is, and takes a tenth of the time of checking each one.
    if not np.isfinite(values.sum(dtype=np.float64)):
        bad = ~np.isfinite(values)
        rows.fail("rating", bad, "the rating {value}", "ratings must be finite, below 3e38: fix or remove it")
    return values


def _check_label(rows: _Rows) -> pl.Series:
    column = rows.table["label"]
    text = column.dtype in (pl.String, pl.Null) or isinstance(column.dtype, pl.Categorical | pl.Enum)
    if not text and not column.dtype.is_numeric():
        rows.refuse_type("label", "titles are text: convert it")
    return column.cast(pl.String)


def _check_timestamp(rows: _Rows) -> tuple[I64, TimeUnit]:
    column = rows.table["timestamp"]
    if column.dtype == pl.String or isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = _times_in_text(rows, column.cast(pl.String).str.strip_chars())
    if column.dtype.is_integer():
        column = _dates_in_numbers(column)
    if column.dtype == pl.Date or isinstance(column.dtype, pl.Datetime):
        values = column.cast(pl.Datetime("ms")).dt.epoch("ms").to_numpy().astype(np.int64)
        _refuse_outside(rows, values, _LATEST_S * 1000)
        return values, "ms"
    if column.dtype.is_float() or column.dtype.is_decimal():
        raw = column.cast(pl.Float64).to_numpy()
        if not np.isfinite(raw).all():
            rows.fail("timestamp", ~np.isfinite(raw), "the timestamp {value}", "timestamps must be finite")
        _refuse_outside(rows, raw, _LATEST_S * 10**9)
        fractions = bool((raw != np.floor(raw)).any())
        if fractions and raw.max() <= _LATEST_S:
            return (raw * 1000).astype(np.int64), "ms"
        scaled = raw * 1000 if fractions else raw
        _refuse_outside(rows, scaled, _LATEST_S * 10**9)
        values = scaled.astype(np.int64)
    elif column.dtype.is_integer():
        whole = column.cast(pl.Int64, strict=False)
        if whole.null_count():
            rows.fail("timestamp", whole.is_null(), "the timestamp {value}, after 2100", "give seconds since 1970")
        values = whole.to_numpy()
    else:
        rows.refuse_type("timestamp", "times are numbers, dates or text: convert it")
    _refuse_outside(rows, values, _LATEST_S * 10**9)
    return values, _time_unit(rows, values)


def _refuse_outside(rows: _Rows, values: npt.NDArray[Any], latest: int) -> None:
    if values.min() < 0:
        rows.fail("timestamp", values < 0, "the timestamp {value}, before 1970", "give seconds since 1970")
    if values.max() > latest:
        rows.fail("timestamp", values > latest, "the timestamp {value}, after 2100", "give seconds since 1970")


def _time_unit(rows: _Rows, values: I64) -> TimeUnit:
    """The coarsest unit in which no time is after 2100."""
    low, high = int(values.min()), int(values.max())
    unit, per_second = next((unit, n) for unit, n in _UNITS if high <= _LATEST_S * n)
    if unit != "s" and low < _EARLIEST_S * per_second:
        bad = values < _EARLIEST_S * per_second
        if bad.mean() > 0.5:  # most are in a coarser unit, so the others are wrong
            bad = values > _LATEST_S * per_second // 1000
        fact = "the timestamp {value}, far from the others"
        rows.fail("timestamp", bad, fact, "use one unit in all rows")
    return unit


def _dates_in_numbers(column: pl.Series) -> pl.Series:
    """Dates, if all are written like 20240131; as seconds, they would all fall within three weeks in 1970."""
    if not column.is_between(19_700_101, 21_001_231).all():
        return column
    dates = column.cast(pl.String).str.to_date("%Y%m%d", strict=False)
    return column if dates.null_count() else dates


def _times_in_text(rows: _Rows, text: pl.Series) -> pl.Series:
    whole = text.cast(pl.Int64, strict=False)
    if not whole.null_count():
        return whole
    # Fractions, numbers beyond 64 bits, or dates: the majority decides which row is wrong.
    numbers = text.cast(pl.Float64, strict=False)
    found = numbers if 2 * numbers.null_count() <= len(numbers) else _parse_dates(rows, text)
    if found.null_count():
        odd = text.filter(found.is_null()).head(1)
        fact, remedy = "which is neither a number nor a date", "give seconds since 1970 or dates such as"
        if not found.dtype.is_numeric() and not _parse_dates(rows, odd).null_count():
            fact, remedy = "a date that is not written like the others", "write all of them alike, such as"
        rows.fail("timestamp", found.is_null(), f"the timestamp {{value!r}}, {fact}", f"{remedy} 2024-05-01 13:45:00")
    return found


def _parse_dates(rows: _Rows, text: pl.Series) -> pl.Series:
    if text.str.contains(_DAY_OR_MONTH_FIRST).any():
        return _parse_slashed(rows, text.str.replace(_DAY_OR_MONTH_FIRST, "$1/$2/$3"))
    for pattern in (None, "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y"):
        try:
            if pattern is None:
                parsed = text.str.to_datetime(strict=False, time_unit="ms", time_zone=None)
            else:
                parsed = text.str.to_date(pattern, strict=False)
        except pl.exceptions.PolarsError:
            continue
        if parsed.null_count() < len(parsed):
            return parsed
    return pl.Series([None] * len(text), dtype=pl.Date)


def _parse_slashed(rows: _Rows, text: pl.Series) -> pl.Series:
    """Dates such as 03/04/2024, with or without a time; any day above 12 shows which number is the day."""
    day_first, month_first = (_slashed(text, pattern) for pattern in _SLASHED)
    if not day_first.null_count() and not month_first.null_count() and (unsure := day_first != month_first).any():
        fact = "the timestamp {value!r}, of which either number may be the month, as in all other rows"
        rows.fail("timestamp", unsure, fact, "write dates as 2024-05-31")
    return min(day_first, month_first, key=lambda parsed: parsed.null_count())


def _slashed(text: pl.Series, pattern: str) -> pl.Series:
    parsed = text.str.to_datetime(pattern, strict=False, time_unit="ms")
    for time in (" %H:%M:%S", " %H:%M"):
        parsed = parsed.fill_null(text.str.to_datetime(pattern + time, strict=False, time_unit="ms"))
    return parsed
