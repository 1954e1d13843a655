"""The parts of an experiment whose data can be fetched: a table without one data set is better than none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from purerec.errors import FetchError
from purerec.tuning.search import Tell

AnyPart = TypeVar("AnyPart")


def fetchable(
    title: str, wanted: Iterable[tuple[str, Callable[[], AnyPart]]], tell: Tell
) -> tuple[list[AnyPart], list[str]]:
    """What each `(data, make)` makes, and the data sets that are left out, which are named. An error if all are."""
    found: list[AnyPart] = []
    missing: dict[str, FetchError] = {}
    for data, make in wanted:
        try:
            if data not in missing:  # another try takes time and fails as well
                found.append(make())
        except FetchError as error:
            missing[data] = error
    if missing and not found:
        raise next(iter(missing.values()))
    for data, reason in missing.items():
        tell(f"{title}: without {data}, because {reason}")
    return found, list(missing)
