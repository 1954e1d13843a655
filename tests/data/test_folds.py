"""Validation folds: from the train part only, held out like the test part, each row once before any twice."""

import numpy as np
import pytest

import purerec as pr
from purerec.data.folds import folds, thinned
from purerec.data.made import Made, SplitParameters
from purerec.errors import SplitError


def log(n=2000, *, users=40, items=200, seed=0):
    rng = np.random.default_rng(seed)
    return pr.Interactions.from_columns(
        rng.integers(0, users, n), rng.integers(0, items, n), timestamp=rng.permutation(n), name="log"
    ).deduplicate()


def pairs(part):
    return set(zip(part.user_idx.tolist(), part.item_idx.tolist(), strict=True))


def test_five_folds_of_a_fifth_are_a_partition_of_train():
    parts = pr.split(log(), "ratio", test=0.2)
    found = folds(parts.full_train, parts.made, 5)
    held = [pairs(fold.test) for fold in found]
    assert sum(map(len, held)) == len(set.union(*held)) == len(parts.full_train)
    for fold in found:
        assert pairs(fold.train) | pairs(fold.test) == pairs(parts.full_train)
        assert len(fold.test) == pytest.approx(0.2 * len(parts.full_train), abs=1)
        assert not pairs(fold.test) & pairs(parts.test)
    sixth = pairs(folds(parts.full_train, parts.made, 6)[5].test)
    assert sixth not in held  # a new draw, not a repetition


def test_folds_depend_on_the_seed_only():
    parts = pr.split(log(), "ratio")
    one, same, other = (folds(parts.full_train, parts.made, 2, seed=seed) for seed in (3, 3, 4))
    assert [pairs(fold.test) for fold in one] == [pairs(fold.test) for fold in same]
    assert pairs(one[0].test) != pairs(other[0].test)


def test_so_many_of_each_user_as_in_the_test_part():
    parts = pr.split(log(), "leave_n_out", n=3)
    found = folds(parts.full_train, parts.made, 4)
    for fold in found:
        assert set(fold.test.pairs.counts.tolist()) == {3}
    held = [pairs(fold.test) for fold in found]
    assert len(set.union(*held)) == sum(map(len, held))  # everybody has enough rows for four folds


def test_a_temporal_split_goes_back_in_time():
    parts = pr.split(log(), "temporal", test=0.2)
    first, second = folds(parts.full_train, parts.made, 2)
    assert first.train.timestamp.max() < first.test.timestamp.min()
    assert second.test.timestamp.max() < first.test.timestamp.min()
    assert pairs(second.train) | pairs(second.test) == pairs(first.train)
    assert first.test.timestamp.max() < parts.test.timestamp.min()
    last = pr.split(log(), "temporal", n=2)
    assert set(folds(last.full_train, last.made, 1)[0].test.pairs.counts.tolist()) == {2}


def test_only_positives_are_held_out_where_that_was_asked_for():
    data = log()
    rated = pr.Interactions.from_columns(
        data.user_idx, data.item_idx, rating=1 + np.arange(len(data)) % 5, name="rated"
    ).with_positives(4)
    parts = pr.split(rated, "ratio", on="positives")
    assert folds(parts.full_train, parts.made, 1)[0].test.is_positive.all()


def test_too_little_data_is_told():
    few = pr.Interactions.from_columns([1, 2, 3], [1, 2, 3], timestamp=[1, 2, 3], name="few")
    with pytest.raises(SplitError, match="too small"):
        folds(few, Made(method="leave_n_out", parameters=SplitParameters(n=1)), 1)
    with pytest.raises(SplitError, match=r"of 5 folds in time"):
        folds(few, Made(method="temporal", parameters=SplitParameters(test=0.3)), 5)


def test_thinned_keeps_so_many_positives_of_everybody():
    rng = np.random.default_rng(0)
    data = pr.Interactions.from_columns(
        rng.integers(0, 30, 800), rng.integers(0, 300, 800), rating=rng.integers(1, 6, 800), positive_rating=4
    ).deduplicate()
    found = thinned(data, 5, np.random.default_rng(0))
    assert found.is_positive.all()
    assert pairs(found) <= pairs(data)
    np.testing.assert_array_equal(found.positives.counts, np.minimum(data.positives.counts, 5))
    assert pairs(found) != pairs(thinned(data, 5, np.random.default_rng(1)))
    most = np.arange(data.n_users) % 3
    each = thinned(data, most, np.random.default_rng(0)).positives.counts
    assert np.array_equal(each, np.minimum(data.positives.counts, most))
