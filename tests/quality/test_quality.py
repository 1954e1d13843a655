"""Every model reaches its measured quality on real data: a change that loses quality fails here.

The bands are those of `measure.py`: the mean over seeds and four deviations to either side. Seed 0, which is used
here, is one of those measured; the margin is for another machine's arithmetic. A result above the band fails, too: a
real gain has to be measured again, and anything else that good is a leak.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from measure import CASES, FILE, METRIC, reached, validation_part

import purerec as pr
from purerec.models.registry import REGISTRY

pytestmark = pytest.mark.slow
MEASURED = json.loads(FILE.read_text())
LEAST = 0.0005
"""Deviation of a model that does not depend on the seed"""


@pytest.fixture(scope="module")
def parts(ml_100k: pr.Interactions) -> pr.Split:
    return validation_part(ml_100k)


@pytest.fixture(scope="module")
def quality(parts: pr.Split):
    found: dict[str, float] = {}

    def get(case: str) -> float:
        if case not in found:
            found[case] = reached(case, parts, 0)
        return found[case]

    return get


def assert_in_band(value: float, known: dict[str, float]) -> None:
    room = 4 * max(known["deviation"], LEAST)
    assert known["mean"] - room <= value <= known["mean"] + room


def test_the_file_is_about_all_models_and_enough_seeds() -> None:
    assert MEASURED["metric"] == METRIC
    assert set(MEASURED["models"]) == set(CASES) >= set(REGISTRY)
    for known in MEASURED["models"].values():
        assert len(known["seeds"]) >= 5
        assert known["mean"] == pytest.approx(np.mean(known["seeds"]), abs=2e-5)
        assert known["deviation"] == pytest.approx(np.std(known["seeds"], ddof=1), abs=2e-5)


@pytest.mark.parametrize("case", CASES)
def test_a_model_reaches_what_it_was_measured_to_reach(case: str, quality) -> None:
    assert_in_band(quality(case), MEASURED["models"][case])


def test_the_non_negative_clamp_is_idle_then_helps_then_hurts(parts: pr.Split) -> None:
    """What theory.md says about nnPU and the printed risk; at a prior of 0.01, not a bit changes."""
    printed = {"stratified": False, "unlabeled_ratio": 4, "epochs": 90}

    def found(prior: float, non_negative: bool) -> float:
        model = pr.PUGMF(prior=prior, non_negative=non_negative, **printed).fit(parts.train, seed=0)
        return pr.evaluate(model, parts, metrics=(METRIC,)).metrics[METRIC]

    assert found(0.01, True) == found(0.01, False)
    assert found(0.05, True) > found(0.05, False) + 0.004
    assert found(0.2, True) < found(0.2, False) - 0.02
