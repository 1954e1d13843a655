"""Experiment files are checked when they are read."""

import pytest

from purerec.errors import ConfigError
from purerec.experiments import reproduce
from purerec.experiments.plans import plans_of
from purerec.experiments.specs import (
    ComparisonSpec,
    OnOneSplit,
    PanelsSpec,
    PriorSpec,
    StatisticsSpec,
    read_experiment,
)
from purerec.models.registry import make_model
from purerec.paper.printed import experiments_folder

GOOD = """
title = "one"
data = "ml-100k"
split = "u1"
protocol = "exact"
seeds = 5
metric = "P@5"
baseline = "pure"
[[models]]
name = "pure"
[[models]]
name = "wide"
model = "pure"
settings = { dim = 32 }
"""
WORLD = """
title = "one"
kind = "exposure"
exposures = [0.0]
seeds = 5
metric = "P@5"
baseline = "gmf"
candidates = { regularization = [0.1] }
world = { users = 80, items = 60, dim = 4, prior = 0.1 }
test_users = 80
models = [{ name = "gmf" }]
"""


FEWER = {"figure-game": 1, "softmax-gowalla": 1}
"""A look at one fit; and a negative finding on one validation split, described as such in the docs"""


@pytest.mark.parametrize("name", reproduce.names())
def test_every_experiment_names_models_and_settings_that_exist(name):
    spec = read_experiment(experiments_folder() / f"{name}.toml")
    if isinstance(spec, StatisticsSpec | PriorSpec):
        return
    assert spec.seeds >= FEWER.get(name, 5)
    for line in spec.models:
        if isinstance(spec, OnOneSplit):
            assert plans_of(line, spec)
        elif isinstance(spec, PanelsSpec):
            assert all(plans_of(line, panel) for panel in spec.panels)
        elif isinstance(line, str):
            make_model(line)
        else:
            make_model(line.model_name, **line.settings)


def test_the_experiments_of_the_paper_are_there():
    assert {"table1", "table2", "table3", "table4", "exposure"} <= set(reproduce.names())


def test_what_is_read(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text(GOOD)
    spec = read_experiment(path)
    assert isinstance(spec, ComparisonSpec)
    assert [line.model_name for line in spec.models] == ["pure", "pure"]
    assert (spec.pool, spec.n, spec.tuned, spec.models[1].settings) == (500, None, False, {"dim": 32})


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (GOOD, "seeds", "sedes", "one.toml: unknown key 'sedes'; did you mean seeds?"),
        (GOOD, "settings", "setings", "unknown key 'models.1.setings'; did you mean settings?"),
        (GOOD, "split", "zzz", "unknown key 'zzz'; choose from data, split, n"),
        (WORLD, "users = 80,", "user = 80,", "unknown key 'world.user'; did you mean users?"),
        (GOOD, 'metric = "P@5"', "", "metric is missing"),
        (GOOD, "seeds = 5", "seeds = 0", "seeds=0 should be greater than or equal to 1"),
        (GOOD, "seeds = 5", 'seeds = "5"', "seeds='5' should be a valid integer"),
        (GOOD, "P@5", "Q@5", "unknown metric 'Q@5'"),
        (GOOD, '"exact"', '"exactly"', "protocol='exactly' should be 'exact', 'sampled' or 'as_published'"),
        (GOOD, 'baseline = "pure"', 'baseline = "wise"', "baseline 'wise' is none of the models; did you mean wide"),
        (GOOD, '"wide"', '"pure"', "two models are called 'pure'"),
        (WORLD, '"exposure"', '"exposures"', "no kind of experiment 'exposures'; did you mean exposure?"),
        (WORLD, "{ regularization = [0.1] }", "{}", "candidates={} "),
        (GOOD, "seeds = 5", "seeds = ", "one.toml is not TOML"),
        (GOOD, "seeds = 5", 'seeds = 5\nquick = { dada = "x" }', "dada"),
        (GOOD, "settings = { dim = 32 }", "vary = { dim = [1], epochs = [2] }", "vary="),
    ],
)
def test_a_mistake_is_an_error_that_names_file_and_key(tmp_path, text, old, new, message):
    assert old in text
    path = tmp_path / "one.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError) as error:
        read_experiment(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        read_experiment(tmp_path / "none.toml")
