"""Do defaults hold on data that was not used to choose them? Leave one log out, choose on the others.

Each candidate (the defaults, and the defaults with some settings changed) is fitted on validation splits of every
log. For each log left out, the candidate that is best on the others is chosen, by its mean value relative to the
best one on each. Its regret is how far it falls behind the best candidate on the log left out. Also reported: how far
a model's defaults fall behind the best model on the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from purerec.data import catalog
from purerec.data.folds import thinned
from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.splits import Split, split
from purerec.data.synthetic.world import make_world
from purerec.errors import ConfigError
from purerec.experiments.cells.cell import Cell, CellStore
from purerec.experiments.cells.work import Watch, Worklist, unwatched
from purerec.experiments.plans import Plan
from purerec.experiments.specs import LeaveOneOutSpec, LogSpec
from purerec.models.registry import make_model
from purerec.rng import named_rng

DEFAULTS = "defaults"
Values = Mapping[str, Mapping[str, float]]
"""The values of one model, by log and candidate"""


def leave_one_out(
    spec: LeaveOneOutSpec, seeds: int, store: CellStore | None = None, watch: Watch = unwatched
) -> dict[str, Any]:
    """Values of all candidates on all logs, and on each log the regret of the candidate chosen on the others."""
    folds = {log.name: _folds(log, seeds) for log in spec.data}
    cells = {
        (model, log, candidate): [
            _cell(spec, fold, seed, model, candidate, change) for seed, fold in enumerate(parts)
        ]
        for log, parts in folds.items()
        for model, changes in spec.models.items()
        for candidate, change in _candidates(changes).items()
    }
    work = Worklist([cell for runs in cells.values() for cell in runs], store, watch=watch)
    work.run()
    found: dict[str, dict[str, dict[str, float]]] = {model: {log: {} for log in folds} for model in spec.models}
    for (model, log, candidate), runs in cells.items():
        if wrong := [work.failed[cell] for cell in runs if cell in work.failed]:
            raise ConfigError(f"{model} with {candidate} failed on {log}: {wrong[0]}")
        values = [work.results[cell].evaluation.metrics[spec.metric] for cell in runs]
        found[model][log][candidate] = float(np.mean(values))
    return {
        "metric": spec.metric,
        "logs": {log: _described(parts[0].train.positives) for log, parts in folds.items()},
        "values": found,
        "left_out": {model: {log: _choice(values, log) for log in values} for model, values in found.items()},
        "behind_best": _behind_best(found),
    }


def _cell(
    spec: LeaveOneOutSpec, fold: Split, seed: int, model: str, candidate: str, change: Mapping[str, Any]
) -> Cell:
    settings = _absolute(model, change, fold.train.positives)
    plan = Plan(model if candidate == DEFAULTS else f"{model}, {candidate}", model, settings)
    return Cell(plan, fold, seed, "exact", 1, (spec.metric,), spec.metric)


def _folds(log: LogSpec, seeds: int) -> list[Split]:
    data = _log(log)
    n = 1 if log.held_out == "temporal" else min(seeds, log.seeds)
    return [split(data, log.held_out, test=0.2, valid=False, seed=seed) for seed in range(n)]


def _log(log: LogSpec) -> Interactions:
    if log.world is not None:
        data = make_world(**log.world.model_dump()).observed
    else:
        assert log.data is not None, "checked by the spec"
        data = split(catalog.load(log.data), "auto").full_train
    if log.people is not None:
        everybody = np.unique(data.user_idx)
        some = named_rng(0, "people").choice(everybody, min(log.people, len(everybody)), replace=False)
        data = data.subset(np.isin(data.user_idx, some)).compact()
    if log.positives_each is not None:
        data = thinned(data, log.positives_each, named_rng(0, "thinned"))
    if log.newcomers:
        rng = named_rng(0, "newcomers")
        data = thinned(data, np.where(rng.random(data.n_users) < log.newcomers, 1, len(data)), rng)
    return replace(data, name=f"{log.name} train")


def _described(positives: Csr) -> dict[str, int]:
    return {
        "people": int((positives.counts > 0).sum()),
        "items": int((positives.item_counts > 0).sum()),
        "positives": len(positives),
    }


def _candidates(changes: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {DEFAULTS: {}} | {_said(change): change for change in changes}


def _said(change: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in change.items())


def _absolute(model: str, change: Mapping[str, Any], positives: Csr) -> dict[str, Any]:
    """The change with 'x0.5' replaced by half of the default on this log."""
    plain = make_model(model)
    defaults = plain.config.model_dump() | plain.resolved(positives)
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
    """The candidate chosen on the other logs, and its cost on this one."""
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
