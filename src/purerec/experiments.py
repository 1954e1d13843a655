"""Runs: data, split, model, seed -> a result that can be printed, stored and compared."""

from __future__ import annotations

import hashlib
import json
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from purerec import __version__, storage
from purerec.errors import ConfigError, DataError, StoreError
from purerec.evaluating import Evaluation, Protocol, evaluate
from purerec.interactions import Interactions
from purerec.memory import Peak
from purerec.models import make_model
from purerec.models.base import Recommender
from purerec.results import Comparison, Result
from purerec.splitting import Split
from purerec.splitting import split as make_split
from purerec.training import Run


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
    peak = Peak()
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
        peak.mb,
        peak.mb - peak.before_mb,
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
    return Comparison(split.train.name, metric, against, results, _printed(split, protocol, plans))


def _printed(split: Split, protocol: Protocol, plans: Sequence[Plan]) -> dict[str, dict[str, float]]:
    """The paper's rows for models compared as in its Table 2, which alone was made with a sound evaluator."""
    if split.train.name != "ml-100k" or split.label != "u1" or protocol != "exact":
        return {}
    rows = {plan.name: paper_row("ml-100k", plan.name) for plan in plans}
    return {name: row for name, row in rows.items() if row is not None}


_USERS = storage.Part(("n",), np.int64)


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
        stored = storage.read_folder(folder, kind="run")
        try:
            layout = {n: storage.Part(("n",), np.float64) for n in stored.tensors} | {"user_idx": _USERS}
            storage.check_layout(stored.tensors, layout, {})
            per_user = {n.removeprefix("user."): a for n, a in stored.tensors.items() if n.startswith("user.")}
            facts = {**stored.manifest["evaluation"], "per_user": per_user, "user_idx": stored.tensors["user_idx"]}
            return Result(**stored.manifest["result"], evaluation=Evaluation(**facts))
        except (KeyError, TypeError, StoreError) as error:
            raise StoreError(f"{folder} makes no sense ({error}); compare again without --resume") from None

    def put(self, key: Any, result: Result) -> None:
        facts = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "evaluation"}
        judged = result.evaluation
        evaluation = {
            f.name: getattr(judged, f.name) for f in fields(judged) if f.name not in ("per_user", "user_idx")
        }
        tensors = {f"user.{name}": values for name, values in judged.per_user.items()} | {"user_idx": judged.user_idx}
        manifest = {"result": facts, "evaluation": evaluation}
        storage.write_folder(self._folder(key), kind="run", manifest=manifest, tensors=tensors)

    def clear(self) -> None:
        storage.discard(self.path)
