"""How good an update is: the old model, the updated one and a full refit, evaluated on later data.

    log in time:   [ fitted on | new | test ]
    old            fitted on the first part; new people get popular items, and new items rank last
    updated        the same model, after `update` with the new part
    refitted       fitted from scratch on both

All three rank the same items for the same people: all items of the first two parts, except what a person had there.
People and items that first occur in the test part are left out, since none of the three can know them.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from purerec.data import catalog
from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.errors import DataError
from purerec.evaluation.protocols import Evaluation, evaluate
from purerec.experiments.specs import UpdatingSpec
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.updating import append, unite
from purerec.models.registry import make_model
from purerec.ranking.scorers import Factors
from purerec.types import F32, I64

WAYS = ("old", "updated", "refitted")


@dataclass(frozen=True, eq=False)
class Times:
    """A log in three consecutive parts, each with the ids that occur in it."""

    first: Interactions
    new: Interactions
    test: Interactions


def cut(data: Interactions, shares: Sequence[float]) -> Times:
    """Cut a log by time: rows up to the first share, from there to the second, and from there to the third."""
    if data.timestamp is None:
        raise DataError(f"'{data.name}' has no times, so that nothing is new in it; choose data with a time column")
    ordered = np.sort(data.timestamp)
    ends = [-np.inf, *(ordered[min(len(data), round(share * len(data))) - 1] for share in shares)]
    first, new, test = (
        data.subset((data.timestamp > low) & (data.timestamp <= high)).compact()
        for low, high in itertools.pairwise(ends)
    )
    return Times(first, new, test)


class Outgrown:
    """A model that knows only some of the people and items, as a scorer of all."""

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
    """Everything known, and the part of the test that can be found: new pairs of known people and items."""
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


def compare_ways(
    times: Times,
    name: str,
    settings: Mapping[str, Any],
    *,
    seed: int,
    update: Mapping[str, Any] | None = None,
    ways: Sequence[str] = WAYS,
) -> dict[str, tuple[Evaluation, float]]:
    """The evaluation of each way, and the seconds it took to train."""
    model = make_model(name, **settings)
    seconds = _timed(lambda: model.fit(times.first, seed=seed))
    united = unite(model, times.new).united
    parts = later(times, united)
    found = {}
    for way in ways:
        if way == "old":
            found[way] = evaluate(Outgrown(model, united.n_items), parts, seed=seed), seconds
            continue
        other = copy.copy(model) if way == "updated" else make_model(name, **settings)
        if way == "updated":
            spent = _timed(partial(other.update, times.new, seed=seed, **(update or {})))
        else:
            spent = _timed(partial(other.fit, united, seed=seed))
        found[way] = evaluate(other, parts, seed=seed), spent
    return found


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def updating_quality(spec: UpdatingSpec, seeds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """`purerec reproduce updating`."""
    metric, rows = spec.metric, []
    for name in spec.data:
        times = cut(catalog.load(name), spec.shares)
        compare_ways(times, "itempop", {}, seed=0)  # compiles the kernels before the clock starts
        for line in spec.models:
            model, settings = line.model_name, line.settings
            make_model(model, **settings | {"epochs": 1}).fit(times.new, seed=0)
            runs = [compare_ways(times, model, settings, seed=seed) for seed in range(seeds)]
            ways = _summary(runs, times)
            rows.append({"data": name, "model": model, **_sizes(times, runs[0]), "ways": ways})
            shown = ", ".join(f"{way} {row['metrics'][metric]:.4f}" for way, row in ways.items())
            tell(f"{name} {model}: {metric} {shown}")
    return {"metric": metric, "shares": spec.shares, "rows": rows}


def _sizes(times: Times, run: Mapping[str, tuple[Evaluation, float]]) -> dict[str, int]:
    users = run["old"][0].user_idx
    return {
        "first": len(times.first),
        "new": len(times.new),
        "test": len(times.test),
        "people": len(users),
        "new_people": int(np.count_nonzero(users >= times.first.n_users)),
    }


def _summary(runs: Sequence[Mapping[str, tuple[Evaluation, float]]], times: Times) -> dict[str, dict[str, Any]]:
    """Means over seeds: for all people, for known ones and for new ones."""
    ways = {}
    for way in runs[0]:
        found = [run[way][0] for run in runs]
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
            "seconds": float(np.median([run[way][1] for run in runs])),
        }
    return ways
