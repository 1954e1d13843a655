import numpy as np
import pytest

import purerec as pr
from purerec import experiments, reproducing
from purerec.errors import ConfigError, DataError
from purerec.experiments import Plan, RunStore, compare_models
from purerec.tuned import tuned_settings


def parts():
    rng = np.random.default_rng(0)
    user = rng.integers(0, 50, 1200)
    return pr.split(pr.Interactions.from_columns(user, 2 * rng.integers(0, 25, 1200) + user % 2), "ratio")


PLANS = [Plan("itempop", "itempop"), Plan("small", "pugmf", {"dim": 2, "epochs": 5}), Plan("pugmf", "pugmf")]


def test_a_comparison_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    split, store = parts(), RunStore(tmp_path / "runs")
    whole = compare_models(split, PLANS, seeds=2, baseline="itempop", metric="NDCG@10")
    lines = []

    def stop(line):
        lines.append(line)
        if len(lines) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare_models(split, PLANS, seeds=2, baseline="itempop", metric="NDCG@10", store=store, tell=stop)
    runs = []
    real = experiments.run
    monkeypatch.setattr(experiments, "run", lambda *a, **k: runs.append(1) or real(*a, **k))
    again = compare_models(split, PLANS, seeds=2, baseline="itempop", metric="NDCG@10", store=store)
    assert len(runs) == 2  # of six
    for name in whole.results:
        assert again.mean(name, "NDCG@10") == whole.mean(name, "NDCG@10")
    assert [(t.model, t.p) for t in again.tests()] == [(t.model, t.p) for t in whole.tests()]
    assert len(again.costs_and_tests()[1]) == 3
    assert {again.scores()[row][column] for row, column in again.best_scores()} == {
        max(again.mean(name, metric) for name in again.results) for metric in again.metrics
    }
    assert again.recommendation().startswith("use ")


def test_wrong_plans_are_told_before_anything_is_fitted():
    split = parts()
    with pytest.raises(ConfigError, match="each once"):
        compare_models(split, [PLANS[0], PLANS[0]])
    with pytest.raises(ConfigError, match="no setting"):
        compare_models(split, [PLANS[0], Plan("x", "pugmf", {"dmi": 3})])
    with pytest.raises(ConfigError, match="not among"):
        compare_models(split, PLANS, baseline="ease!")


def test_a_model_that_has_seen_the_test_part_is_refused():
    split = parts()
    cheat = pr.make_model("itempop").fit(split.test)
    with pytest.raises(DataError, match="would be a lie"):
        experiments.run(split, cheat)
    other = pr.make_model("itempop").fit(pr.Interactions.from_columns([1], [2]))
    with pytest.raises(DataError, match="other"):
        experiments.run(split, other)


def test_early_stopping_refits_on_everything():
    split = parts()
    model = pr.PUGMF(epochs=40, validate_every=2, dim=4)
    experiments.fit_with_early_stopping(model, split.full_train, seed=0, options=pr.Run())
    assert model.fitted_on["positives"] == split.full_train.n_positives
    assert len(model.history.records) == model.fitted_on["epochs_found"]
    with pytest.raises(ConfigError, match="not fitted in epochs"):
        experiments.fit_with_early_stopping(pr.ItemPop(), split.full_train, seed=0, options=pr.Run())


def test_every_experiment_names_models_and_settings_that_exist():
    assert {"table2", "table3", "table4", "exposure"} <= set(reproducing.names())
    import tomllib

    for name in reproducing.names():
        spec = tomllib.loads((experiments.folder() / f"{name}.toml").read_text())
        for line in spec["models"]:
            reproducing._plan({"name": line} if isinstance(line, str) else line, spec).make()
        assert spec["seeds"] >= 5


def test_settings_of_an_experiment_go_to_the_models_that_have_them():
    spec = {"data": "ml-1m", "settings": {"dim": 7, "epochs": 3}, "tuned": True}
    plan = reproducing._plan
    assert plan({"name": "itempop", "tuned": False}, spec).settings == {}
    assert plan({"name": "bpr", "tuned": False}, spec).settings == {"dim": 7, "epochs": 3}
    assert plan({"name": "bpr", "tuned": False, "settings": {"dim": 2}}, spec).settings == {"dim": 2, "epochs": 3}
    found = tuned_settings("ml-1m", "bpr")
    assert plan({"name": "bpr"}, spec).settings == {"dim": 7, "epochs": 3} | found


def test_exposure_experiment_on_a_small_world(tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(
        """
        title = "small"
        kind = "exposure"
        exposures = [0.0, 1.0]
        seeds = 5
        metric = "NDCG@10"
        baseline = "pn"
        candidates = { regularization = [0.05, 0.2] }
        world = { users = 80, items = 60, dim = 4, prior = 0.1 }
        test_users = 80
        [[models]]
        name = "pn"
        model = "gmf"
        settings = { dim = 4, epochs = 5 }
        [[models]]
        name = "pu"
        model = "pugmf"
        settings = { dim = 4, epochs = 5 }
        """
    )
    monkeypatch.setattr(reproducing, "folder", lambda: tmp_path)
    found = reproducing.reproduce("small", quick=True, tell=lambda _: None)
    assert [row["exposure"] for row in found["rows"]] == [0.0, 1.0]
    assert all(0 <= row["metrics"]["pu"]["NDCG@10"] <= 1 for row in found["rows"])
    assert found["seeds"] == 2
    with pytest.raises(ConfigError, match="there is no experiment 'big'"):
        reproducing.reproduce("big")


def test_the_papers_rows():
    assert experiments.paper_row("ml-100k", "pure")["P@5"] == 0.3901
    assert experiments.paper_row("ml-1m", "pure")["MRR"] == 0.6895
    assert experiments.paper_row("yelp", "graphgan") is None
