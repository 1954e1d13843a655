"""Runs: data, split, model, seed -> a result that can be printed, stored and compared."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from purerec import __version__, storing
from purerec.comparing import Row, compare
from purerec.errors import ConfigError, DataError
from purerec.evaluating import Evaluation, Protocol, evaluate
from purerec.interactions import Interactions
from purerec.models import make_model
from purerec.models.base import Recommender
from purerec.splitting import Split
from purerec.splitting import split as make_split
from purerec.training import Run


@dataclass(frozen=True, eq=False)
class Result:
    """One model, fitted and evaluated once."""

    data: str
    split: str
    model: str
    settings: dict[str, Any]
    seed: int
    evaluation: Evaluation
    fit_seconds: float
    evaluate_seconds: float
    peak_rss_mb: float

    def to_dict(self) -> dict[str, Any]:
        """The object that `purerec evaluate --json` prints."""
        return {
            "data": self.data,
            "split": self.split,
            "protocol": self.evaluation.protocol,
            "protocol_label": self.evaluation.label,
            "model": self.model,
            "settings": self.settings,
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
    model: Recommender,
    *,
    seed: int = 0,
    protocol: Protocol = "exact",
    options: Run | None = None,
    **evaluation: Any,
) -> Result:
    """Fit a model on all of train with fixed settings, and evaluate it on the test part.

    A model that is already fitted is only evaluated, provided that it has not seen the test part.
    """
    start = time.perf_counter()
    if model.is_fitted:
        check_not_seen(model, split)
    else:
        model.fit(split.full_train, seed=seed, run=options)
    fitted = time.perf_counter()
    result = evaluate(model, split, protocol=protocol, seed=seed, **evaluation)
    done = time.perf_counter()
    return Result(
        split.train.name,
        split.label,
        model.name,
        model.config.model_dump(mode="json"),
        seed,
        result,
        fitted - start,
        done - fitted,
        peak_rss_mb(),
    )


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

    def tests(self, baseline: str | None = None) -> list[Row]:
        """Paired tests of every other model against the baseline, corrected for their number."""
        if len(self.results) < 2:
            return []
        evaluations = {name: [r.evaluation for r in results] for name, results in self.results.items()}
        return compare(evaluations, baseline or self.baseline, self.metric)

    def _paper(self) -> dict[str, float]:
        """The paper's figures, where they were made like ours: Table 2 only."""
        first = next(iter(self.results.values()))[0]
        if first.data != "ml-100k" or first.split != "u1" or first.evaluation.protocol != "exact":
            return {}
        rows = {name: paper_row(first.data, results[0].model) for name, results in self.results.items()}
        return {name: row[self.metric] for name, row in rows.items() if row is not None and self.metric in row}

    def headings(self) -> list[str]:
        names = list(next(iter(self.results.values()))[0].evaluation.metrics)
        beside = [f"paper's {self.metric}"] if self._paper() else []
        return ["model", *names, f"± {self.metric}", *beside, "fit s", "peak MB so far"]

    def rows(self) -> list[list[Any]]:
        printed = self._paper()
        return [
            [
                name,
                *(self.mean(name, metric) for metric in results[0].evaluation.metrics),
                self.deviation(name, self.metric),
                *([printed.get(name)] if printed else []),
                f"{np.mean([r.fit_seconds for r in results]):.2f}",
                f"{max(r.peak_rss_mb for r in results):.0f}",
            ]
            for name, results in self.results.items()
        ]

    def recommendation(self) -> str:
        """Which model to use, and how sure that is."""
        best = max(self.results, key=lambda name: self.mean(name, self.metric))
        if len(self.results) == 1:
            return f"only {best} was tried"
        rivals = [row for row in self.tests(best) if row.model != best]
        equal = [row.model for row in rivals if row.verdict == "no difference"]
        if not equal:
            return f"use {best}: better in {self.metric} than every other, each test below p = 0.05 (Holm)"
        quick = min([best, *equal], key=lambda name: np.mean([r.fit_seconds for r in self.results[name]]))
        also = f"; of these {quick} is the quickest to fit" if quick != best else ""
        return f"use {best}, though {', '.join(equal)} cannot be told apart from it in {self.metric} here{also}"

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


@dataclass(frozen=True)
class Plan:
    """One line of a comparison: a model with settings, under a name of its own."""

    name: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> Recommender:
        return make_model(self.model, **self.settings)


def compare_models(
    split: Split,
    plans: Sequence[Plan],
    *,
    seeds: int = 5,
    baseline: str | None = None,
    metric: str = "P@5",
    protocol: Protocol = "exact",
    pool: int = 500,
    store: RunStore | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit and evaluate every plan with seeds 0, 1, ...; runs that the store has are not run again."""
    names = [plan.name for plan in plans]
    if not names or len(set(names)) < len(names):
        raise ConfigError("give at least one model to compare, and each once")
    for plan in plans:
        plan.make()  # a wrong name or setting is an error before anything is fitted
    against = baseline or ("pure" if "pure" in names else names[0])
    if against not in names:
        raise ConfigError(f"{against!r} is not among the models compared ({', '.join(names)})")
    results: dict[str, list[Result]] = {}
    for plan in plans:
        results[plan.name] = []
        for seed in range(seeds):
            key = [plan.model, dict(plan.settings), seed, split.full_train.fingerprint, split.label, protocol, pool]
            found = store.get(key) if store is not None else None
            if found is None:
                found = run(split, plan.make(), seed=seed, protocol=protocol, pool=pool)
                if store is not None:
                    store.put(key, found)
            results[plan.name].append(found)
            tell(f"{plan.name} seed {seed}: {metric} {found.evaluation.metrics[metric]:.4f}")
    return Comparison(split.train.name, metric, against, results)


class RunStore:
    """Finished runs of a comparison, so that an interrupted one can go on. One folder per run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _folder(self, key: Any) -> Path:
        text = json.dumps([__version__, key], sort_keys=True, default=str)
        return self.path / hashlib.sha256(text.encode()).hexdigest()[:20]

    def get(self, key: Any) -> Result | None:
        folder = self._folder(key)
        if not folder.exists():
            return None
        stored = storing.read_folder(folder, kind="run")
        facts = stored.manifest["result"]
        evaluation = Evaluation(
            **stored.manifest["evaluation"],
            per_user={n.removeprefix("user."): a for n, a in stored.tensors.items() if n.startswith("user.")},
            user_idx=stored.tensors["user_idx"],
        )
        return Result(**facts, evaluation=evaluation)

    def put(self, key: Any, result: Result) -> None:
        facts = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "evaluation"}
        judged = result.evaluation
        evaluation = {
            f.name: getattr(judged, f.name) for f in fields(judged) if f.name not in ("per_user", "user_idx")
        }
        tensors = {f"user.{name}": values for name, values in judged.per_user.items()} | {"user_idx": judged.user_idx}
        manifest = {"result": facts, "evaluation": evaluation}
        storing.write_folder(self._folder(key), kind="run", manifest=manifest, tensors=tensors)

    def clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
