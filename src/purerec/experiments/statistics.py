"""Table 1: the sizes of the data sets, alongside those in the paper."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from purerec.data import catalog
from purerec.experiments.specs import StatisticsSpec


def data_statistics(spec: StatisticsSpec) -> dict[str, Any]:
    """A row for each data set."""
    return {
        "rows": [
            {"data": name, **catalog.statistics(catalog.load(name)), "paper": asdict(catalog.CATALOG[name].paper)}
            for name in spec.data
        ]
    }
