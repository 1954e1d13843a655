"""Runs: data, split, model, seed -> a result that can be printed, stored and compared."""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from purerec.comparing import Row, compare
from purerec.errors import ConfigError, DataError
from purerec.evaluating import Evaluation, Protocol, evaluate
from purerec.interactions import Interactions
from purerec.models import make_model, model_class
from purerec.models.base import Recommender
from purerec.splitting import Split
from purerec.splitting import split as make_split
from purerec.training import Run


@dataclass(frozen=True, eq=False)
class Result:
    """One model, fitted and evaluated once."""

    data: str
    split: Split
    model: Recommender
    seed: int
    evaluation: Evaluation
    fit_seconds: float
    evaluate_seconds: float
    peak_rss_mb: float

    def to_dict(self) -> dict[str, Any]:
        """The object that `purerec evaluate --json` prints."""
        return {
            "data": self.data,
            "split": self.split.label,
            "protocol": self.evaluation.protocol,
            "protocol_label": self.evaluation.label,
            "model": self.model.name,
            "settings": self.model.config.model_dump(mode="json"),
            "seed": self.seed,
            "metrics": dict(self.evaluation.metrics),
            "users": self.evaluation.n_users_evaluated,
            "users_without_positives": self.evaluation.n_users_skipped,
            "fit_seconds": round(self.fit_seconds, 4),
            "evaluate_seconds": round(self.evaluate_seconds, 4),
            "peak_rss_mb": round(self.peak_rss_mb, 1),
        }


def run(
    split: Split,
    model: str | Recommender,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    protocol: Protocol = "exact",
    options: Run | None = None,
    **evaluation: Any,
) -> Result:
    """Fit a model on all of train with fixed settings, and evaluate it on the test part.

    A model that is already fitted is only evaluated, provided that it has not seen the test part.
    """
    recommender = make_model(model, **(settings or {})) if isinstance(model, str) else model
    start = time.perf_counter()
    if recommender.is_fitted:
        check_not_seen(recommender, split)
    else:
        recommender.fit(split.full_train, seed=seed, run=options)
    fitted = time.perf_counter()
    result = evaluate(recommender, split, protocol=protocol, seed=seed, **evaluation)
    done = time.perf_counter()
    return Result(split.train.name, split, recommender, seed, result, fitted - start, done - fitted, peak_rss_mb())


def fit_with_early_stopping(
    model: Recommender, train: Interactions, *, seed: int, options: Run, patience: int = 5
) -> None:
    """Find the number of epochs on a validation part carved out of train, then refit on all of it."""
    if "patience" not in type(model.config).model_fields:
        raise ConfigError(f"{model.name} is not fitted in epochs, so there is nothing to stop early")
    fields = model.config.model_dump()
    probe = type(model)(**{**fields, "patience": fields["patience"] or patience})
    parts = make_split(replace(train, name="train"), "ratio", test=0.1, valid=False, seed=seed)
    probe.fit(parts.train, valid=parts.test, seed=seed, run=replace(options, checkpoint=None, resume=False))
    best = getattr(probe, "history", None)
    epochs = None if best is None or best.best_epoch is None else best.best_epoch + 1
    model.fit(train, seed=seed, run=replace(options, stop_after=epochs))
    model.fitted_on["epochs_found"] = epochs


def check_not_seen(model: Recommender, split: Split) -> None:
    """A stored model may be judged only by pairs that it was not fitted on."""
    if model.users != split.test.users or model.items != split.test.items:
        raise DataError(
            f"the model knows {len(model.users):,} users and {len(model.items):,} items, and this data has other "
            f"ones ({split.test.n_users:,} and {split.test.n_items:,}); evaluate it on the data it was fitted on"
        )
    seen = model.seen.overlap(split.test.positives)
    if seen:
        raise DataError(
            f"the model was fitted on {seen:,} of the {split.test.n_positives:,} test pairs, so its score would "
            f"be a lie; fit it with the same --split ({split.label}) and --split-seed"
        )


def peak_rss_mb() -> float:
    """Largest resident memory of this process so far."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


@cache
def paper() -> dict[str, Any]:
    """The numbers that the paper prints."""
    with (folder() / "paper.toml").open("rb") as file:
        return tomllib.load(file)


def folder() -> Path:
    """Where the experiments' TOML files are: inside an installed package, or in the source tree."""
    packaged = Path(__file__).parent / "_experiments"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "experiments"


def paper_row(data: str, model: str) -> dict[str, float] | None:
    """The paper's row for a model on one of its data sets."""
    for table in ("table2", "table3", "table4"):
        if paper()[table]["data"] == data and model in paper()[table]:
            return dict(zip(paper()["columns"], paper()[table][model], strict=True))
    return None


# ---------------------------------------------------------------------- several models side by side


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several models on one split, each with several seeds."""

    data: str
    metric: str
    baseline: str
    results: dict[str, list[Result]]

    @property
    def label(self) -> str:
        return next(iter(self.results.values()))[0].evaluation.label

    def mean(self, model: str, metric: str) -> float:
        return float(np.mean([r.evaluation.metrics[metric] for r in self.results[model]]))

    def deviation(self, model: str, metric: str) -> float:
        values = [r.evaluation.metrics[metric] for r in self.results[model]]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def tests(self) -> list[Row]:
        """Paired tests of every other model against the baseline, corrected for their number."""
        if len(self.results) < 2:
            return []
        evaluations = {name: [r.evaluation for r in results] for name, results in self.results.items()}
        return compare(evaluations, self.baseline, self.metric)

    def headings(self) -> list[str]:
        names = list(next(iter(self.results.values()))[0].evaluation.metrics)
        return ["model", *names, f"± {self.metric}", "fit s", "peak MB"]

    def rows(self) -> list[list[Any]]:
        return [
            [
                name,
                *(self.mean(name, metric) for metric in results[0].evaluation.metrics),
                self.deviation(name, self.metric),
                f"{np.mean([r.fit_seconds for r in results]):.2f}",
                f"{max(r.peak_rss_mb for r in results):.0f}",
            ]
            for name, results in self.results.items()
        ]

    def best_rows(self) -> list[int]:
        means = [self.mean(name, self.metric) for name in self.results]
        return [n for n, value in enumerate(means) if value == max(means)]

    def verdicts(self) -> list[str]:
        """One line per model: is it better or worse than the baseline, and how sure is that?"""
        return [
            f"{row.model} against {self.baseline}, {self.metric}: {row.difference:+.4f} "
            f"[{row.ci_low:+.4f}, {row.ci_high:+.4f}], p = {row.p_holm:.2g} (Holm): {row.verdict}"
            for row in self.tests()
            if row.model != self.baseline
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "metric": self.metric,
            "baseline": self.baseline,
            "models": {name: [r.to_dict() for r in results] for name, results in self.results.items()},
            "tests": [asdict(row) for row in self.tests()],
        }


def compare_models(
    split: Split,
    models: list[str],
    *,
    seeds: int = 5,
    baseline: str | None = None,
    metric: str = "P@5",
    protocol: Protocol = "exact",
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit and evaluate every model with seeds 0, 1, ...; the first one named is the baseline unless told."""
    names = list(dict.fromkeys(models))
    if not names:
        raise ConfigError("give at least one model to compare")
    for name in names:
        model_class(name)  # a wrong name is an error before anything is fitted
    against = baseline or ("pure" if "pure" in names else names[0])
    if against not in names:
        raise ConfigError(f"{against!r} is not among the models compared ({', '.join(names)})")
    results: dict[str, list[Result]] = {}
    for name in names:
        results[name] = []
        for seed in range(seeds):
            results[name].append(run(split, name, seed=seed, protocol=protocol))
            tell(f"{name} seed {seed}: {metric} {results[name][-1].evaluation.metrics[metric]:.4f}")
    return Comparison(split.train.name, metric, against, results)
