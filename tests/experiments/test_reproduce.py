"""Experiments from their TOML files."""

import pytest

import purerec as pr
from purerec.errors import ConfigError, PurerecError
from purerec.experiments import reproduce
from purerec.experiments.plans import Plan, plan_of
from purerec.experiments.specs import Line, ValidationSpec
from purerec.paper import printed
from purerec.tuning.settings_file import tuned_settings


class Broken(pr.ItemPop):
    def _fit(self, *args):
        raise RuntimeError("a bug")


def test_an_experiment_with_a_failed_model_is_not_written(tmp_path, monkeypatch):
    (tmp_path / "one.toml").write_text(
        """
        title = "one"
        data = "world"
        split = "ratio"
        seeds = 5
        metric = "P@5"
        baseline = "itempop"
        protocol = "exact"
        models = [{ name = "itempop" }, { name = "broken", model = "itempop" }]
        """
    )
    make = Plan.make
    monkeypatch.setattr(reproduce, "folder", lambda: tmp_path)
    monkeypatch.setattr(Plan, "make", lambda self: make(self) if self.name == "itempop" else Broken())
    with pytest.raises(PurerecError, match=r"one is not complete .broken: internal error.*--resume"):
        reproduce.reproduce("one", quick=True, tell=lambda _: None)


def test_settings_of_an_experiment_go_to_the_models_that_have_them():
    spec = ValidationSpec.model_validate(
        {
            "kind": "validation",
            "title": "t",
            "seeds": 1,
            "metric": "P@5",
            "baseline": "bpr",
            "models": [{"name": "bpr"}],
            "data": "ml-1m",
            "split": "ratio",
            "settings": {"dim": 7, "epochs": 3},
            "tuned": True,
        }
    )

    def settings(name, **line):
        return plan_of(Line(name=name, **line), spec).settings

    assert settings("itempop", tuned=False) == {}
    assert settings("bpr", tuned=False) == {"dim": 7, "epochs": 3}
    assert settings("bpr", tuned=False, settings={"dim": 2}) == {"dim": 2, "epochs": 3}
    assert settings("bpr") == {"dim": 7, "epochs": 3} | tuned_settings("ml-1m", "bpr")


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
    monkeypatch.setattr(reproduce, "folder", lambda: tmp_path)
    found = reproduce.reproduce("small", quick=True, tell=lambda _: None)
    assert [row["exposure"] for row in found["rows"]] == [0.0, 1.0]
    assert all(0 <= row["metrics"]["pu"]["NDCG@10"] <= 1 for row in found["rows"])
    assert found["seeds"] == 2
    with pytest.raises(ConfigError, match="there is no experiment 'big'"):
        reproduce.reproduce("big")


def test_the_papers_rows():
    assert printed.paper_row("ml-100k", "pure")["P@5"] == 0.3901
    assert printed.paper_row("ml-1m", "pure")["MRR"] == 0.6895
    assert printed.paper_row("yelp", "graphgan") is None
