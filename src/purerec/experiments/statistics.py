"""Table 1: the sizes of the data sets, alongside those in the paper."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from purerec.data import catalog
from purerec.experiments.fetchable import fetchable
from purerec.experiments.specs import StatisticsSpec
from purerec.tuning.search import Tell


def data_statistics(spec: StatisticsSpec, tell: Tell = print) -> dict[str, Any]:
    """A row for each data set that can be fetched."""
    rows, without = fetchable(spec.title, ((name, partial(_row, name)) for name in spec.data), tell)
    return {"rows": rows} | ({"without": without} if without else {})


def _row(name: str) -> dict[str, Any]:
    return {"data": name, **catalog.statistics(catalog.load(name)), "paper": asdict(catalog.CATALOG[name].paper)}
