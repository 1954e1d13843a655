"""Experiments from their TOML files."""

import pytest

import purerec as pr
from purerec.data import catalog
from purerec.errors import ConfigError, FetchError, PurerecError
from purerec.experiments import reproduce
from purerec.experiments.cells import work
from purerec.experiments.plans import Plan, plan_of
from purerec.experiments.specs import Line, StatisticsSpec, ValidationSpec
from purerec.experiments.statistics import data_statistics
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
        seeds = 2
        metric = "P@5"
        baseline = "itempop"
        protocol = "exact"
        models = [{ name = "itempop" }, { name = "broken", model = "itempop" }]
        """
    )
    make = Plan.make
    monkeypatch.setattr(reproduce, "experiments_folder", lambda: tmp_path)
    monkeypatch.setattr(Plan, "make", lambda self: make(self) if self.name == "itempop" else Broken())
    with pytest.raises(PurerecError, match=r"one is not complete .broken: internal error.*same command continues"):
        list(reproduce.reproduce(["one"]))


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
    monkeypatch.setattr(reproduce, "experiments_folder", lambda: tmp_path)
    ((name, found),) = reproduce.reproduce(["small"], quick=True, tell=lambda _: None)
    assert name == "small"
    assert [row["exposure"] for row in found["rows"]] == [0.0, 1.0]
    assert all(0 <= row["metrics"]["pu"]["NDCG@10"] <= 1 for row in found["rows"])
    assert found["seeds"] == 1
    assert found["provenance"]["cores"] >= 1
    with pytest.raises(ConfigError, match="there is no experiment 'smal'; did you mean small"):
        list(reproduce.reproduce(["smal"]))


def test_priors_are_estimated_in_worlds_where_they_are_known(tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(
        """
        title = "small"
        kind = "prior"
        seeds = 1
        methods = ["best_bin", "elkan_noto"]
        [worlds.small]
        users = 80
        items = 60
        dim = 4
        prior = 0.1
        exposure = 0.0
        interactions = 200
        """
    )
    monkeypatch.setattr(reproduce, "experiments_folder", lambda: tmp_path)
    ((_, found),) = reproduce.reproduce(["small"], tell=lambda _: None)
    (row,) = found["rows"]
    assert row["prior"] == 0.1
    assert row["estimates"]["observed"] == pytest.approx(200 / 4800, rel=0.4)
    for name in ("best_bin", "elkan_noto", "best_bin of the true relevance"):
        assert row["estimates"]["observed"] <= row["estimates"][name] <= 1


def test_the_papers_rows():
    assert printed.paper_row("ml-100k", "pure")["P@5"] == 0.3901
    assert printed.paper_row("ml-1m", "pure")["MRR"] == 0.6895
    assert printed.paper_row("yelp", "graphgan") is None


TABLE = """
title = "table"
kind = "panels"
seeds = 2
metric = "MRR"
baseline = "pop"
[[panels]]
data = "world"
split = "ratio"
quick = { data = "ml-100k", split = "u1" }
[[panels]]
data = "world"
split = "ratio"
protocol = "sampled"
pool = 20
only = ["pop", "gmf"]
[[models]]
name = "pop"
model = "itempop"
note = "counts"
[[models]]
name = "gmf"
settings = { epochs = 1, dim = 2 }
vary = { regularization = [0.1, 0.2, 0.3, 0.4] }
[[models]]
name = "ease"
quick = false
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    (tmp_path / "table.toml").write_text(TABLE)
    (tmp_path / "again.toml").write_text(TABLE)
    monkeypatch.setattr(reproduce, "experiments_folder", lambda: tmp_path)


def test_a_table_of_several_panels(table, monkeypatch):
    fits = []
    real = work.run
    monkeypatch.setattr(work, "run", lambda split, model, **how: fits.append(model.name) or real(split, model, **how))
    found = dict(reproduce.reproduce(["table", "again"], tell=lambda _: None))
    # A deterministic model is fitted once for all seeds, others once per seed; panels and experiments share the fits.
    assert sorted(fits) == ["ease", *["gmf"] * 8, "itempop"]
    exact, sampled = reproduce.panels_in(found["table"])
    assert found["again"]["panels"] == found["table"]["panels"]
    rows = [f"gmf, regularization {value}" for value in (0.1, 0.2, 0.3, 0.4)]
    assert list(exact["models"]) == ["pop", *rows, "ease"]
    assert list(sampled["models"]) == ["pop", *rows]
    assert exact["varied"][rows[1]] == {"line": "gmf", "regularization": 0.2}
    assert exact["notes"] == {"pop": "counts"}
    assert (exact["protocol"], sampled["protocol"]) == ("exact", "sampled")
    assert [run["seed"] for run in exact["models"]["pop"]] == [0, 1]
    assert {run["protocol"] for run in sampled["models"]["pop"]} == {"sampled"}
    assert reproduce.panels_in(exact) == [exact]


def test_data_that_cannot_be_fetched_is_left_out(tmp_path, monkeypatch):
    both = TABLE.replace('data = "world"', 'data = "yelp"', 1)
    for name, text in (("both", both), ("yelp", TABLE.replace('"world"', '"yelp"')), ("world", TABLE)):
        (tmp_path / f"{name}.toml").write_text(text)
    for name, data in (("sizes", '["yelp"]'), ("some", '["yelp", "world"]')):
        (tmp_path / f"{name}.toml").write_text(f'kind = "statistics"\ntitle = "sizes"\ndata = {data}\n')
    real, tries, told = catalog.load, [], []

    def load(name, **how):
        if name != "yelp":
            return real(name, **how)
        tries.append(name)
        raise FetchError("'yelp' could not be found or fetched")

    monkeypatch.setattr(reproduce, "experiments_folder", lambda: tmp_path)
    monkeypatch.setattr(catalog, "load", load)
    reproduce._split.cache_clear()
    found = []
    run = reproduce.reproduce(["both", "yelp", "world", "sizes", "some"], tell=told.append)
    with pytest.raises(
        PurerecError, match=r"yelp: 'yelp' could not.*; sizes: 'yelp' could not.*continues from there"
    ):
        found.extend(run)
    (both, partial), (world, whole), (some, sizes) = found
    assert (both, world, some) == ("both", "world", "some")
    assert [row["data"] for row in sizes["rows"]] == ["world"]
    assert partial["without"] == sizes["without"] == ["yelp"]
    assert "without" not in whole
    assert reproduce.panels_in(partial)[0]["models"] == whole["panels"][1]["models"]
    assert len(tries) == 4  # once for each experiment, not for each panel
    reason = "without yelp, because 'yelp' could not be found or fetched"
    assert told == [f"table: {reason}", f"sizes: {reason}"]


def test_the_quick_form_of_a_table(table):
    spec = reproduce.chosen(["table"], quick=True)["table"]
    assert (spec.seeds, [panel.data for panel in spec.panels]) == (1, ["ml-100k"])
    assert [list(line.rows()) for line in spec.models] == [
        ["pop"],
        ["gmf, regularization 0.1", "gmf, regularization 0.3", "gmf, regularization 0.4"],
    ]


def test_all_are_the_experiments_of_the_report():
    found = set(reproduce.chosen(["all"]))
    assert {f"table{n}" for n in range(1, 6)} <= found
    assert {"figure-runtime", "figure-prior", "figure-noise", "figure-prior-gowalla", "leave-one-out"} <= found
    assert not found & {"gowalla-published", "small-logs", "softmax"}
    assert set(reproduce.chosen(["everything"])) == set(reproduce.names()) > found


def test_a_group_is_not_mixed_with_names():
    with pytest.raises(ConfigError, match="'all' stands for several experiments"):
        reproduce.chosen(["all", "table1"])


def test_every_table_of_the_paper_has_a_quick_form():
    found = reproduce.chosen(["all"], quick=True)
    assert {"table1", "table2", "table3", "table4", "table5"} <= set(found)
    assert "other-fakes" not in reproduce.chosen(["everything"], quick=True)  # slow
    assert "other-fakes" in reproduce.chosen(["other-fakes"], quick=True)
    with pytest.raises(ConfigError, match="defaults-yelp is about larger data than --quick runs on"):
        reproduce.chosen(["defaults-yelp"], quick=True)


def test_sizes_of_data(ml_100k):
    rows = data_statistics(StatisticsSpec(title="t", kind="statistics", data=["ml-100k"]))["rows"]
    assert rows[0]["users"] == rows[0]["paper"]["users"] == 943
    assert (rows[0]["items"], rows[0]["paper"]["items"], rows[0]["positives"]) == (1682, 1679, 55375)
