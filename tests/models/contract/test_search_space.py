"""Spaces that searches draw from."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import need
from purerec.models.contract.search_space import Choices
from purerec.models.registry import REGISTRY, make_model, model_class
from purerec.tuning.objective import Check, Task
from purerec.tuning.search import Budget, tune
from tuning.tastes import task

need("optuna")


@pytest.mark.parametrize("name", REGISTRY)
def test_a_space_is_about_settings_that_there_are_and_holds_the_defaults(name):
    config = model_class(name).config_class()
    positives = task().train.positives
    for setting, space in config.search_space.items():
        assert setting in type(config).model_fields
        default = getattr(config, setting)
        if default is None:
            default = space.start(positives) if callable(space.start) else space.start
            assert default is not None
        # A default resolved from the data may be outside on data this small; its substitute may not.
        near = space.nearest(default)
        if getattr(config, setting) is not None:
            assert near == default
        make_model(name, **{setting: near})
    assert bool(config.search_space) == (name != "itempop")


class Drawn:
    """A trial that suggests what hypothesis draws, the ends included."""

    def __init__(self, data):
        self.data = data

    def suggest_float(self, name, low, high, *, log):
        return self.data.draw(st.floats(low, high), label=name)

    def suggest_int(self, name, low, high, *, log):
        return self.data.draw(st.integers(low, high), label=name)

    def suggest_categorical(self, name, values):
        return self.data.draw(st.sampled_from(values), label=name)


@pytest.mark.parametrize("name", REGISTRY)
@settings(deadline=None)
@given(data=st.data())
def test_whatever_a_space_suggests_is_a_valid_config(name, data):
    space = model_class(name).config_class.search_space
    settings = {setting: one.suggest(setting, Drawn(data)) for setting, one in space.items()}
    config = make_model(name, **settings).config
    assert {setting: getattr(config, setting) for setting in settings} == settings
    assert all(float(f"{value:.3g}") == value for value in settings.values() if isinstance(value, float))


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "itempop"])
def test_optuna_can_propose_for_every_model(name, monkeypatch):
    """All models through the sampler, random and learned, without fitting any."""
    calls = []

    def measure(self, model, settings, report, deadline=math.inf):
        make_model(model, **settings)
        calls.append(settings)
        return float(len(calls) % 7)

    monkeypatch.setattr(Task, "measure", measure)
    monkeypatch.setattr(Task, "check", lambda *_: Check(2, 0.1, 0.2, 0.1, 0.05, 0.15, 0.001))
    found = tune(task(), name, budget=Budget(trials=14))
    assert len({json.dumps(settings) for settings in calls}) > 1
    assert found.trials == 14
    assert found.kept == "tuned"
    for setting, space in model_class(name).config_class.search_space.items():
        if isinstance(space, Choices):
            assert {s.get(setting) for s in calls[1:]} <= set(space.values)
