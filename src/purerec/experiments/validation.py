"""Models on random validation splits of a train part: what default settings were chosen and checked by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from purerec.data.folds import thinned
from purerec.data.splits import Split, split
from purerec.evaluation.protocols import Evaluation, evaluate
from purerec.experiments.plans import plan_of
from purerec.experiments.specs import ValidationSpec


def on_validation_splits(
    spec: ValidationSpec, parts: Split, seeds: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Every model on the same validation splits; the test part is not looked at."""
    plans = [plan_of(line, spec) for line in spec.models]
    log = replace(parts.full_train, name=f"{spec.data} train")
    if spec.positives_each is not None:
        log = thinned(log, spec.positives_each)
    results: dict[str, list[Evaluation]] = {plan.name: [] for plan in plans}
    for seed in range(seeds):
        fold = split(log, "ratio", test=0.2, valid=False, seed=seed)
        for plan in plans:
            fitted = plan.make().fit(fold.train, seed=seed)
            results[plan.name].append(evaluate(fitted, fold, metrics=spec.metrics, seed=seed))
            tell(f"split {seed}, {plan.name}: {spec.metric} {results[plan.name][-1].metrics[spec.metric]:.4f}")
    base = results[spec.baseline]
    rows = {}
    for name, runs in results.items():
        # The gain of a split: the mean over metrics of the ratio to the baseline on the same split and seed.
        gains = [
            float(np.mean([run.metrics[m] / other.metrics[m] for m in run.metrics])) - 1
            for run, other in zip(runs, base, strict=True)
        ]
        rows[name] = {
            "metrics": {m: float(np.mean([run.metrics[m] for run in runs])) for m in runs[0].metrics},
            "gain": float(np.mean(gains)),
            "gain_error": float(np.std(gains, ddof=1) / np.sqrt(len(gains))) if len(gains) > 1 else 0.0,
        }
    return {"metric": spec.metric, "baseline": spec.baseline, "rows": rows}
