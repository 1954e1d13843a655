"""Models on random validation splits of a train part, as used to choose and check the defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from purerec.data.folds import thinned
from purerec.data.splits import Split, split
from purerec.evaluation.choosing import default_metrics
from purerec.experiments.cells.cell import Cell, CellStore
from purerec.experiments.cells.work import Watch, finish, unwatched
from purerec.experiments.plans import plan_of
from purerec.experiments.specs import ValidationSpec
from purerec.rng import named_rng


def on_validation_splits(
    spec: ValidationSpec, parts: Split, seeds: int, store: CellStore | None = None, watch: Watch = unwatched
) -> dict[str, Any]:
    """Every model on the same validation splits; the test part is never used."""
    plans = [plan_of(line, spec) for line in spec.models]
    log = replace(parts.full_train, name=f"{spec.data} train")
    if spec.positives_each is not None:
        log = thinned(log, spec.positives_each, named_rng(0, "thinned"))
    folds = [split(log, "ratio", test=0.2, valid=False, seed=seed) for seed in range(seeds)]
    metrics = tuple(spec.metrics or default_metrics(spec.data))
    cells = {
        plan.name: [Cell(plan, fold, seed, "exact", 1, metrics, spec.metric) for seed, fold in enumerate(folds)]
        for plan in plans
    }
    results = finish([runs[seed] for seed in range(seeds) for runs in cells.values()], store, watch)
    found = {name: [results[cell].evaluation.metrics for cell in runs] for name, runs in cells.items()}
    rows = {}
    for name, runs in found.items():
        # The gain on a split: the mean over metrics of the ratio to the baseline on the same split and seed.
        gains = [
            float(np.mean([run[metric] / other[metric] for metric in run])) - 1
            for run, other in zip(runs, found[spec.baseline], strict=True)
        ]
        rows[name] = {
            "metrics": {metric: float(np.mean([run[metric] for run in runs])) for metric in runs[0]},
            "gain": float(np.mean(gains)),
            "gain_error": float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else 0.0,
        }
    return {"metric": spec.metric, "baseline": spec.baseline, "rows": rows}
