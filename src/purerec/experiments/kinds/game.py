"""A look inside the game: D over time, a map of real and generated embeddings, and scores of positives and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from purerec.data.splits import Split
from purerec.errors import ConfigError
from purerec.experiments.kinds.charts import recorded
from purerec.experiments.plans import Plan, plan_of
from purerec.experiments.specs import GameSpec
from purerec.models.pure import PURE
from purerec.paper.generators import generate
from purerec.rng import named_rng
from purerec.training.run import Run
from purerec.types import F64, I64

_BINS = 40


def inside_the_game(spec: GameSpec, parts: Split, tell: Callable[[str], None]) -> dict[str, Any]:
    """For each line, its charts. The models are fitted with one seed: this is a look, not a comparison."""
    charts = []
    for line in spec.models:
        plan = plan_of(line, spec)
        if plan.model != "pure":
            raise ConfigError(f"{plan.name} is not a pure model; only pure has a game to look into")
        after = _fitted(plan, parts)
        before = _fitted(plan, parts, Run(stop_after=max(1, after.config.pretrain_epochs)))
        tell(f"{plan.name}: fitted")
        charts.append(_over_time(plan.name, after))
        charts += [
            _map(f"Map, {plan.name}, {side}s, {when} the game", model, parts, side, spec.points, named_rng(0, "map"))
            for side in _sides(after)
            for when, model in (("before", before), ("after", after))
        ]
        charts.append(_scores(plan.name, after, parts, spec.pairs, named_rng(0, "scores")))
    return {"charts": charts}


def _fitted(plan: Plan, parts: Split, run: Run | None = None) -> PURE:
    model = plan.make()
    assert isinstance(model, PURE)
    return model.fit(parts.full_train, seed=0, run=run)


def _sides(model: PURE) -> tuple[Literal["user", "item"], ...]:
    sides: tuple[Literal["user"], Literal["item"]] = ("user", "item")
    return tuple(side for side in sides if model.config.generators in ("both", side))


def _over_time(name: str, model: PURE) -> dict[str, Any]:
    assert model.history is not None, "a fit has a history"
    curves = {what: model.history.curve(f"D({what})") for what in ("positive", "unlabeled", "fake")}
    return recorded(f"D of {name}", "epoch", "D", curves, log=("y",))


def _map(
    title: str, model: PURE, parts: Split, side: Literal["user", "item"], points: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Real and generated embeddings on the first two principal components of the real ones."""
    params, config, positives = model._params, model.config, parts.full_train.positives
    counts: I64 = (
        positives.counts if side == "user" else np.bincount(positives.indices, minlength=len(params["item"]))
    )
    known = np.flatnonzero(counts > 0)
    real = params[side][known].astype(np.float64)
    other = params["item" if side == "user" else "user"]
    condition = other[rng.integers(0, len(other), points)] if config.conditional else None
    noise = rng.standard_normal((points, real.shape[1]), dtype=np.float32) * np.float32(config.noise)
    fakes = generate(
        params, side, noise, condition, output=config.output, constraint=config.constraint, weight=counts
    )
    mean = real.mean(axis=0)
    axes = np.linalg.svd(real - mean, full_matrices=False)[2][:2]
    shown = real[rng.permutation(len(real))[:points]]
    drawn = {"real": _pairs((shown - mean) @ axes.T), "generated": _pairs((fakes - mean) @ axes.T)}
    return recorded(title, "first component", "second component", drawn, shape="points")


def _pairs(places: F64) -> list[list[float]]:
    if places.shape[1] == 1:  # only one dimension
        places = np.column_stack([places, np.zeros(len(places))])
    found: list[list[float]] = places.tolist()
    return found


def _scores(name: str, model: PURE, parts: Split, pairs: int, rng: np.random.Generator) -> dict[str, Any]:
    """Histograms of the scores of held-out positives and of pairs without an interaction."""
    held_out = parts.test.positives
    users, items = np.asarray(held_out.users), np.asarray(held_out.indices)
    chosen = np.sort(rng.permutation(len(items))[:pairs])
    users, items = users[chosen], items[chosen]
    others = rng.integers(0, parts.train.n_items, len(items))
    seen = [parts.full_train.positives.row(int(u)) for u in users]
    free = np.array([i not in row for i, row in zip(others, seen, strict=True)])
    scores: dict[int, Any] = {int(u): model.score(np.array([u]))[0] for u in np.unique(users)}
    found = {
        "held-out positives": np.array([scores[int(u)][i] for u, i in zip(users, items, strict=True)]),
        "unlabeled": np.array([scores[int(u)][i] for u, i in zip(users[free], others[free], strict=True)]),
    }
    edges = np.histogram_bin_edges(np.concatenate(list(found.values())), _BINS)
    drawn = {
        what: [*zip(edges[:-1], np.histogram(values, edges)[0] / len(values), strict=True), (edges[-1], 0.0)]
        for what, values in found.items()
    }
    return recorded(f"Scores of {name}", "score", "share of pairs", drawn, shape="steps")
