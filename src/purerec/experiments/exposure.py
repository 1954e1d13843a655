"""Models on synthetic worlds of growing exposure bias, evaluated on relevant pairs that were never observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from purerec.data.interactions import Interactions
from purerec.data.splits import split
from purerec.data.synthetic.world import make_world
from purerec.evaluation.protocols import Evaluation, evaluate
from purerec.evaluation.significance import compare, pooled
from purerec.experiments.plans import Plan, progress_line
from purerec.experiments.specs import ExposureSpec
from purerec.models.registry import make_model


def on_biased_worlds(spec: ExposureSpec, seeds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Every model on every world. One setting is chosen for each on a validation part of what was observed."""
    plans = [Plan(line.name, line.model_name, line.settings) for line in spec.models]
    for plan in plans:
        plan.make()  # a wrong name or setting is an error before anything is fitted
    ((key, values),) = spec.candidates.items()
    rows = []
    for exposure in spec.exposures:
        results: dict[str, list[Evaluation]] = {plan.name: [] for plan in plans}
        chosen: dict[str, list[Any]] = {name: [] for name in results}
        for seed in range(seeds):
            world = make_world(**spec.world.model_dump(), exposure=exposure, seed=seed)
            truth = world.true_split(users=spec.test_users, seed=seed)
            for plan in plans:
                settings = dict(plan.settings)
                if plan.model != "itempop":
                    settings[key] = _best(plan, key, values, world.observed, seed, spec.metric)
                    chosen[plan.name].append({key: settings[key]})
                model = make_model(plan.model, **settings).fit(truth.train, seed=seed)
                results[plan.name].append(evaluate(model, truth, seed=seed))
            tell(f"exposure {exposure:g} seed {seed}: " + progress_line(results, spec.metric))
        rows.append({"exposure": exposure, **_summary(results, spec.baseline, spec.metric), "chosen": chosen})
    return {"metric": spec.metric, "baseline": spec.baseline, "rows": rows}


def _best(plan: Plan, key: str, values: list[Any], observed: Interactions, seed: int, metric: str) -> Any:
    """The value that does best on a validation part of what was observed."""
    parts = split(observed, "ratio", test=0.2, valid=False, seed=seed)
    models = [make_model(plan.model, **{**plan.settings, key: value}) for value in values]
    scores = [evaluate(model.fit(parts.train, seed=seed), parts).metrics[metric] for model in models]
    return values[int(np.argmax(scores))]


def _summary(results: Mapping[str, list[Evaluation]], baseline: str, metric: str) -> dict[str, Any]:
    # Worlds of different seeds have different people: each seed is paired by user, then all are pooled.
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
