"""Estimates of the class prior on synthetic worlds, where it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from purerec.data.splits import split
from purerec.data.synthetic.world import World, make_world
from purerec.experiments.specs import PriorSpec
from purerec.models.gmf import GMF
from purerec.rng import named_rng
from purerec.tuning.prior import prior_by
from purerec.types import F32, I64


class _Truth:
    """The true relevance as scores: the best possible."""

    def __init__(self, world: World) -> None:
        self._world = world

    def score(self, user_idx: I64, /) -> F32:
        return self._world.relevance(user_idx)


def on_known_priors(spec: PriorSpec, seeds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """For each world, the true prior, the observed share and every estimate."""
    rows = []
    for name, settings in spec.worlds.items():
        runs = []
        for seed in range(seeds):
            world = make_world(**settings.model_dump(), seed=seed)
            parts = split(world.observed, "ratio", test=0.2, valid=False, seed=seed)
            fitted = GMF().fit(parts.train, seed=seed)
            by_gmf = {m: prior_by(fitted, parts, named_rng(seed, "prior"), method=m) for m in spec.methods}
            runs.append(
                {"observed": by_gmf[spec.methods[0]].observed}
                | {method: estimate.value for method, estimate in by_gmf.items()}
                | {"best_bin of the true relevance": prior_by(_Truth(world), parts, named_rng(seed, "prior")).value}
            )
        means = {what: float(np.mean([run[what] for run in runs])) for what in runs[0]}
        spread = {what: float(np.std([run[what] for run in runs], ddof=1)) if seeds > 1 else 0.0 for what in runs[0]}
        tell(f"{name}: true {settings.prior:g}, " + ", ".join(f"{what} {value:.4f}" for what, value in means.items()))
        rows.append({"world": name, "prior": settings.prior, "estimates": means, "spread": spread})
    return {"rows": rows}
