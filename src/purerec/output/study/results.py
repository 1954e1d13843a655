"""Reading results files: comparisons have one or more panels, each with the runs of several models."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from purerec.errors import StoreError

StudyResults = Mapping[str, Any]
"""The content of a results file."""


@dataclass(frozen=True)
class Pair:
    """Two rows of a panel in one metric, compared by a paired test."""

    difference: float
    p: float | None
    how: str
    """What was paired."""


@dataclass(frozen=True, eq=False)
class PanelResults:
    """Models side by side on one split."""

    experiment: str
    found: StudyResults

    @property
    def data(self) -> str:
        return str(self.found["data"])

    @property
    def metric(self) -> str:
        """The metric that models are tested in."""
        return str(self.found["metric"])

    @property
    def baseline(self) -> str:
        return str(self.found["baseline"])

    @property
    def protocol(self) -> str:
        return str(self.found.get("protocol") or next(iter(self.models.values()))[0]["protocol"])

    @property
    def label(self) -> str:
        return str(self.found.get("label") or next(iter(self.models.values()))[0]["protocol_label"])

    @property
    def models(self) -> Mapping[str, Sequence[StudyResults]]:
        found: Mapping[str, Sequence[StudyResults]] = self.found["models"]
        return found

    @property
    def metrics(self) -> list[str]:
        return list(next(iter(self.models.values()))[0]["metrics"])

    @property
    def varied(self) -> Mapping[str, StudyResults]:
        """Rows of a line that varies a setting: the line, and the setting's value."""
        found: Mapping[str, StudyResults] = self.found.get("varied", {})
        return found

    @property
    def lines(self) -> dict[str, list[tuple[float, str]]]:
        """For each line that varies a setting, its values in ascending order, and their rows."""
        found: dict[str, list[tuple[float, str]]] = {}
        for row, facts in self.varied.items():
            ((_, value),) = ((key, value) for key, value in facts.items() if key != "line")
            found.setdefault(facts["line"], []).append((float(value), row))
        return {line: sorted(points) for line, points in found.items()}

    @property
    def setting(self) -> str:
        """The varied setting."""
        return " and ".join(sorted({key for facts in self.varied.values() for key in facts if key != "line"}))

    def values(self, model: str, metric: str) -> list[float]:
        return [run["metrics"][metric] for run in self.models[model]]

    def mean(self, model: str, metric: str) -> float:
        return fmean(self.values(model, metric))

    def deviation(self, model: str, metric: str) -> float | None:
        """The deviation over seeds; None if there is only one."""
        values = self.values(model, metric)
        return stdev(values) if len(values) > 1 else None

    def seconds(self, model: str) -> float:
        """The median over seeds: a brief load on the machine may slow down one of them."""
        return float(median(run["fit_seconds"] for run in self.models[model]))

    def pair(self, model: str, rival: str, metric: str) -> Pair:
        """The test of these two models: by user if the file has one, else by seed."""
        difference = self.mean(model, metric) - self.mean(rival, metric)
        for test in self.found.get("contrasts", []):
            if (test["model"], test["rival"], test["metric"]) == (model, rival, metric):
                return Pair(test["difference"], test["p"], "paired by user")
        if metric == self.metric and self.baseline in (model, rival):
            other, sign = (rival, -1) if model == self.baseline else (model, 1)
            for test in self.found["tests"]:
                if test["model"] == other:
                    return Pair(sign * test["difference"], test["p"], "paired by user")
        return Pair(difference, _by_seed(self.values(model, metric), self.values(rival, metric)), "paired by seed")


def panels(name: str, found: StudyResults) -> list[PanelResults]:
    """The panels of a comparison; empty for other experiments."""
    parts = found.get("panels") or ([found] if "models" in found and "tests" in found else [])
    return [PanelResults(name, part) for part in parts]


def read(folder: Path) -> dict[str, StudyResults]:
    """All results of experiments in a folder, by name."""
    found: dict[str, StudyResults] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"cannot read {path}: {error}; run purerec reproduce {path.stem} again") from None
        if isinstance(content, dict) and "experiment" in content:
            found[path.stem] = content
    return found


def _by_seed(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Two-sided p of a paired t-test; None if there is nothing to test. A single value stands for all seeds."""
    from scipy.special import stdtr

    n = max(len(a), len(b))
    a, b = (list(values) * n if len(values) == 1 else list(values) for values in (a, b))
    if n < 2 or len(a) != len(b):
        return None
    differences = [x - y for x, y in zip(a, b, strict=True)]
    spread = stdev(differences)
    if spread == 0:
        return 1.0 if differences[0] == 0 else None
    return float(2 * stdtr(n - 1, -abs(fmean(differences)) / (spread / math.sqrt(n))))


def welch(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Two-sided p of Welch's t-test; None if there is nothing to test."""
    from scipy.special import stdtr

    if min(len(a), len(b)) < 2:
        return None
    errors = [stdev(values) ** 2 / len(values) for values in (a, b)]
    if sum(errors) == 0:
        return None
    freedom = sum(errors) ** 2 / sum(e**2 / (len(v) - 1) for e, v in zip(errors, (a, b), strict=True))
    return float(2 * stdtr(freedom, -abs(fmean(a) - fmean(b)) / math.sqrt(sum(errors))))
