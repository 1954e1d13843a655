"""The prior of a log, in a world where it is known, and what is refused."""

import numpy as np
import pytest

import purerec as pr
from purerec.errors import ConfigError
from purerec.tuning.prior import prior_by


class Truth:
    def __init__(self, world):
        self.score = world.relevance


def test_by_the_true_relevance_it_is_found():
    """Almost certain tastes, and no bias: what the estimators assume."""
    world = pr.make_world(
        users=400, items=300, prior=0.1, exposure=0.0, activity=0.0, affinity=20.0, interactions=4800, seed=0
    )
    parts = pr.split(world.observed, "ratio", test=0.2, valid=False)
    found = prior_by(Truth(world), parts, np.random.default_rng(0))
    assert found.value == pytest.approx(0.1, rel=0.15)
    assert found.observed == pytest.approx(4800 / 120_000, rel=0.1)
    assert found.label_frequency == pytest.approx(found.observed / found.value)


@pytest.mark.parametrize("method", ["best_bin", "elkan_noto"])
def test_an_estimate_is_never_below_what_is_observed(method):
    world = pr.make_world(users=60, items=40, prior=0.2, seed=1)
    found = pr.estimate_prior(world.observed, method=method, model=pr.GMF(dim=4, epochs=5))
    assert found.observed <= found.value <= 1
    assert found.method == method


def test_what_cannot_be_is_refused():
    data = pr.make_world(users=60, items=40, prior=0.2).observed
    with pytest.raises(ConfigError, match="no method 'km2'; choose best_bin or elkan_noto"):
        pr.estimate_prior(data, method="km2")
    with pytest.raises(ConfigError, match="those of itempop are not; use GMF"):
        pr.estimate_prior(data, method="elkan_noto", model=pr.ItemPop())


def test_people_without_positives_do_not_count():
    """Of 30 people, ten have any."""
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(np.repeat(np.arange(10), 5), rng.integers(0, 20, 50))
    found = pr.estimate_prior(log, model=pr.ItemPop())
    assert found.observed == pytest.approx(len(log.positives) / 200, rel=0.3)
