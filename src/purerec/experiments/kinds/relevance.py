"""True and estimated relevance in a synthetic world, where the truth is known.

Unobserved pairs are grouped by their true relevance; a good estimate has the same mean as the truth in each group.
Scores are logits up to a constant, so each model's scores are shifted to have the true mean over these pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from purerec.data.synthetic.world import make_world
from purerec.experiments.kinds.charts import recorded
from purerec.experiments.specs import RelevanceSpec
from purerec.models.registry import make_model
from purerec.rng import named_rng
from purerec.types import F64

_EXACT = "exact"


def true_and_estimated(spec: RelevanceSpec, seeds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """A chart for each exposure bias, with means and deviations over seeds, and the error of the estimates."""
    charts, rows = [], []
    for exposure in spec.exposures:
        found: dict[str, list[F64]] = {line.name: [] for line in spec.models}
        errors: dict[str, list[float]] = {line.name: [] for line in spec.models}
        truths = []
        for seed in range(seeds):
            world = make_world(**spec.world.model_dump(), exposure=exposure, seed=seed)
            users = named_rng(seed, "relevance").permutation(world.n_users)[: spec.test_users]
            unseen = np.ones((len(users), world.n_items), dtype=np.bool_)
            for row, user in enumerate(users):
                unseen[row, world.observed.pairs.row(int(user))] = False
            truth = world.relevance(users)[unseen].astype(np.float64)
            order = np.array_split(np.argsort(truth, kind="stable"), spec.groups)
            truths.append([truth[group].mean() for group in order])
            for line in spec.models:
                model = make_model(line.model_name, **line.settings).fit(world.observed, seed=seed)
                estimate = _calibrated(model.score(users)[unseen].astype(np.float64), float(truth.mean()))
                found[line.name].append(np.array([estimate[group].mean() for group in order]))
                errors[line.name].append(float(np.abs(estimate - truth).mean()))
            tell(f"exposure {exposure:g} seed {seed}: mean distance from the truth " + _said(errors))
        x = np.mean(truths, axis=0)
        drawn = {name: _points(x, np.array(values)) for name, values in found.items()}
        drawn[_EXACT] = [(float(value), float(value)) for value in (x[0], x[-1])]
        title = f"Exposure bias {exposure:g}"
        charts.append(
            recorded(title, "true relevance", "estimated relevance", drawn, log=("x", "y"), dashed=(_EXACT,))
        )
        rows.append({"bias": exposure, "distance": {name: float(np.mean(each)) for name, each in errors.items()}})
    return {"metric": spec.metric, "charts": charts, "rows": rows}


def _calibrated(score: F64, mean: float) -> F64:
    """The scores as probabilities, shifted to have this mean."""
    low, high = -float(score.max()) - 40, -float(score.min()) + 40
    shift = brentq(lambda c: float(expit(score + c).mean()) - mean, low, high)
    return np.asarray(expit(score + shift))


def _points(x: F64, values: F64) -> list[tuple[float, ...]]:
    means, spread = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else None
    if spread is None:
        return list(zip(x.tolist(), means.tolist(), strict=True))
    low = np.maximum(means - spread, means / 10)  # a logarithmic axis cannot show values below zero
    return list(zip(x.tolist(), means.tolist(), low.tolist(), (means + spread).tolist(), strict=True))


def _said(errors: dict[str, list[float]]) -> str:
    return ", ".join(f"{name} {each[-1]:.4f}" for name, each in errors.items())
