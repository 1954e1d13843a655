"""Table 1: the sizes of the data sets, alongside those in the paper."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from purerec.data import catalog
from purerec.errors import FetchError
from purerec.experiments.specs import StatisticsSpec
from purerec.tuning.search import Tell


def data_statistics(spec: StatisticsSpec, tell: Tell = print) -> dict[str, Any]:
    """A row for each data set that can be fetched."""
    rows, missing = [], {}
    for name in spec.data:
        try:
            log = catalog.load(name)
        except FetchError as error:
            missing[name] = error
            continue
        rows.append({"data": name, **catalog.statistics(log), "paper": asdict(catalog.CATALOG[name].paper)})
    if missing and not rows:
        raise next(iter(missing.values()))
    for name, reason in missing.items():
        tell(f"{spec.title}: without {name}, because {reason}")
    return {"rows": rows}
