"""The experiment on biased exposure: what is chosen, on what basis, and that it can be resumed."""

import numpy as np
import pytest

import purerec as pr
from purerec.experiments.cells import work
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.exposure import on_biased_worlds
from purerec.experiments.specs import ExposureSpec

LINES = [
    {"name": "itempop"},
    {"name": "PN", "model": "gmf", "settings": {"dim": 4, "epochs": 4}},
]
SPEC = ExposureSpec.model_validate(
    {
        "kind": "exposure",
        "title": "small",
        "seeds": 2,
        "metric": "NDCG@10",
        "baseline": "PN",
        "exposures": [0.0, 2.0],
        "candidates": {"regularization": [0.01, 10.0]},
        "world": {"users": 150, "items": 60, "dim": 4, "prior": 0.2},
        "test_users": 100,
        "models": LINES,
    }
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return CellStore(tmp_path_factory.mktemp("cells"))


@pytest.fixture(scope="module")
def found(store):
    return on_biased_worlds(SPEC, 2, store)


def test_the_setting_is_chosen_by_what_was_observed_and_judged_by_the_truth(found):
    row = found["rows"][1]
    values = []
    for seed in range(2):
        world = pr.make_world(**SPEC.world.model_dump(), exposure=2.0, seed=seed)
        parts = pr.split(world.observed, "ratio", test=0.2, valid=False, seed=seed)
        models = [pr.GMF(dim=4, epochs=4, regularization=value) for value in (0.01, 10.0)]
        tried = [
            pr.evaluate(model.fit(parts.train, seed=seed), parts, seed=seed).metrics["NDCG@10"] for model in models
        ]
        best = models[int(np.argmax(tried))].config.regularization
        assert row["chosen"]["PN"][seed] == {"regularization": best}
        truth = world.true_split(users=100, seed=seed)
        model = pr.GMF(dim=4, epochs=4, regularization=best).fit(truth.train, seed=seed)
        values.append(pr.evaluate(model, truth, seed=seed).metrics["NDCG@10"])
    assert row["metrics"]["PN"]["NDCG@10"] == pytest.approx(np.mean(values), abs=1e-12)
    assert row["chosen"]["itempop"] == []


def test_finished_cells_are_not_run_again(found, store, monkeypatch):
    monkeypatch.setattr(work, "run", None)
    assert on_biased_worlds(SPEC, 2, store) == found
