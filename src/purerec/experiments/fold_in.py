"""The quality of folding in: people the model was not fitted on, compared with a model fitted on them.

    held out         for some people, 80 % of the positives are given and the rest is to be found
    trained          fitted on everybody else and on their given positives
    folded           fitted only on everybody else; each of these people is then folded in from the given positives

Both rank the same items for the same people: all but the given ones. People with fewer than five positives are not
held out. The negative rows of held-out people are in neither fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from purerec.data import catalog
from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.splits import Split
from purerec.evaluation.choosing import default_metrics
from purerec.evaluation.protocols import Evaluation
from purerec.evaluation.significance import compare, pooled
from purerec.experiments.cells.cell import Cell, CellStore
from purerec.experiments.cells.work import Watch, finish, unwatched
from purerec.experiments.plans import Plan
from purerec.experiments.specs import FoldingSpec
from purerec.models.contract.fitted_on import Stopwatch
from purerec.models.contract.recommender import Recommender
from purerec.ranking.scorers import Factors, Scorer
from purerec.rng import named_rng
from purerec.training.run import Run
from purerec.types import F32, I64

_LEAST = 5


def hold_out(
    data: Interactions, share: float, given: float, rng: np.random.Generator
) -> tuple[Interactions, Interactions, Split]:
    """Everybody else; everybody else plus the given positives of some people; and a split with their hidden ones."""
    counts = data.positives.counts
    able = np.flatnonzero(counts >= _LEAST)
    held = np.zeros(data.n_users, dtype=np.bool_)
    held[rng.choice(able, max(1, round(share * len(able))), replace=False)] = True
    own = held[data.user_idx]
    # The first of each person's positives, in random order, are given.
    liked = np.flatnonzero(own & data.is_positive)
    order = liked[np.lexsort((rng.random(len(liked)), data.user_idx[liked]))]
    users = data.user_idx[order]
    starts = np.flatnonzero(np.r_[True, users[1:] != users[:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    is_given = place < np.round(np.repeat(sizes, sizes) * given)
    others = np.flatnonzero(~own)
    both = data.subset(np.sort(np.concatenate([others, order[is_given]])), name=data.name)
    return data.subset(others), both, Split(both, None, data.subset(np.sort(order[~is_given])))


class Folded:
    """A fitted model that scores people who were not in training, from their given positives."""

    def __init__(self, model: Recommender, given: Csr, user_idx: I64) -> None:
        self.name, self._model, self._given = model.name, model, given
        first = model.fold_in(given.row(int(user_idx[0])))
        self._factors: Factors | None = None
        parts = model.factors()
        if first is not None and parts is not None:
            vectors = np.zeros((given.shape[0], len(first)), dtype=np.float32)
            for user in user_idx:
                vectors[user] = model.fold_in(given.row(int(user)))
            self._factors = Factors(vectors, parts.items, parts.item_bias)

    def factors(self) -> Factors | None:
        return self._factors

    def score(self, user_idx: I64, /) -> F32:
        return np.stack([self._model.score_history(self._given.row(int(user))) for user in user_idx])


@dataclass(frozen=True, eq=False)
class FoldingIn:
    """Fitted on others; the people of the test part are folded in from their train positives."""

    others: Interactions

    @property
    def facts(self) -> dict[str, Any]:
        return {"name": "folded", "fitted on": self.others.fingerprint}

    def scorer(self, model: Recommender, split: Split, seed: int, options: Run | None) -> tuple[Scorer, float]:
        watch = Stopwatch()
        model.fit(self.others, seed=seed, run=options)
        people = np.flatnonzero(split.test.positives.counts)
        return Folded(model, split.train.positives, people), watch.seconds


def folding_quality(
    spec: FoldingSpec, seeds: int, store: CellStore | None = None, watch: Watch = unwatched
) -> dict[str, Any]:
    """Every data set and model of the experiment, both ways."""
    cells: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for name in spec.data:
        data, metrics = catalog.load(name).deduplicate(), default_metrics(name)
        for seed in range(seeds):
            others, _, parts = hold_out(data, spec.held_out, spec.given, named_rng(seed, "split"))
            for model in spec.models:
                own = cells.setdefault((name, model), {"trained": [], "folded": []})
                for way, how in (("trained", None), ("folded", FoldingIn(others))):
                    plan = Plan(f"{model}, {way}", model)
                    own[way].append(Cell(plan, parts, seed, "exact", 1, metrics, spec.metric, how))
    found = finish([cell for ways in cells.values() for own in ways.values() for cell in own], store, watch)
    rows = []
    for (name, model), ways in cells.items():
        runs = {way: [found[cell].evaluation for cell in own] for way, own in ways.items()}
        rows.append({"data": name, "model": model, **_summary(runs, spec.metric)})
    return {"metric": spec.metric, "held_out": spec.held_out, "given": spec.given, "rows": rows}


def _summary(ways: Mapping[str, list[Evaluation]], metric: str) -> dict[str, Any]:
    each = {way: pooled(runs, metric) for way, runs in ways.items()}
    test = next(row for row in compare(each, "trained", metric) if row.model != "trained")
    return {
        "metrics": {
            way: {m: float(np.mean([run.metrics[m] for run in runs])) for m in runs[0].metrics}
            for way, runs in ways.items()
        },
        "people": len(each["trained"].user_idx),
        "difference": test.difference,
        "ci": [test.ci_low, test.ci_high],
        "verdict": test.verdict,
    }
