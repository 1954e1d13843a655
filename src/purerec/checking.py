"""From a table of users, items, ratings and times to Interactions: values that cannot be used are errors, with their
row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.errors import DataError, ReadError
from purerec.interactions import F32, I64, Interactions, TimeUnit
from purerec.sniffing import ROLES

_LATEST_S = 4_102_444_800  # 1 January 2100
_EARLIEST_S = 315_532_800  # 1 January 1980: no log of a unit finer than seconds is older
_UNITS: tuple[tuple[TimeUnit, int], ...] = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))

Fail = Callable[[str, Any, str, str], NoReturn]


def checked(table: pl.DataFrame, *, where: str, first_row: int, name: str) -> Interactions:
    """The rows as Interactions; `first_row` is the number of the first one in a text file, from 1."""
    if first_row:  # text files: blank lines arrive as rows of nulls
        blank = table.select(pl.all_horizontal(pl.all().is_null()))[:, 0]
        line_of = np.arange(first_row, first_row + len(table))
        if blank.any():
            keep = ~blank
            table, line_of = table.filter(keep), line_of[keep.to_numpy()]
    else:
        line_of = np.arange(len(table))
    if not len(table):
        raise DataError(f"{where}: there are no interactions in it; give a file with one interaction per row")

    def fail(role: str, bad: npt.NDArray[np.bool_] | pl.Series, fact: str, remedy: str) -> NoReturn:
        at = int(np.flatnonzero(np.asarray(bad))[0])
        value = table[role][at]
        raise ReadError(f"{where}: row {line_of[at]} has {fact.format(value=value)}; {remedy}")

    for role in [r for r in ROLES if r in table.columns and r != "label"]:
        if table[role].null_count():
            fail(
                role,
                table[role].is_null(),
                f"no {role}",
                "it has fewer fields than the others or an empty one: mend or remove it",
            )
    for role in ("user", "item"):
        if table[role].dtype.is_float():
            whole = table[role].cast(pl.Int64, strict=False)
            odd = whole.is_null() | (whole.cast(pl.Float64) != table[role].cast(pl.Float64))
            if odd.any():
                fail(role, odd, "the " + role + " {value}, a fraction", "ids are integers or strings")
            table = table.with_columns(whole)
    rating = _check_rating(table, fail) if "rating" in table.columns else None
    timestamp: I64 | None = None
    unit: TimeUnit = "s"
    if "timestamp" in table.columns:
        timestamp, unit = _check_timestamp(table, fail)
    data = Interactions.from_columns(
        table["user"], table["item"], rating=rating, timestamp=timestamp, time_unit=unit, name=name
    )
    if "label" in table.columns:
        titles = table.select(pl.col("item").cast(pl.String), "label").drop_nulls().unique("item", keep="first")
        data = data.with_labels(dict(zip(titles["item"].to_list(), titles["label"].to_list(), strict=True)))
    return data


def _check_rating(table: pl.DataFrame, fail: Fail) -> F32:
    column = table["rating"]
    if not column.dtype.is_numeric():
        numbers = column.cast(pl.String).str.strip_chars().cast(pl.Float32, strict=False)
        if numbers.null_count():
            fail("rating", numbers.is_null(), "the rating {value!r}, which is not a number", "mend or remove it")
        column = numbers
    values = column.cast(pl.Float32).to_numpy()
    # A sum is not finite if one value is not, and costs a tenth of looking at each.
    if not np.isfinite(values.sum(dtype=np.float64)):
        fail("rating", ~np.isfinite(values), "the rating {value}", "ratings must be finite: mend or remove it")
    return values


def _check_timestamp(table: pl.DataFrame, fail: Fail) -> tuple[I64, TimeUnit]:
    column = table["timestamp"]
    if column.dtype == pl.String:
        text = column.str.strip_chars()
        numbers = text.cast(pl.Float64, strict=False)
        column = text.cast(pl.Int64, strict=False)
        if column.null_count():
            # Fractions, numbers beyond 64 bits, or dates: whichever most rows are decides which row is wrong.
            column = numbers if 2 * numbers.null_count() <= len(numbers) else _parse_dates(text)
            if column.null_count():
                fail(
                    "timestamp",
                    column.is_null(),
                    "the timestamp {value!r}, which is neither a number nor a date",
                    "give seconds since 1970 or dates such as 2024-05-01 13:45:00",
                )
    if column.dtype.is_temporal():
        return column.cast(pl.Datetime("ms")).dt.epoch("ms").to_numpy().astype(np.int64), "ms"
    if column.dtype.is_float():
        raw = column.to_numpy()
        if not np.isfinite(raw).all():
            fail("timestamp", ~np.isfinite(raw), "the timestamp {value}", "timestamps must be finite")
        late = raw > _LATEST_S * 10**9
        if late.any():
            fail("timestamp", late, "the timestamp {value}, after 2100", "give seconds since 1970")
        fractions = bool((raw != np.floor(raw)).any())
        values = (raw * 1000 if fractions else raw).astype(np.int64)
        unit_of_fractions: TimeUnit | None = "ms" if fractions and raw.max() <= _LATEST_S else None
    else:
        values, unit_of_fractions = column.cast(pl.Int64).to_numpy(), None
    low, high = int(values.min()), int(values.max())
    if low < 0:
        fail("timestamp", values < 0, "the timestamp {value}, before 1970", "give seconds since 1970")
    if unit_of_fractions is not None:
        return values, unit_of_fractions
    for unit, per_second in _UNITS:
        if high <= _LATEST_S * per_second:
            if unit != "s" and low < _EARLIEST_S * per_second:
                bad = values < _EARLIEST_S * per_second
                if bad.mean() > 0.5:  # most are in a coarser unit, so the large ones are the strange ones
                    bad = ~bad
                fail("timestamp", bad, "the timestamp {value}, far from the others", "use one unit in all rows")
            return values, unit
    late = values > _LATEST_S * 10**9
    return fail("timestamp", late, "the timestamp {value}, after 2100", "give seconds since 1970")


def _parse_dates(text: pl.Series) -> pl.Series:
    for pattern in (None, "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y"):
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
