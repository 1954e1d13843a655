"""The vector of a new person under the softmax risk, against a general minimiser of that risk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from purerec.data.pairs import Csr
from purerec.engines.pure.spec import GameSettings
from purerec.models.families.foldin import folding_of
from purerec.ranking.scorers import Factors

HISTORY = np.array([1, 4, 7, 30, 31], dtype=np.int32)
SETTINGS = GameSettings(dim=4, risk="softmax", observed=0.05, temperature=0.7, regularization=0.1)


def problem(n_items, settings, *, item_bias=True, relation=None):
    rng = np.random.default_rng(0)
    params = {
        "user": rng.normal(0, 0.6, (50, 4)).astype(np.float32),
        "item": rng.normal(0, 0.6, (n_items, 4)).astype(np.float32),
        "bias": np.array([-3.0], np.float32),
    }
    if relation is not None:
        params["relation"] = relation
    bias = rng.normal(0, 1, n_items).astype(np.float32) if item_bias else None
    users = params["user"] if relation is None else params["user"] * relation
    seen = Csr.of(np.repeat(np.arange(50), 3), rng.integers(n_items, size=150), (50, n_items))
    folding = folding_of(Factors(users, params["item"], bias), params, settings, seen)
    draw = np.ones(n_items)
    if settings.unlabeled == "popularity":
        draw = np.bincount(seen.indices, minlength=n_items).astype(float)
    rest = np.ones(n_items, bool)
    rest[HISTORY] = False
    weight = np.where(rest, draw, 0)
    weight *= (1 - settings.observed) / weight.sum()
    weight[HISTORY] = settings.observed / len(HISTORY)

    def phi(e):
        x = params["item"].astype(float) @ (e if relation is None else e * relation)
        return (x + (0 if bias is None else bias)) / settings.temperature

    def value(e, heavier=0, by=0.0):
        """The docstring of `SoftmaxRisk`, with all positives of the person and all items."""
        x = phi(e)
        loss = -x[HISTORY].mean() - by / len(HISTORY) * x[HISTORY[heavier]] + np.log(weight @ np.exp(x))
        return loss + settings.regularization * e @ e

    return folding, value


CASES = {
    "as trained": ({}, {}),
    "without the stratum": ({"observed": 0.0}, {}),
    "hot": ({"temperature": 3.0}, {"item_bias": False}),
    "gmf": ({}, {"relation": np.array([0.5, 2, -1, 1], np.float32)}),
    "by popularity": ({"unlabeled": "popularity"}, {}),
}


@pytest.mark.parametrize("n_items", [60, 6000], ids=["all items", "sample, then all"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_minimum_of_the_softmax_risk(case, n_items):
    changes, options = CASES[case]
    if changes.get("unlabeled") == "popularity" and n_items > 60:
        pytest.skip("150 positives are too few for the popularity of so many items")
    folding, value = problem(n_items, replace(SETTINGS, **changes), **options)
    found = folding.solve(HISTORY)[:4].astype(float)
    best = minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(found, best.x, rtol=5e-3, atol=5e-3)
    assert value(found) <= best.fun + 1e-5


def test_parts_are_the_influence_of_the_items():
    """How the vector moves if an item gets more weight, by finite differences."""
    folding, value = problem(60, replace(SETTINGS, observed=0.0))
    parts = folding.parts(HISTORY, folding.vector(HISTORY))
    start, step = folding.solve(HISTORY)[:4].astype(float), 1e-2

    def end(at, by):
        # An item with more weight also counts more in the total: what is profiled out is the sum of weights.
        return minimize(lambda e: value(e, at, by), start, method="BFGS", options={"gtol": 1e-9}).x

    for at in (0, 3):
        moved = (end(at, step) - end(at, -step)) / (2 * step)
        assert np.corrcoef(parts[at], moved)[0, 1] > 0.9
