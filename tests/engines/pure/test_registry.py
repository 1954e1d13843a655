"""Engines by name: what `auto` means, and that the registry matches what the engines support."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from conftest import need
from engines.pure.sources import source_of
from purerec.engines.pure.registry import ENGINES, EngineChoice, EngineName, chosen_engine, new_engine
from purerec.engines.pure.spec import GameSettings, ScorerName
from purerec.errors import ConfigError

SOURCE = source_of(np.array([0, 1, 3]), np.array([0, 1, 2], np.int32), 4)


def test_the_types_list_what_the_registry_has() -> None:
    assert get_args(EngineName) == tuple(ENGINES)
    assert get_args(EngineChoice) == ("auto", *ENGINES)


@pytest.mark.parametrize("scorer", get_args(ScorerName))
def test_auto_is_the_first_that_has_the_scorer(scorer: ScorerName) -> None:
    assert chosen_engine("auto", scorer) == ("torch" if scorer == "mlp" else "cpu")
    assert chosen_engine("auto", scorer, scorer_module=object()) == "torch"
    assert chosen_engine("torch", scorer) == "torch"


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("scorer", get_args(ScorerName))
def test_an_engine_has_the_scorers_that_the_registry_says(name: EngineName, scorer: ScorerName) -> None:
    if name == "torch":
        need("torch")
    settings = GameSettings(dim=3, scorer=scorer)
    if scorer in ENGINES[name].scorers:
        assert type(new_engine(name, SOURCE, settings, seed=0)).__name__ == ENGINES[name].cls
    else:
        with pytest.raises(ConfigError, match=f"{name} engine has no scorer '{scorer}'; use engine='torch'"):
            new_engine(name, SOURCE, settings, seed=0)


def test_a_module_of_ones_own_is_refused_by_an_engine_that_takes_none() -> None:
    with pytest.raises(ConfigError, match="a scorer of your own needs engine='torch'"):
        new_engine("cpu", SOURCE, GameSettings(), seed=0, scorer_module=object())


@pytest.mark.parametrize("name", ENGINES)
def test_norms_are_those_of_the_parameters(name: EngineName) -> None:
    if name == "torch":
        need("torch")
    engine = new_engine(name, SOURCE, GameSettings(dim=3, unlabeled_per_epoch=5), seed=1)
    engine.train_discriminator(learning_rate=0.1)
    params = engine.parameters()
    expected = {f"{side}_norm": np.linalg.norm(params[side], axis=1).mean() for side in ("user", "item")}
    assert engine.norms() == pytest.approx(expected | {"bias": params["bias"][0]})
