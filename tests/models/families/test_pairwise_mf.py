"""The default step size of pairwise models follows the number of users, in a fit and in an update."""

import numpy as np
import pytest

import purerec as pr
from purerec.data.interactions import Interactions
from purerec.errors import DivergedError
from purerec.models.families.pairwise_mf import default_rate
from purerec.models.registry import make_model

FEW = {"bpr": {"epochs": 1}, "lambdafm": {"epochs": 1}, "irgan": {"epochs": 1, "pretrain_epochs": 1}}
FEW["graphgan"] = FEW["irgan"]


def log_of(n_users: int) -> Interactions:
    """Everybody has two of six items."""
    rng = np.random.default_rng(0)
    items = rng.permuted(np.tile(np.arange(6), (n_users, 1)), axis=1)[:, :2]
    people = np.repeat(np.arange(n_users), 2)
    return Interactions.from_columns(people.astype(str), items.ravel().astype(str))


def test_larger_logs_have_larger_steps():
    assert default_rate(2_000) == 0.1
    assert default_rate(2_001) == 0.3


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(("n_users", "rate"), [(20, 0.1), (2_001, 0.3)])
def test_a_fit_uses_and_reports_the_rate(name, n_users, rate):
    model = make_model(name, **FEW[name]).fit(log_of(n_users))
    assert model.history.curve("learning_rate")[0][1] == rate
    assert model.fitted_on.resolved["learning_rate"] == rate


def test_a_given_rate_is_kept():
    model = pr.BPR(epochs=1, learning_rate=0.02).fit(log_of(2_001))
    assert model.history.curve("learning_rate")[0][1] == 0.02
    assert "learning_rate" not in model.fitted_on.resolved


@pytest.mark.parametrize("name", FEW)
def test_an_update_takes_a_tenth_of_the_rate_of_the_fit(name):
    model = make_model(name, **FEW[name]).fit(log_of(2_001))
    model.update(log_of(2_003), epochs=2)
    assert model.history.curve("learning_rate")[0][1] == pytest.approx(0.03)


def test_a_fit_that_diverges_says_which_rate_it_had():
    with pytest.raises(DivergedError, match=r"lower learning_rate \(now 10\)"):
        pr.BPR(epochs=50, learning_rate=10, regularization=100, init_std=10).fit(log_of(20))
    with pytest.raises(DivergedError, match=r"lower learning_rate \(now 0\.1, or 0\.3 for more than 2,000 users\)"):
        pr.BPR(epochs=50, regularization=100, init_std=10).fit(log_of(20))
