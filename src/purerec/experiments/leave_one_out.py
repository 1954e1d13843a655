"""Do defaults hold on data that had no part in choosing them? Leave one data set out, choose on the others.

Each candidate (the defaults, and the defaults with one setting changed) is fitted on validation splits of every data
set. For each data set left out, the candidate is taken that is best on the others, by the mean of its value relative
to the best one there. Its regret is how far it is behind the best candidate of the data set that was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from purerec.data import catalog
from purerec.data.folds import thinned
from purerec.data.splits import split
from purerec.evaluation.protocols import evaluate
from purerec.experiments.specs import LeaveOneOutSpec, LogSpec
from purerec.models.registry import make_model

DEFAULTS = "defaults"


def leave_one_out(spec: LeaveOneOutSpec, seeds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Values of all candidates on all logs, and the regret on each log of what the others would choose."""
    found: dict[str, dict[str, dict[str, float]]] = {model: {} for model in spec.models}
    for log in spec.data:
        for model, changes in spec.models.items():
            candidates: dict[str, Mapping[str, Any]] = {DEFAULTS: {}} | {_said(change): change for change in changes}
            found[model][log.name] = _values(spec, log, model, candidates, seeds)
            tell(f"{log.name} {model}: " + ", ".join(f"{c} {v:.4f}" for c, v in found[model][log.name].items()))
    chosen = {model: {log: _choice(values, log) for log in values} for model, values in found.items()}
    return {"metric": spec.metric, "values": found, "left_out": chosen}


def _said(change: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in change.items())


def _values(
    spec: LeaveOneOutSpec, log: LogSpec, model: str, candidates: Mapping[str, Mapping[str, Any]], seeds: int
) -> dict[str, float]:
    data = catalog.load(log.data)
    train = replace(split(data, "auto").full_train, name=f"{log.name} train")
    if log.positives_each is not None:
        train = thinned(train, log.positives_each)
    values: dict[str, list[float]] = {candidate: [] for candidate in candidates}
    for seed in range(min(seeds, log.seeds)):
        fold = split(train, "ratio", test=0.2, valid=False, seed=seed)
        for candidate, settings in candidates.items():
            fitted = make_model(model, **settings).fit(fold.train, seed=seed)
            values[candidate].append(evaluate(fitted, fold, metrics=(spec.metric,), seed=seed).metrics[spec.metric])
    return {candidate: float(np.mean(runs)) for candidate, runs in values.items()}


def _choice(values: Mapping[str, Mapping[str, float]], left_out: str) -> dict[str, Any]:
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
