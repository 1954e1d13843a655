"""Searching for settings: trials, pruning, budgets, and the check of the best."""

import math
import time
import tomllib

import numpy as np
import pytest

from conftest import ROOT, need
from purerec.errors import ConfigError, DivergedError
from purerec.evaluation.significance import paired_t_test
from purerec.models.registry import REGISTRY, make_model, model_class
from purerec.tuning import objective, search
from purerec.tuning.objective import Check, OutOfTime, Task
from purerec.tuning.search import Budget, tune
from tuning.tastes import settings_tried, task

need("optuna")


def test_the_first_trial_has_the_defaults_and_the_best_is_never_worse():
    found = tune(task(), "itemknn", budget=Budget(trials=8), fixed={"neighbors": "7"})
    alone = task()
    default = np.mean(
        [
            alone.evaluate(make_model("itemknn", neighbors=7).fit(fold.train, seed=n), fold).metrics["P@5"]
            for n, fold in enumerate(alone.folds[:2])
        ]
    )
    assert found.defaults == pytest.approx(default)
    assert found.best >= found.defaults
    assert found.trials == 8
    assert found.best_settings["neighbors"] == 7
    assert {t["settings"]["neighbors"] for t in found.top} == {7}
    assert found.settings["neighbors"] == 7


def test_defaults_win_if_nothing_is_better(monkeypatch):
    monkeypatch.setattr(Task, "measure", lambda *_: 0.5)
    found = tune(task(), "bpr", budget=Budget(trials=4))
    assert (found.kept, found.settings, found.check) == ("defaults", {}, None)
    assert "no trial was better" in found.why


def test_a_model_in_epochs_reports_at_fifths_and_ends_with_what_an_evaluation_says():
    reports = []
    one = task(n_folds=1)
    value = one.measure("svd", {"dim": 3, "epochs": 7}, lambda *report: reports.append(report))
    assert [step for _, step in reports] == [1, 2, 4, 5]
    assert reports[-1][0] == value
    fitted = make_model("svd", dim=3, epochs=7).fit(one.folds[0].train, seed=0)
    assert one.evaluate(fitted, one.folds[0]).metrics["P@5"] == pytest.approx(value)


def test_pruning_gives_up_on_what_goes_badly(monkeypatch):
    """Every fourth trial is hopeless from its first report, and would be noticed if it ran to its end."""
    ended, number = [], iter(range(100))

    def measure(self, model, settings, report, deadline=math.inf):
        n = next(number)
        value = 0.0 if n % 4 == 3 else 1.0 + n / 1000
        for step in range(1, self.last_step + 1):
            report(value, step)
        ended.append(n)
        return value

    monkeypatch.setattr(Task, "measure", measure)
    monkeypatch.setattr(Task, "check", lambda *_: Check(2, 0.2, 0.2, 0.0, -0.1, 0.1, 0.9))
    found = tune(task(), "bpr", budget=Budget(trials=20))
    hopeless = [n for n in range(20) if n % 4 == 3]
    assert not set(hopeless[1:]) & set(ended)  # the first comes before there is a median of five
    assert found.pruned >= 4
    assert found.trials == 20


def test_a_pruned_fit_stops_in_the_middle():
    epochs = []

    def stop(value, step):
        epochs.append(step)
        raise search.Pruned

    with pytest.raises(search.Pruned):
        task().measure("svd", {"epochs": 10}, stop)
    assert epochs == [1]


def test_training_that_runs_away_is_a_failed_trial_and_the_search_goes_on(monkeypatch):
    real = Task.measure

    def measure(self, model, settings, report, deadline=math.inf):
        if settings and settings["neighbors"] % 2:
            raise DivergedError("epoch 3: the loss is nan")
        return real(self, model, settings, report, deadline)

    monkeypatch.setattr(Task, "measure", measure)
    lines = []
    found = tune(task(), "itemknn", budget=Budget(trials=10), tell=lines.append)
    assert found.failed > 0
    assert found.trials == 10
    assert any("the loss is nan" in line for line in lines)

    def broken(*_):
        raise DivergedError("epoch 0: the loss is nan")

    monkeypatch.setattr(Task, "measure", broken)
    with pytest.raises(DivergedError):  # defaults that do not work are an error
        tune(task(), "itemknn", budget=Budget(trials=3))


def test_time_ends_a_search_in_the_middle_of_a_trial_but_not_before_the_defaults():
    with pytest.raises(OutOfTime):
        task().measure("svd", {"epochs": 50}, lambda *_: None, time.perf_counter() - 1)
    found = tune(task(), "svd", fixed={"epochs": 5, "dim": 2}, budget=Budget(limit_s=1e-7))
    assert found.trials == 1
    start = time.perf_counter()
    found = tune(task(), "svd", fixed={"epochs": 5, "dim": 2}, budget=Budget(limit_s=1.2))
    assert found.trials >= 1
    assert time.perf_counter() - start < 60


def test_a_model_without_settings_has_one_trial_and_says_so():
    lines = []
    found = tune(task(), "itempop", budget=Budget(trials=9), tell=lines.append)
    assert (found.trials, found.kept) == (1, "defaults")
    assert "no settings to search" in lines[0]


def test_settings_of_another_search_are_tried_second(tmp_path):
    tune(task(), "itemknn", budget=Budget(trials=2), also={"neighbors": 13, "shrinkage": 9e9}, study=tmp_path / "s")
    first, second = settings_tried(tmp_path / "s", "itemknn")
    assert first == {}
    assert (second["neighbors"], second["shrinkage"]) == (13, 1000)


def test_the_sampled_protocol_and_other_metrics():
    found = tune(task(metric="MRR", protocol="sampled", pool=10), "svd", fixed={"epochs": 5}, budget=Budget(trials=3))
    assert found.metric == "MRR"
    assert 0 < found.best <= 1
    with pytest.raises(ConfigError, match="unknown metric"):
        task(metric="P5")
    with pytest.raises(ConfigError, match="does not measure hits"):
        task(metric="Coverage@10")
    with pytest.raises(ConfigError, match="at least 1"):
        task(n_folds=0)
    with pytest.raises(ConfigError, match="more than 0"):
        Budget(limit_s=0)


def test_the_check_uses_folds_that_no_trial_has_seen(monkeypatch):
    fitted = {"search": [], "check": []}
    where = ["search"]
    one = task(n_folds=2, n_fresh=3)
    real = Task.evaluate

    def evaluate(self, model, fold):
        fitted[where[0]].append(self.folds.index(fold))
        return real(self, model, fold)

    monkeypatch.setattr(Task, "evaluate", evaluate)
    one.measure("itemknn", {}, lambda *_: None)
    where[0] = "check"
    found = one.check("itemknn", {}, {"neighbors": 2})
    assert set(fitted["search"]) == {0, 1}
    assert set(fitted["check"]) == {2, 3, 4}
    assert found.difference == pytest.approx(found.best - found.defaults)
    assert found.ci_low <= found.difference <= found.ci_high
    rows = [set(zip(f.test.user_idx.tolist(), f.test.item_idx.tolist(), strict=True)) for f in one.folds]
    assert not (rows[0] | rows[1]) & (rows[2] | rows[3] | rows[4])


@pytest.mark.parametrize(
    ("difference", "p", "kept"), [(0.01, 0.04, "tuned"), (0.01, 0.06, "defaults"), (-0.01, 0.001, "defaults")]
)
def test_the_best_is_kept_only_if_it_is_better_beyond_noise(monkeypatch, difference, p, kept):
    values = iter([0.1, 0.3, 0.2])
    monkeypatch.setattr(Task, "measure", lambda *_: next(values))
    monkeypatch.setattr(Task, "check", lambda *_: Check(2, 0.2, 0.2 + difference, difference, -0.1, 0.1, p))
    found = tune(task(), "ease", budget=Budget(trials=3))
    assert found.kept == kept
    assert (found.settings == {}) == (kept == "defaults")
    assert (found.best, found.defaults) == (0.3, 0.1)
    assert found.best_settings["regularization"] > 0
    entry = found.entry()
    assert entry["fresh"]["p"] == p
    assert ("best_settings" in entry and entry["best_settings"] is not None) == (kept == "defaults")


def test_how_many_false_betters_are_to_be_expected():
    """As docs/tuning.md says: half of the level, for each model with something to search."""
    rng = np.random.default_rng(0)
    passed = 0
    for _ in range(4000):
        difference = rng.normal(0, 0.1, 200)
        p = paired_t_test(difference, np.zeros(200))[1]
        passed += Check(3, 0.2, 0.2, float(difference.mean()), -1, 1, p).better
    assert passed / 4000 == pytest.approx(objective.SIGNIFICANT / 2, abs=0.0075)  # three standard errors
    searched = [name for name in REGISTRY if model_class(name).config_class.search_space]
    files = (ROOT / "experiments" / "tuned").glob("*.toml")
    tests = sum("fresh" in entry for f in files for entry in tomllib.loads(f.read_text())["models"].values())
    told = " ".join((ROOT / "docs" / "tuning.md").read_text().split())
    assert f"{len(searched)} x 0.025 = {len(searched) * 0.025:.2f} false" in told
    assert f"The {tests} tests in the tables below would have {tests * 0.025:.1f}." in told
