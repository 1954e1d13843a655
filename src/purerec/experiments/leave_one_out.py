"""Do defaults hold on data that had no part in choosing them? Leave one log out, choose on the others.

Each candidate (the defaults, and the defaults with some settings changed) is fitted on validation splits of every log.
For each log left out, the candidate is taken that is best on the others, by the mean of its value relative to the best
one there. Its regret is how far it is behind the best candidate on the log that was left out. How far a model's
defaults are behind the best model of the log is the other number that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from purerec.data import catalog
from purerec.data.folds import thinned
from purerec.data.interactions import Csr, Interactions
from purerec.data.splits import Split, split
from purerec.data.synthetic import make_world
from purerec.errors import ConfigError
from purerec.evaluation.protocols import evaluate
from purerec.experiments.specs import LeaveOneOutSpec, LogSpec
from purerec.models.registry import make_model
from purerec.rng import named_rng

DEFAULTS = "defaults"
Values = Mapping[str, Mapping[str, float]]
"""Of one model: by log and candidate"""


def leave_one_out(spec: LeaveOneOutSpec, seeds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Values of all candidates on all logs, and the regret on each log of what the others would choose."""
    found: dict[str, dict[str, dict[str, float]]] = {model: {} for model in spec.models}
    logs = {}
    for log in spec.data:
        folds = _folds(log, seeds)
        logs[log.name] = _described(folds[0].train.positives)
        for model, changes in spec.models.items():
            candidates: dict[str, Mapping[str, Any]] = {DEFAULTS: {}} | {_said(change): change for change in changes}
            found[model][log.name] = _values(folds, model, candidates, spec.metric)
            tell(f"{log.name} {model}: " + ", ".join(f"{c} {v:.4f}" for c, v in found[model][log.name].items()))
    chosen = {model: {log: _choice(values, log) for log in values} for model, values in found.items()}
    return {
        "metric": spec.metric,
        "logs": logs,
        "values": found,
        "left_out": chosen,
        "behind_best": _behind_best(found),
    }


def _folds(log: LogSpec, seeds: int) -> list[Split]:
    data = _log(log)
    n = 1 if log.held_out == "temporal" else min(seeds, log.seeds)
    return [split(data, log.held_out, test=0.2, valid=False, seed=seed) for seed in range(n)]


def _log(log: LogSpec) -> Interactions:
    if log.world is not None:
        data = make_world(**log.world.model_dump()).data
    else:
        assert log.data is not None, "checked by the spec"
        data = split(catalog.load(log.data), "auto").full_train
    if log.people is not None:
        everybody = np.unique(data.user_idx)
        some = named_rng(0, "people").choice(everybody, min(log.people, len(everybody)), replace=False)
        data = data.subset(np.isin(data.user_idx, some)).compact()
    if log.positives_each is not None:
        data = thinned(data, log.positives_each)
    return replace(data, name=f"{log.name} train")


def _described(positives: Csr) -> dict[str, int]:
    return {
        "people": int((positives.counts > 0).sum()),
        "items": int((positives.item_counts > 0).sum()),
        "positives": len(positives),
    }


def _said(change: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in change.items())


def _values(
    folds: list[Split], model: str, candidates: Mapping[str, Mapping[str, Any]], metric: str
) -> dict[str, float]:
    values: dict[str, list[float]] = {candidate: [] for candidate in candidates}
    for seed, fold in enumerate(folds):
        for candidate, change in candidates.items():
            settings = _absolute(model, change, fold.train.positives)
            fitted = make_model(model, **settings).fit(fold.train, seed=seed)
            values[candidate].append(evaluate(fitted, fold, metrics=(metric,), seed=seed).metrics[metric])
    return {candidate: float(np.mean(runs)) for candidate, runs in values.items()}


def _absolute(model: str, change: Mapping[str, Any], positives: Csr) -> dict[str, Any]:
    """With 'x0.5' replaced by half of the default on this log."""
    usual = make_model(model)
    defaults = usual.config.model_dump() | usual.resolved(positives)
    found = dict(change)
    for name, value in change.items():
        if isinstance(value, str) and value.startswith("x"):
            default = defaults.get(name)
            if not isinstance(default, int | float):
                raise ConfigError(f"{model} has no number {name} that {value!r} could be a multiple of")
            scaled = float(value[1:]) * default
            found[name] = max(1, round(scaled)) if isinstance(default, int) else scaled
    return found


def _choice(values: Values, left_out: str) -> dict[str, Any]:
    """What the other logs choose, and what that costs on this one."""
    others = [of_log for log, of_log in values.items() if log != left_out]
    own = values[left_out]
    best = max(own, key=lambda candidate: own[candidate])

    def on_the_others(candidate: str) -> float:
        return float(np.mean([of_log[candidate] / max(of_log.values()) for of_log in others]))

    chosen = max(own, key=on_the_others)
    return {
        "chosen": chosen,
        "best": best,
        "regret": 1 - own[chosen] / own[best],
        "regret_of_defaults": 1 - own[DEFAULTS] / own[best],
    }


def _behind_best(values: Mapping[str, Values]) -> dict[str, dict[str, float]]:
    """By model and log: how far the defaults are behind the best candidate of any model."""
    logs = next(iter(values.values())).keys()
    best = {log: max(max(of_model[log].values()) for of_model in values.values()) for log in logs}
    return {model: {log: 1 - of[log][DEFAULTS] / best[log] for log in logs} for model, of in values.items()}
