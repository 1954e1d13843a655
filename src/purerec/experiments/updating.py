"""The quality of an update: the old model, the updated one and a full refit, evaluated on later data.

    log in time:   [ fitted on | new | test ]
    old            fitted on the first part; new people get popular items, and new items rank last
    updated        the same model, after `update` with the new part
    refitted       fitted from scratch on both

All three rank the same items for the same people: all items of the first two parts except the person's own.
People and items that first occur in the test part are left out, since none of the three can know them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from purerec.data import catalog
from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.errors import DataError
from purerec.evaluation.choosing import default_metrics
from purerec.experiments.cells.cell import Cell, CellStore
from purerec.experiments.cells.work import Watch, finish, unwatched
from purerec.experiments.plans import Plan
from purerec.experiments.results import RunResult
from purerec.experiments.run import Way
from purerec.experiments.specs import UpdatingSpec
from purerec.models.contract.fitted_on import Stopwatch
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.updating import append, unite
from purerec.models.registry import make_model
from purerec.ranking.scorers import Factors, Scorer
from purerec.training.run import Run
from purerec.types import F32, I64


@dataclass(frozen=True, eq=False)
class Times:
    """A log in three consecutive parts, each with the ids that occur in it."""

    first: Interactions
    new: Interactions
    test: Interactions


def cut(data: Interactions, shares: Sequence[float]) -> Times:
    """Cut a log by time: rows up to the first share, from there to the second, and from there to the third."""
    if data.timestamp is None:
        raise DataError(f"'{data.name}' has no timestamps, so nothing in it is new; choose data with a time column")
    ordered = np.sort(data.timestamp)
    ends = [-np.inf, *(ordered[min(len(data), round(share * len(data))) - 1] for share in shares)]
    first, new, test = (
        data.subset((data.timestamp > low) & (data.timestamp <= high)).compact()
        for low, high in itertools.pairwise(ends)
    )
    return Times(first, new, test)


class Outgrown:
    """A model that knows only some of the people and items, but scores all."""

    def __init__(self, model: Recommender, n_items: int) -> None:
        self.model, self.n_items, self.name = model, n_items, model.name

    def score(self, user_idx: Any, /) -> F32:
        """(len(user_idx), n_items): unknown people get popularity, and unknown items rank last."""
        users: I64 = np.asarray(user_idx)
        old_items = len(self.model.items)
        found = np.tile(self.model.popularity(), (len(users), 1))
        known = users < len(self.model.users)
        found[known] = self.model.score(users[known])
        scores = np.empty((len(users), self.n_items), dtype=np.float32)
        scores[:, :old_items] = found
        scores[:, old_items:] = found.min(axis=1, keepdims=True) - 1
        return scores

    def factors(self) -> Factors | None:
        return None


def later(times: Times, united: Interactions) -> Split:
    """A split into everything known, and the test pairs that can be found: new pairs of known people and items."""
    test = times.test
    n_users, n_items = united.shape
    _, user_at = append(united.users, test.users)
    _, item_at = append(united.items, test.items)
    user, item, liked = user_at[test.user_idx], item_at[test.item_idx], test.is_positive
    kept = liked & (user < n_users) & (item < n_items)
    pair = user[kept] * n_items + item[kept]
    known = united.positives.users.astype(np.int64) * n_items + united.positives.indices
    pair = np.setdiff1d(pair, known)
    found = replace(united, user_idx=(pair // n_items).astype(np.int32), item_idx=(pair % n_items).astype(np.int32))
    return Split(united, None, found)


@dataclass(frozen=True, eq=False)
class Old:
    """Fitted on the first part only."""

    first: Interactions

    @property
    def facts(self) -> dict[str, Any]:
        return {"name": "old", "fitted on": self.first.fingerprint}

    def scorer(self, model: Recommender, split: Split, seed: int, options: Run | None) -> tuple[Scorer, float]:
        watch = Stopwatch()
        model.fit(self.first, seed=seed, run=options)
        return Outgrown(model, split.train.n_items), watch.seconds


@dataclass(frozen=True, eq=False)
class Updated:
    """Fitted on the first part and updated with the new one; only the update is timed."""

    times: Times

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "name": "updated",
            "fitted on": self.times.first.fingerprint,
            "updated with": self.times.new.fingerprint,
        }

    def scorer(self, model: Recommender, split: Split, seed: int, options: Run | None) -> tuple[Scorer, float]:
        model.fit(self.times.first, seed=seed, run=options)
        watch = Stopwatch()
        model.update(self.times.new, seed=seed)
        return model, watch.seconds


def cells_of(times: Times, models: Sequence[Plan], seeds: int, metric: str) -> dict[str, dict[str, list[Cell]]]:
    """By model and way, one cell for each seed."""
    known = make_model("itempop").fit(times.first)  # any model would do: what it has seen, and its ids
    parts = later(times, unite(known, times.new).united)
    metrics = default_metrics(times.first.name)
    ways: dict[str, Way | None] = {"old": Old(times.first), "updated": Updated(times), "refitted": None}
    return {
        plan.name: {
            way: [
                Cell(replace(plan, name=f"{plan.name}, {way}"), parts, seed, "exact", 1, metrics, metric, how)
                for seed in range(seeds)
            ]
            for way, how in ways.items()
        }
        for plan in models
    }


def updating_quality(
    spec: UpdatingSpec, seeds: int, store: CellStore | None = None, watch: Watch = unwatched
) -> dict[str, Any]:
    """`purerec reproduce updating`."""
    rows = []
    for name in spec.data:
        times = cut(catalog.load(name), spec.shares)
        plans = [Plan(line.model_name, line.model_name, line.settings) for line in spec.models]
        cells = cells_of(times, plans, seeds, spec.metric)
        found = finish([cell for ways in cells.values() for own in ways.values() for cell in own], store, watch)
        for model, ways in cells.items():
            runs = {way: [found[cell] for cell in own] for way, own in ways.items()}
            rows.append(
                {"data": name, "model": model, **_sizes(times, runs["old"][0]), "ways": _summary(runs, times)}
            )
    return {"metric": spec.metric, "shares": spec.shares, "rows": rows}


def _sizes(times: Times, run: RunResult) -> dict[str, int]:
    users = run.evaluation.user_idx
    return {
        "first": len(times.first),
        "new": len(times.new),
        "test": len(times.test),
        "people": len(users),
        "new_people": int(np.count_nonzero(users >= times.first.n_users)),
    }


def _summary(runs: Mapping[str, Sequence[RunResult]], times: Times) -> dict[str, dict[str, Any]]:
    """Means over seeds: for all people, for known ones and for new ones."""
    ways = {}
    for way, own in runs.items():
        found = [run.evaluation for run in own]
        fresh = found[0].user_idx >= times.first.n_users
        groups = {"metrics": np.ones_like(fresh), "returning": ~fresh, "new": fresh}
        ways[way] = {
            group: {
                m: float(np.mean([e.per_user[m][who].mean() for e in found])) if who.any() else None
                for m in found[0].per_user
            }
            for group, who in groups.items()
        } | {
            "spread": {
                m: float(np.std([e.metrics[m] for e in found], ddof=1)) if len(found) > 1 else 0.0
                for m in found[0].per_user
            },
            "seconds": float(np.median([run.fit_seconds for run in own])),
        }
    return ways
