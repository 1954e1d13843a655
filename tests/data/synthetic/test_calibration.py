"""The constants of a world: roots of increasing functions, and pairs that represent all cells."""

import math

import numpy as np
import pytest

from purerec.data.synthetic import calibration
from purerec.data.synthetic.calibration import calibration_pairs, increasing_root, sigmoid


@pytest.mark.parametrize("target", [1e-6, 0.3, 2.0, 1e4])
def test_the_root_of_an_exponential(target):
    assert increasing_root(math.exp, target, -60.0, 60.0) == pytest.approx(math.log(target), abs=2e-6)


def test_a_value_out_of_reach_gives_the_upper_end():
    assert increasing_root(lambda x: 0.1 + x / 100, 0.5, 0.0, 1.0) == 1.0


def test_a_sigmoid_that_cannot_overflow():
    assert sigmoid(np.array([-1e6, 0.0, 1e6])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("most", [100, 1 << 20])
def test_shares_are_an_unbiased_sum_over_all_cells(most, monkeypatch):
    """All cells once in a small world; in a larger one, half of them by weight, with shares that correct for it."""
    monkeypatch.setattr(calibration, "PAIRS", most)
    users, items = 40, 30
    weight = 1.0 / np.arange(1, items + 1)
    weight /= weight.mean()
    sums = []
    for seed in range(60):
        user, item, share = calibration_pairs(users, items, weight, np.random.default_rng(seed))
        assert len(user) == len(item) == min(most, users * items)
        sums.append([share.sum(), share @ item, share @ user])
    expected = [1.0, (items - 1) / 2, (users - 1) / 2]
    assert np.mean(sums, axis=0) == pytest.approx(expected, rel=1e-9 if most > 1200 else 0.06)
