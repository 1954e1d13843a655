"""Models on synthetic worlds of increasing exposure bias, evaluated on relevant pairs that were never observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from purerec.data.splits import split
from purerec.data.synthetic.world import make_world
from purerec.evaluation.choosing import default_metrics
from purerec.evaluation.protocols import Evaluation
from purerec.evaluation.significance import compare, pooled
from purerec.experiments.cells.cell import Cell, CellStore
from purerec.experiments.cells.work import Watch, finish, unwatched
from purerec.experiments.plans import Plan
from purerec.experiments.specs import ExposureSpec


def on_biased_worlds(
    spec: ExposureSpec, seeds: int, store: CellStore | None = None, watch: Watch = unwatched
) -> dict[str, Any]:
    """Every model on every world, with one setting chosen for each on a validation part of the observed pairs."""
    plans = [Plan(line.name, line.model_name, line.settings) for line in spec.models]
    for plan in plans:
        plan.make()  # reports a wrong name or setting before anything is fitted
    ((key, values),) = spec.candidates.items()
    metrics = tuple(default_metrics("world"))
    tried: dict[tuple[float, str, int], list[Cell]] = {}
    truths = {}
    for exposure in spec.exposures:
        for seed in range(seeds):
            world = make_world(**spec.world.model_dump(), exposure=exposure, seed=seed)
            truths[exposure, seed] = world.true_split(users=spec.test_users, seed=seed)
            parts = split(world.observed, "ratio", test=0.2, valid=False, seed=seed)
            for plan in plans:
                candidates = [_with(plan, key, value) for value in values] if plan.model != "itempop" else []
                tried[exposure, plan.name, seed] = [
                    Cell(candidate, parts, seed, "exact", 1, metrics, spec.metric) for candidate in candidates
                ]
    scores = finish([cell for cells in tried.values() for cell in cells], store, watch)

    def best(exposure: float, plan: Plan, seed: int) -> Any:
        found = [scores[cell].evaluation.metrics[spec.metric] for cell in tried[exposure, plan.name, seed]]
        return values[int(np.argmax(found))] if found else None

    rows = []
    for exposure in spec.exposures:
        chosen = {plan.name: [best(exposure, plan, seed) for seed in range(seeds)] for plan in plans}
        cells = {
            plan.name: [
                Cell(_with(plan, key, value), truths[exposure, seed], seed, "exact", 1, metrics, spec.metric)
                for seed, value in enumerate(chosen[plan.name])
            ]
            for plan in plans
        }
        found = finish([cell for own in cells.values() for cell in own], store, watch)
        results = {name: [found[cell].evaluation for cell in own] for name, own in cells.items()}
        told = {name: [{key: value} for value in own if value is not None] for name, own in chosen.items()}
        rows.append({"exposure": exposure, **_summary(results, spec.baseline, spec.metric), "chosen": told})
    return {"metric": spec.metric, "baseline": spec.baseline, "rows": rows}


def _with(plan: Plan, key: str, value: Any) -> Plan:
    if value is None:  # nothing to choose
        return plan
    return replace(plan, name=f"{plan.name}, {key} {value:g}", settings={**plan.settings, key: value})


def _summary(results: Mapping[str, list[Evaluation]], baseline: str, metric: str) -> dict[str, Any]:
    # Worlds of different seeds have different people: pair each seed by user, then pool all.
    each = {name: pooled(runs, metric) for name, runs in results.items()}
    return {
        "metrics": {
            name: {m: float(np.mean([r.metrics[m] for r in runs])) for m in runs[0].metrics}
            for name, runs in results.items()
        },
        "spread": {
            name: float(np.std([r.metrics[metric] for r in runs], ddof=1)) if len(runs) > 1 else 0.0
            for name, runs in results.items()
        },
        "tests": [asdict(row) for row in compare(each, baseline, metric) if row.model != baseline],
    }
