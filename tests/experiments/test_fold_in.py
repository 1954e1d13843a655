"""People who were not in training, compared with the same people in training."""

from __future__ import annotations

import numpy as np
import pytest

from purerec.evaluation.protocols import evaluate
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.cells.work import Progress
from purerec.experiments.fold_in import Folded, folding_quality, hold_out
from purerec.experiments.specs import FoldingSpec
from purerec.models.registry import make_model
from purerec.rng import named_rng


def test_both_ways_are_cells_and_neither_is_taken_for_the_other(ml_100k, tmp_path) -> None:
    spec = FoldingSpec(
        title="t",
        kind="folding",
        seeds=2,
        metric="NDCG@10",
        data=["ml-100k"],
        held_out=0.1,
        given=0.8,
        models=["itempop", "ease"],
    )
    store = CellStore(tmp_path)
    found = folding_quality(spec, 2, store)
    ease = next(row["metrics"] for row in found["rows"] if row["model"] == "ease")
    by_hand: dict[str, list[float]] = {"trained": [], "folded": []}
    for seed in range(2):
        others, both, parts = hold_out(ml_100k.deduplicate(), 0.1, 0.8, named_rng(seed, "split"))
        people = np.flatnonzero(parts.test.positives.counts)
        apart = Folded(make_model("ease").fit(others), both.positives, people)
        for way, scorer in (("trained", make_model("ease").fit(both)), ("folded", apart)):
            by_hand[way].append(evaluate(scorer, parts).metrics["NDCG@10"])
    for way, values in by_hand.items():
        assert ease[way]["NDCG@10"] == pytest.approx(np.mean(values), abs=1e-12)
    assert ease["trained"] != ease["folded"]
    seen: list[Progress] = []
    assert folding_quality(spec, 2, store, seen.append) == found
    assert seen[-1].reused == seen[-1].total == 8
