"""Estimates of the class prior from scores whose distributions are known."""

from __future__ import annotations

import numpy as np
import pytest

from purerec.errors import DataError
from purerec.paper.priors import best_bin_prior, elkan_noto_prior


def test_elkan_noto_where_relevant_pairs_can_be_told() -> None:
    """A tenth of all pairs is relevant, a quarter of these observed: D is 1/4 on relevant pairs."""
    phi = np.full(50, np.log(0.25 / 0.75))
    assert elkan_noto_prior(phi, 0.025) == pytest.approx(0.1)


@pytest.mark.parametrize("prior", [0.3, 0.05, 0.004])
def test_best_bin_where_the_highest_scores_are_relevant(prior: float) -> None:
    rng = np.random.default_rng(0)
    n = 200_000
    relevant = rng.random(n) < prior
    scores = np.where(relevant, rng.uniform(0, 2, n), rng.uniform(-1, 1, n))
    assert best_bin_prior(rng.uniform(0, 2, 3000), scores) == pytest.approx(prior, rel=0.15)


def test_best_bin_is_too_high_where_classes_overlap_everywhere() -> None:
    """Negatives score as high as positives, half as often: at best one in 0.1 / (0.1 + 0.9 / 2) is relevant."""
    rng = np.random.default_rng(1)
    relevant = rng.random(100_000) < 0.1
    scores = np.where(relevant | (rng.random(100_000) < 0.5), rng.uniform(0, 1, 100_000), -1)
    assert best_bin_prior(rng.uniform(0, 1, 2000), scores) == pytest.approx(0.1 + 0.9 / 2, rel=0.05)


def test_ties_and_a_constant_scorer() -> None:
    """Uninformative scores: all pairs could be relevant."""
    assert best_bin_prior(np.zeros(10), np.zeros(1000)) == 1.0


def test_scores_that_are_not_there_or_not_finite_are_refused() -> None:
    with pytest.raises(DataError, match="at least one"):
        best_bin_prior(np.zeros(0), np.zeros(3))
    with pytest.raises(DataError, match="finite"):
        elkan_noto_prior(np.array([np.nan]), 0.1)
