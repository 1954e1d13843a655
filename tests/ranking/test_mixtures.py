"""Ranks under mixtures of two scores."""

import numpy as np
import pytest

from purerec.data.pairs import Csr
from purerec.ranking.mixtures import ranks_of_mixtures
from purerec.ranking.ranks import ranks
from ranking.known_scores import Table

WEIGHTS = (0.0, 0.3, 2.0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def parts(rng):
    return rng.normal(size=(2, 70, 131)).astype(np.float32)


@pytest.fixture
def positives(rng):
    return Csr.of(rng.integers(0, 70, 400), rng.integers(0, 131, 400), (70, 131))


def test_the_ranks_are_those_of_the_sum(parts, positives):
    one, other = parts
    found = ranks_of_mixtures(one, other, WEIGHTS, positives)
    for weight, own in zip(WEIGHTS, found, strict=True):
        expected = ranks(Table(one + np.float32(weight) * other), positives)
        np.testing.assert_array_equal(own, expected.values)


def test_an_item_at_minus_infinity_is_no_candidate(parts, positives, rng):
    one, other = parts
    excluded = Csr.of(rng.integers(0, 70, 900), rng.integers(0, 131, 900), (70, 131))
    kept = Csr.of(*_without(positives, excluded), positives.shape)
    hidden = one.copy()
    hidden[excluded.users, excluded.indices] = -np.inf
    found = ranks_of_mixtures(hidden, other, [0.3], kept)[0]
    expected = ranks(Table(one + np.float32(0.3) * other), kept, excluded=excluded)
    np.testing.assert_array_equal(found, expected.values)


def test_equal_scores_count_against_a_positive():
    flat = np.zeros((1, 10), dtype=np.float32)
    assert ranks_of_mixtures(flat, flat, [1.0], Csr.of([0, 0], [2, 5], (1, 10))).tolist() == [[10, 10]]


def _without(pairs, excluded):
    is_out = np.isin(pairs.users * 131 + pairs.indices, excluded.users * 131 + excluded.indices)
    return pairs.users[~is_out], pairs.indices[~is_out]
