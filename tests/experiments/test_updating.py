"""The old model, an update and a refit, as cells."""

from __future__ import annotations

import numpy as np

from purerec.data import catalog
from purerec.data.interactions import Interactions
from purerec.experiments import updating
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.cells.work import Progress
from purerec.experiments.specs import UpdatingSpec
from purerec.experiments.updating import updating_quality


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    log = Interactions.from_columns(
        rng.integers(0, 60, 3_000), rng.integers(0, 40, 3_000), timestamp=np.arange(3_000)
    ).deduplicate()
    monkeypatch.setattr(catalog, "load", lambda name: log)
    spec = UpdatingSpec(
        title="t",
        kind="updating",
        seeds=2,
        metric="NDCG@10",
        data=["ml-100k"],
        shares=[0.8, 0.9, 1.0],
        models=[{"name": "bpr", "settings": {"epochs": 3}}],
    )
    store = CellStore(tmp_path)
    found = updating_quality(spec, 2, store)
    (row,) = found["rows"]
    assert list(row["ways"]) == ["old", "updated", "refitted"]
    assert len({way["metrics"]["NDCG@10"] for way in row["ways"].values()}) == 3
    seen: list[Progress] = []
    assert updating_quality(spec, 2, store, seen.append) == found
    assert seen[-1].reused == seen[-1].total == 6
    # An update with other data is another cell, though the split is the same.
    times = updating.cut(log, spec.shares)
    less = updating.Times(times.first, times.new.subset(np.arange(len(times.new) // 2)), times.test)
    assert updating.Updated(less).facts != updating.Updated(times).facts
