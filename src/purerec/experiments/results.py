"""Results: one run, and several models side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from purerec.evaluation.protocols import Evaluation
from purerec.evaluation.significance import Row, compare


@dataclass(frozen=True, eq=False)
class RunResult:
    """One model, fitted and evaluated once."""

    data: str
    split: str
    model: str
    settings: dict[str, Any]
    resolved: dict[str, int | float]
    """Settings that are None because they follow from the data, as numbers."""
    seed: int
    evaluation: Evaluation
    fit_seconds: float
    evaluate_seconds: float
    peak_rss_mb: float
    """Peak memory of the process during the run."""
    added_mb: float
    """How much of it the run added."""

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
    """Several models on one split, each with several seeds."""

    data: str
    metric: str
    baseline: str
    results: dict[str, list[RunResult]]
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What the paper prints for a model, where it was measured in the same way."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Models that could not be fitted or evaluated, and why."""

    @property
    def label(self) -> str:
        return next(iter(self.results.values()))[0].evaluation.label

    @property
    def metrics(self) -> list[str]:
        return list(next(iter(self.results.values()))[0].evaluation.metrics)

    def mean(self, model: str, metric: str) -> float:
        return float(np.mean([r.evaluation.metrics[metric] for r in self.results[model]]))

    def deviation(self, model: str, metric: str) -> float:
        values = [r.evaluation.metrics[metric] for r in self.results[model]]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def fit_seconds(self, model: str) -> float:
        return float(np.mean([r.fit_seconds for r in self.results[model]]))

    def tests(self, baseline: str | None = None) -> list[Row]:
        """Paired tests of every other model against the baseline, corrected for their number."""
        if len(self.results) < 2:
            return []
        evaluations = {name: [r.evaluation for r in results] for name, results in self.results.items()}
        return compare(evaluations, baseline or self.baseline, self.metric)

    def scores(self) -> list[list[Any]]:
        """A line of means for each model, below it the spread over seeds and what the paper prints."""
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

    def costs_and_tests(self) -> tuple[list[str], list[list[Any]]]:
        """For each model its difference from the baseline with interval and verdict, its time and its memory."""
        tests = {row.model: row for row in self.tests()}
        headings = ["model", f"{self.metric} - {self.baseline}", "95 % interval", "p (Holm)", "verdict"]
        lines = []
        for name, results in self.results.items():
            test = tests.get(name)
            cells = ["", "", "", "baseline" if name == self.baseline else ""]
            if test is not None and name != self.baseline:
                interval = f"[{test.ci_low:+.4f}, {test.ci_high:+.4f}]"
                cells = [f"{test.difference:+.4f}", interval, f"{test.p_holm:.2g}", test.verdict]
            peak, added = (max(getattr(r, what) for r in results) for what in ("peak_rss_mb", "added_mb"))
            lines.append([name, *cells, f"{self.fit_seconds(name):.2f}", f"{peak:.0f}", f"{added:.0f}"])
        return [*headings, "fit s", "peak MB", "of it for the run"], lines

    def recommendation(self) -> str:
        """Which model to use, and how certain that is."""
        best = max(self.results, key=lambda name: self.mean(name, self.metric))
        if len(self.results) == 1:
            return f"only {best} was tried"
        rivals = [row for row in self.tests(best) if row.model != best]
        users = next(iter(self.results.values()))[0].evaluation.n_users_evaluated
        equal = [row.model for row in rivals if row.verdict == "no difference"]
        if not equal:
            second = max(rivals, key=lambda row: row.difference)
            return (
                f"use {best}: better in {self.metric} than every other over {users:,} people; next is "
                f"{second.model}, {-second.difference:.4f} [{-second.ci_high:.4f}, {-second.ci_low:.4f}] behind, "
                f"p = {second.p_holm:.2g} (Holm)"
            )
        quick = min([best, *equal], key=self.fit_seconds)
        also = f"; of these {quick} is the quickest to fit" if quick != best else ""
        return (
            f"use {best}, though {', '.join(equal)} is not significantly different in {self.metric} with "
            f"{users:,} people{also}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "metric": self.metric,
            "baseline": self.baseline,
            "models": {name: [r.to_dict() for r in results] for name, results in self.results.items()},
            "tests": [asdict(row) for row in self.tests()],
            "failed": dict(self.failed),
        }
