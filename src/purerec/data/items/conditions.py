"""Conditions on items: 'genre=Comedy', 'genre=Comedy|Drama', 'genre!=Horror', 'year>=1990', 'in_stock', '!in_stock'.

A condition is a column, an operator and a value, or a column alone (present, and neither false nor 0). Conditions are
never run as code. Several conditions must all hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from purerec.data.items.columns import Column, Flags, Numbers, Words, split_tags
from purerec.errors import ConfigError, did_you_mean
from purerec.types import Mask

if TYPE_CHECKING:
    from purerec.data.items.table import ItemTable

SIGNS = "<>=!|"
"""Characters that a column name may not contain"""
_FORM = re.compile(rf"\s*(?P<name>[^{SIGNS}]+?)\s*(?P<sign><=|>=|!=|=|<|>)\s*(?P<value>.*?)\s*", re.DOTALL)
_ALONE = re.compile(rf"\s*(?P<no>!?)\s*(?P<name>[^{SIGNS}]+?)\s*")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    r"(?:\d{1,2}([./-])\d{1,2}\1\d{4}|\d{4}([./-])\d{1,2}\2\d{1,2}|\d{1,2}/\d{1,2}/\d{2}"
    rf"|\d{{1,2}}[ .-]*{_MONTH}[ .,-]*\d{{2,4}}|{_MONTH}[ .]*\d{{1,2}}(?:st|nd|rd|th)?[ ,]+\d{{4}}"
    r")(?:[T ,]+\d{1,2}:\d{2}.*)?",
    re.IGNORECASE,
)
"""A date in any form, perhaps with a time"""
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
"""The start of a date whose alphabetical order is that of time"""
_SHOWN = 100
_LISTED = 1000
"""Maximum number of values searched for a similar one"""


@dataclass(frozen=True)
class Condition:
    """A parsed condition."""

    text: str
    name: str
    sign: str
    """'' and '!' for a column alone"""
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Condition:
        if not isinstance(text, str):
            raise ConfigError(f"a condition is a text such as 'year>=1990', not {text!r}")
        if found := _FORM.fullmatch(text):
            value = found["value"]
            if not value:
                raise ConfigError(f"the condition {_short(text)} has no value; write one such as 'year>=1990'")
            return cls(text, found["name"], found["sign"], value)
        if alone := _ALONE.fullmatch(text):
            return cls(text, alone["name"], alone["no"])
        raise ConfigError(
            f"{_short(text)} is not a condition; write one such as 'genre=Comedy', 'year>=1990', 'in_stock'"
        )

    def mask(self, table: ItemTable) -> Mask:
        """(n,) True for the rows of a table that satisfy it"""
        column = table.column(self.name)
        try:
            if self.sign in ("", "!"):
                found = _is_there(column)
                return ~found if self.sign else found
            if self.sign in ("=", "!="):
                found = column.is_any(split_tags(self.value))
                return ~found if self.sign == "!=" else found
            if isinstance(column, Words) and _is_number(self.value):
                such = f" (such as {_short(column.words[0])})" if column.words else ""
                raise ConfigError(
                    f"{_short(self.text)}: {self.name} is text{such}, not numbers; write every "
                    "value as a number, with a point for decimals, or compare with = or !="
                )
            if isinstance(column, Words) and (date := _misread_date(column, self.value)) is not None:
                raise ConfigError(
                    f"{_short(self.text)}: {_short(date)} is compared as text, whose order is not that of dates; "
                    f"write dates as 2020-01-31, in the column {self.name} and in the condition"
                )
            if isinstance(column, Numbers | Words):
                return column.compare(self.sign, self.value)
        except ConfigError:  # also a ValueError
            raise
        except ValueError as error:
            wanted = "true or false" if isinstance(column, Flags) else "a number"
            raise ConfigError(f"{_short(self.text)}: {self.name} takes {wanted}, not {_short(str(error))}") from None
        raise ConfigError(
            f"{_short(self.text)}: {self.name} is a column of kind {column.kind}, which has no order; use = or !="
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _misread_date(column: Words, value: str) -> str | None:
    """A date in a form that text does not order, if that is what most of a column has, or the value for dates."""
    some = column.words[:: 1 + len(column.words) // _LISTED]
    dates = [word for word in some if _DATE.fullmatch(word)]
    if 2 * len(dates) <= len(some):
        return None
    return next((word for word in (value, *dates) if _DATE.fullmatch(word) and not _ISO_DATE.match(word)), None)


def _is_there(column: Column) -> Mask:
    if isinstance(column, Flags):
        return column.is_any(["true"])
    if isinstance(column, Numbers):
        with np.errstate(invalid="ignore"):
            found: Mask = ~np.isnan(column.values) & (column.values != 0)
        return found
    return np.diff(column.groups()[0]) > 0


def fulfilled(table: ItemTable, conditions: tuple[Condition, ...]) -> Mask:
    """(n,) True for rows that satisfy all conditions"""
    found = np.ones(len(table), dtype=np.bool_)
    for condition in conditions:
        found &= condition.mask(table)
    return found


def nothing_fulfils(table: ItemTable, conditions: tuple[Condition, ...]) -> str | None:
    """A message for conditions that leave no item, which names a value that no item has. None if any are left."""
    if fulfilled(table, conditions).any():
        return None
    for condition in conditions:
        if not condition.mask(table).any():
            words = getattr(table.column(condition.name), "words", ())
            remedy = f"; {did_you_mean(condition.value, words[:_LISTED])}" if words and condition.sign == "=" else ""
            return f"no item has {condition.text}{remedy}"
    return f"no item has {' and '.join(condition.text for condition in conditions)}"


def no_column(name: str, names: list[str]) -> ConfigError:
    return ConfigError(f"the item table has no column {_short(name)}; {did_you_mean(name, names)}")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
