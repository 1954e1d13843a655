"""Results: one run, and several models side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from purerec.evaluation.protocols import Evaluation
from purerec.evaluation.significance import Row, compare

if TYPE_CHECKING:
    from purerec.experiments.picture import Picture


@dataclass(frozen=True, eq=False)
class RunResult:
    """One model, fitted and evaluated once."""

    data: str
    split: str
    model: str
    settings: dict[str, Any] = field(repr=False)
    resolved: dict[str, int | float] = field(repr=False)
    """The values of settings that are None because they depend on the data."""
    seed: int
    evaluation: Evaluation = field(repr=False)
    fit_seconds: float
    evaluate_seconds: float
    peak_rss_mb: float
    """Peak memory of the process during the run."""
    added_mb: float
    """The part of it that the run added."""
    provenance: dict[str, Any] = field(default_factory=dict, repr=False)
    """When, from which commit and on which machine."""

    def to_dict(self) -> dict[str, Any]:
        """The object that `purerec evaluate --json` prints."""
        return {
            "data": self.data,
            "split": self.split,
            "protocol": self.evaluation.protocol,
            "protocol_label": self.evaluation.label,
            "model": self.model,
            "settings": self.settings,
            "resolved": self.resolved,
            "seed": self.seed,
            "metrics": dict(self.evaluation.metrics),
            "users": self.evaluation.n_users_evaluated,
            "users_without_positives": self.evaluation.n_users_skipped,
            "fit_seconds": round(self.fit_seconds, 4),
            "evaluate_seconds": round(self.evaluate_seconds, 4),
            "peak_rss_mb": round(self.peak_rss_mb, 1),
            "added_mb": round(self.added_mb, 1),
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several models on one split, each with several seeds.

    data, results      the data's name; all runs by model
    metric, baseline   what models are tested in, and against what
    """

    data: str
    metric: str
    baseline: str
    results: dict[str, list[RunResult]]
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The paper's values for a model, if measured in the same way."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Models that could not be fitted or evaluated, and why."""
    stopped: Mapping[str, str] = field(default_factory=dict)
    """Models that took too long, and when they were stopped; their finished seeds are in `results`."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Footnotes to rows."""

    def __repr__(self) -> str:
        means = ", ".join(f"{model} {self.mean(model, self.metric):.4f}" for model in self.results)
        return f"Comparison({self.data!r}, {self.metric}: {means})\n{self.advice}"

    @property
    def label(self) -> str:
        """The protocol in words."""
        return next(iter(self.results.values()))[0].evaluation.label

    @property
    def metrics(self) -> list[str]:
        """The metrics that were measured."""
        return list(next(iter(self.results.values()))[0].evaluation.metrics)

    def mean(self, model: str, metric: str) -> float:
        """The mean over a model's seeds."""
        return float(np.mean([r.evaluation.metrics[metric] for r in self.results[model]]))

    def deviation(self, model: str, metric: str) -> float:
        """The standard deviation over a model's seeds; 0 for a single one."""
        values = [r.evaluation.metrics[metric] for r in self.results[model]]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def fit_seconds(self, model: str) -> float:
        """The mean time of a fit."""
        return float(np.mean([r.fit_seconds for r in self.results[model]]))

    def tests(self, baseline: str | None = None, metric: str | None = None) -> list[Row]:
        """Paired tests of every other model against the baseline, corrected for their number."""
        if len(self.results) < 2:
            return []
        return compare(self._evaluations(), baseline or self.baseline, metric or self.metric)

    def contrast(self, model: str, rival: str, metric: str) -> Row:
        """The paired test of one model against another."""
        runs = self._evaluations()
        return compare({rival: runs[rival], model: runs[model]}, rival, metric)[1]

    def _evaluations(self) -> dict[str, list[Evaluation]]:
        return {name: [r.evaluation for r in results] for name, results in self.results.items()}

    def scores(self) -> list[list[Any]]:
        """For each model, a line of means, followed by the spread over seeds and the paper's values."""
        lines: list[list[Any]] = []
        for name, results in self.results.items():
            lines.append([name, *(self.mean(name, m) for m in self.metrics)])
            if len(results) > 1:
                lines.append(["  ±", *(self.deviation(name, m) for m in self.metrics)])
            if name in self.paper:
                lines.append(["  paper", *(self.paper[name].get(m) for m in self.metrics)])
        return lines

    def best_scores(self) -> set[tuple[int, int]]:
        """The cells of `scores` that hold the best mean of their column."""
        best = [max(self.mean(name, m) for name in self.results) for m in self.metrics]
        return {
            (row, column)
            for row, line in enumerate(self.scores())
            if line[0] in self.results
            for column, value in enumerate(line[1:], start=1)
            if value == best[column - 1]
        }

    @property
    def best(self) -> str:
        """The model with the highest mean of the deciding metric."""
        return max(self.results, key=lambda name: self.mean(name, self.metric))

    @property
    def users(self) -> int:
        """The number of people that values are averaged over."""
        return next(iter(self.results.values()))[0].evaluation.n_users_evaluated

    @property
    def seeds(self) -> int:
        """The maximum number of seeds of any model."""
        return max(map(len, self.results.values()))

    @property
    def advice(self) -> str:
        """Which model to use, and how certain that is."""
        from purerec.experiments.advice import advice

        return advice(self)

    def plot(self, metric: str | None = None) -> Picture:
        """A metric with its interval against the fit time; notebooks display it, and `.save("FILE.svg")` writes it.

        Needs the extra `plot`.
        """
        from purerec.experiments.picture import picture

        return picture(self, metric)

    def _repr_html_(self) -> str:
        from purerec.experiments.picture import html

        return html(self)

    def table(self) -> pl.DataFrame:
        """A row for each model: means, deviations over seeds, the test against the baseline, time and memory."""
        tests = {row.model: row for row in self.tests()}
        rows = []
        for name, results in self.results.items():
            test = tests.get(name)
            row: dict[str, Any] = {"model": name, "seeds": len(results)}
            for metric in self.metrics:
                row |= {metric: self.mean(name, metric), f"{metric} ±": self.deviation(name, metric)}
            row |= {
                "difference": None if test is None else test.difference,
                "ci_low": None if test is None else test.ci_low,
                "ci_high": None if test is None else test.ci_high,
                "p_holm": None if test is None or name == self.baseline else test.p_holm,
                "verdict": "" if test is None else test.verdict,
                "fit_seconds": self.fit_seconds(name),
                "added_mb": max(0.0, *(r.added_mb for r in results)),
            }
            rows.append(row)
        return pl.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """The object that `purerec compare --json` prints."""
        return {
            "data": self.data,
            "metric": self.metric,
            "baseline": self.baseline,
            "models": {name: [r.to_dict() for r in results] for name, results in self.results.items()},
            "tests": [asdict(row) for row in self.tests()],
            "failed": dict(self.failed),
            "stopped": dict(self.stopped),
            "notes": dict(self.notes),
        }
