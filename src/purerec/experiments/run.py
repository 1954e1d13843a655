"""Runs: fit and evaluate models, compare several, and store finished runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from purerec import __version__, storage
from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.data.splits import split as make_split
from purerec.errors import ConfigError, PurerecError, StoreError
from purerec.evaluation.choosing import Names, check_choice, deciding_metric, default_metrics, parse_all
from purerec.evaluation.protocols import Evaluation, Protocol, evaluate
from purerec.experiments.plans import Plan
from purerec.experiments.results import Comparison, RunResult
from purerec.memory import Peak
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import model_class
from purerec.paper.printed import paper_row
from purerec.training.run import Run


def run(
    split: Split,
    model: Recommender,
    *,
    seed: int = 0,
    protocol: Protocol = "exact",
    options: Run | None = None,
    **evaluation: Any,
) -> RunResult:
    """Fit a model on all of train with fixed settings, and evaluate it on the test part.

    A model that is already fitted is only evaluated; `evaluate` refuses it if it has seen the test part.
    """
    peak = Peak()
    start = time.perf_counter()
    if not model.is_fitted:
        model.fit(split.full_train, seed=seed, run=options)
    fitted = time.perf_counter()
    result = evaluate(model, split, protocol=protocol, seed=seed, **evaluation)
    done = time.perf_counter()
    return RunResult(
        split.train.name,
        split.label,
        model.name,
        model.config.model_dump(mode="json"),
        dict(model.fitted_on.resolved),
        seed,
        result,
        fitted - start,
        done - fitted,
        peak.mb,
        peak.mb - peak.before_mb,
    )


def check_epochs(model: str) -> None:
    """Refuse early stopping of a model that has nothing to stop."""
    if "patience" not in model_class(model).config_class.model_fields:
        raise ConfigError(f"{model} is not fitted in epochs, so there is nothing to stop early")


def fit_with_early_stopping(
    model: Recommender, train: Interactions, *, seed: int, options: Run, patience: int = 5
) -> None:
    """Find the number of epochs on a validation part carved out of train, then refit on all of it."""
    check_epochs(model.name)
    fields = model.config.model_dump()
    probe = type(model)(**{**fields, "patience": fields["patience"] or patience})
    parts = make_split(replace(train, name="train"), "ratio", test=0.1, valid=False, seed=seed)
    probe.fit(parts.train, valid=parts.test, seed=seed, run=replace(options, checkpoint=None, resume=False))
    best = getattr(probe, "history", None)
    epochs = None if best is None or best.best_epoch is None else best.best_epoch + 1
    model.fit(train, seed=seed, run=replace(options, stop_after=epochs))
    model.fitted_on = model.fitted_on.model_copy(update={"epochs_found": epochs})


# ---------------------------------------------------------------------- several models side by side


def compare_models(
    split: Split,
    plans: Sequence[Plan],
    *,
    seeds: int = 5,
    baseline: str | None = None,
    metrics: Names | None = None,
    metric: str | None = None,
    protocol: Protocol = "exact",
    pool: int = 500,
    store: RunStore | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit and evaluate every plan with seeds 0, 1, ...; runs that the store has are not run again.

    `metrics` are reported, and `metric` is the one that models are tested in; both have the data set's own defaults.
    A model that fails with any error is reported and left out. If it is the baseline, the first of the others takes
    its place.
    """
    asked = None if metrics is None else [m.name for m in parse_all(metrics)]
    metric = check_choice(asked, metric, protocol) or deciding_metric(split.train.name, asked)
    names = [plan.name for plan in plans]
    if not names or len(set(names)) < len(names):
        raise ConfigError("give at least one model to compare, and each once")
    for plan in plans:
        plan.make()  # a wrong name or setting is an error before anything is fitted
    against = baseline or ("pure" if "pure" in names else names[0])
    if against not in names:
        raise ConfigError(f"{against!r} is not among the models compared ({', '.join(names)})")
    reported = tuple(dict.fromkeys([*(asked or default_metrics(split.train.name)), metric]))
    how: dict[str, Any] = {"protocol": protocol, "pool": pool, "metrics": reported}
    results: dict[str, list[RunResult]] = {}
    failed: dict[str, str] = {}
    for plan in plans:
        runs: list[RunResult] = []
        try:
            for seed in range(seeds):
                runs.append(_run_once(split, plan, seed, how, store))
                tell(f"{plan.name} seed {seed}: {metric} {runs[-1].evaluation.metrics[metric]:.4f}")
        except Exception as error:  # whatever it is: the other models have nothing to do with it
            failed[plan.name] = _reason(error)
            tell(f"{plan.name} failed: {failed[plan.name]}")
        else:
            results[plan.name] = runs
    if not results:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise PurerecError(f"no model could be compared: {reasons}")
    if against not in results:
        tell(f"{against} failed: the others are tested against {next(iter(results))}")
        against = next(iter(results))
    return Comparison(split.train.name, metric, against, results, _printed(split, protocol, plans), failed)


def _run_once(split: Split, plan: Plan, seed: int, how: Mapping[str, Any], store: RunStore | None) -> RunResult:
    model = plan.make()
    # All that a result depends on: a default that has changed since is another setting.
    key = {
        "model": plan.model,
        "settings": model.config.model_dump(mode="json"),
        "seed": seed,
        "parts": [None if part is None else part.fingerprint for part in (split.train, split.valid, split.test)],
        "split": split.label,
        **how,
    }
    found = store.get(key) if store is not None else None
    if found is None:
        found = run(split, model, seed=seed, **how)
        if store is not None:
            store.put(key, found)
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, PurerecError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory; use fewer users, items or dimensions"
    return f"internal error: {type(error).__name__}: {error}"


def _printed(split: Split, protocol: Protocol, plans: Sequence[Plan]) -> dict[str, dict[str, float]]:
    """The paper's rows for models compared as in its Table 2, which alone was made with a sound evaluator."""
    if split.train.name != "ml-100k" or split.label != "u1" or protocol != "exact":
        return {}
    rows = {plan.name: paper_row("ml-100k", plan.name) for plan in plans}
    return {name: row for name, row in rows.items() if row is not None}


_USERS = storage.Part(("n",), np.int64)


class RunStore:
    """Finished runs of a comparison, so that an interrupted one can continue.

    One folder per run, named by a digest of the code and of everything the run depends on.

    A store that cannot be written or read (a full disk, another comparison that clears it) does not stop the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def _folder(self, key: Any) -> Path:
        text = json.dumps([__version__, _code(), key], sort_keys=True, default=str)
        return self.path / hashlib.sha256(text.encode()).hexdigest()[:20]

    def get(self, key: Any) -> RunResult | None:
        folder = self._folder(key)
        try:
            stored = storage.read_folder(folder, kind="run")
            layout = {n: storage.Part(("n",), np.float64) for n in stored.tensors} | {"user_idx": _USERS}
            storage.check_layout(stored.tensors, layout, {})
            per_user = {n.removeprefix("user."): a for n, a in stored.tensors.items() if n.startswith("user.")}
            facts = {**stored.manifest["evaluation"], "per_user": per_user, "user_idx": stored.tensors["user_idx"]}
            return RunResult(**stored.manifest["result"], evaluation=Evaluation(**facts))
        except (KeyError, TypeError, StoreError):
            return None

    def put(self, key: Any, result: RunResult) -> None:
        facts = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "evaluation"}
        judged = result.evaluation
        evaluation = {
            f.name: getattr(judged, f.name) for f in fields(judged) if f.name not in ("per_user", "user_idx")
        }
        tensors = {f"user.{name}": values for name, values in judged.per_user.items()} | {"user_idx": judged.user_idx}
        manifest = {"result": facts, "evaluation": evaluation}
        with contextlib.suppress(StoreError):
            storage.write_folder(self._folder(key), kind="run", manifest=manifest, tensors=tensors)

    def clear(self) -> None:
        storage.discard(self.path)


@cache
def _code() -> str:
    """A digest of this package's source: a result of other code is another result, whatever the version says."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
