"""Models on validation splits."""

import pytest

import purerec as pr
from purerec.errors import PurerecError
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.specs import ValidationSpec
from purerec.experiments.validation import on_validation_splits


@pytest.fixture(scope="module")
def parts():
    return pr.split(pr.make_world(users=80, items=60, prior=0.2, interactions=900, seed=0).observed, "ratio", seed=0)


def spec_of(**changes):
    facts = {
        "kind": "validation",
        "title": "t",
        "seeds": 2,
        "metric": "NDCG@10",
        "metrics": ["P@5", "NDCG@10"],
        "baseline": "itempop",
        "models": [{"name": "itempop"}, {"name": "gmf", "settings": {"epochs": 2, "dim": 4}}],
        "data": "world",
        "split": "ratio",
    }
    return ValidationSpec.model_validate(facts | changes)


def test_means_and_gains_are_those_of_the_splits(parts):
    found = on_validation_splits(spec_of(), parts, 2)["rows"]
    log = parts.full_train
    values = {"itempop": [], "gmf": []}
    for seed in range(2):
        fold = pr.split(log, "ratio", test=0.2, valid=False, seed=seed)
        for model in (pr.ItemPop(), pr.GMF(epochs=2, dim=4)):
            run = pr.evaluate(model.fit(fold.train, seed=seed), fold, metrics=["P@5", "NDCG@10"], seed=seed)
            values[model.name].append(run.metrics)
    for name, runs in values.items():
        for metric in ("P@5", "NDCG@10"):
            assert found[name]["metrics"][metric] == pytest.approx(sum(run[metric] for run in runs) / 2)
    gains = [
        sum(own[m] / other[m] for m in own) / 2 - 1
        for own, other in zip(values["gmf"], values["itempop"], strict=True)
    ]
    assert found["gmf"]["gain"] == pytest.approx(sum(gains) / 2)
    assert found["itempop"]["gain"] == 0


def test_what_is_finished_is_not_fitted_again(parts, tmp_path, monkeypatch):
    store = CellStore(tmp_path)
    first = on_validation_splits(spec_of(), parts, 2, store)

    def no_fit(*_, **__):
        raise AssertionError("fitted again")

    monkeypatch.setattr(pr.GMF, "fit", no_fit)
    assert on_validation_splits(spec_of(), parts, 2, store) == first


def test_a_model_that_fails_is_named(parts, monkeypatch):
    def fail(*_, **__):
        raise PurerecError("no luck")

    monkeypatch.setattr(pr.GMF, "fit", fail)
    with pytest.raises(PurerecError, match="gmf on world train, seed 0: no luck"):
        on_validation_splits(spec_of(), parts, 1)
