"""Tests whether similar items are liked by the same people: shrinkages are chosen and judged by held-out people.

    train        a model is fitted on the other people
    valid        a fifth of the people chooses the best shrinkage
    test         another fifth judges raw cosines, the package's shrinkage and popularity

For every item that enough held-out people like, the ten most similar ones are judged by how many of these people like
both, relative to how many like either (the cosine of the two sets of people). This rewards neither popular items,
whose sets are large, nor obscure ones, which nobody likes together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from purerec.data import catalog
from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.experiments.specs import SimilarSpec
from purerec.models.contract import similar
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import make_model
from purerec.rng import named_rng
from purerec.types import F32, F64, I64


@dataclass(frozen=True, eq=False)
class Jury:
    """Held-out people."""

    together: F32
    """(n_items, n_items) the number who like both"""
    fans: F32
    """(n_items,)"""

    @classmethod
    def of(cls, positives: Csr, user_idx: I64) -> Jury:
        likes = positives.to_scipy()[user_idx]
        together = (likes.T @ likes).toarray()
        fans = together.diagonal().copy()
        np.fill_diagonal(together, 0)
        return cls(together, fans)

    def judge(self, item_idx: int, listed: I64) -> float:
        """The mean cosine between the people who like an item and those who like each item of a list."""
        sizes = np.maximum(self.fans[listed], 1) * max(self.fans[item_idx], 1)
        return float((self.together[item_idx, listed] / np.sqrt(sizes)).mean())


def similar_quality(spec: SimilarSpec, seeds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Every data set and model of the experiment."""
    rows = []
    for name in spec.data:
        data = catalog.load(name).deduplicate()
        found: dict[str, list[dict[str, Any]]] = {model: [] for model in spec.models}
        for seed in range(seeds):
            train, valid, test = held_out(data, spec.held_out, named_rng(seed, "split"))
            for model in spec.models:
                fitted = make_model(model).fit(train, seed=seed)
                found[model].append(_judged(fitted, valid, test, spec))
            tell(f"{name} seed {seed}: " + ", ".join(f"{m} {_line(runs[-1])}" for m, runs in found.items()))
        rows += [{"data": name, "model": model, "runs": runs} for model, runs in found.items()]
    return {"k": spec.k, "support": similar.SUPPORT, "shrinkages": spec.shrinkages, "rows": rows}


def held_out(data: Interactions, share: float, rng: np.random.Generator) -> tuple[Interactions, Jury, Jury]:
    """The log of most people, and two juries of the others."""
    order = rng.permutation(data.n_users)
    n = round(share * data.n_users)
    is_train = np.zeros(data.n_users, dtype=np.bool_)
    is_train[order[2 * n :]] = True
    valid, test = (Jury.of(data.positives, np.sort(part)) for part in (order[:n], order[n : 2 * n]))
    return data.subset(is_train[data.user_idx]), valid, test


def _judged(model: Recommender, valid: Jury, test: Jury, spec: SimilarSpec) -> dict[str, Any]:
    liked = model.popularity()
    choices = [(support, by) for support in ("fans", "both") for by in spec.shrinkages]
    asked = [np.flatnonzero((jury.fans >= spec.fans) & (liked > 0)) for jury in (valid, test)]
    scores: dict[Any, list[list[float]]] = {key: [[], []] for key in (*choices, "popular")}
    fewest: dict[Any, list[float]] = {key: [] for key in scores}
    for item in np.union1d(*asked).tolist():
        near, both = similar.cosine(model, item), similar.liked_both(model, item)
        lists: dict[Any, F32] = {"popular": liked}
        lists |= {key: similar.shrunk(near, liked if key[0] == "fans" else both, key[1]) for key in choices}
        for key, values in lists.items():
            listed = _best(values, item, spec.k)
            for part, jury in enumerate((valid, test)):
                if jury.fans[item] >= spec.fans:
                    scores[key][part].append(jury.judge(item, listed))
            fewest[key].append(float(liked[listed].min()))
    ways = {"raw": ("fans", 0.0), "shrunk": ("fans", similar.SUPPORT), "popular": "popular"}
    return {
        "items": [len(part) for part in asked],
        "valid": [
            {"support": support, "by": by, "score": float(np.mean(scores[support, by][0]))} for support, by in choices
        ],
        "test": {way: float(np.mean(scores[key][1])) for way, key in ways.items()},
        "fewest": {way: float(np.median(fewest[key])) for way, key in ways.items()},
    }


def _best(values: F32 | F64, item_idx: int, k: int) -> I64:
    ranked = values.astype(np.float64)
    ranked[item_idx] = -np.inf
    return np.argpartition(-ranked, k)[:k]


def _line(run: dict[str, Any]) -> str:
    return f"{run['test']['raw']:.4f} -> {run['test']['shrunk']:.4f}"
