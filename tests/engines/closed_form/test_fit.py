"""Item weights against the equations in double precision, in both forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.closed_form import reference
from purerec.data import memory
from purerec.data.memory import Peak
from purerec.data.pairs import Csr
from purerec.engines.closed_form import DenseWeights, SparseWeights, fit, fit_item_weights, mean_diagonal
from purerec.engines.closed_form.gram import Weighting
from purerec.engines.closed_form.neighborhoods import Neighborhoods
from purerec.errors import ConfigError, DataError


def fitted(positives, regularization=3.0, **settings):
    return fit_item_weights(positives, [regularization], **{"memory_mb": 1000, **settings})[0]


def matrix(weights):
    return np.array([weights.row(j) for j in range(len(weights.row(0)))])


def by_neighborhoods(positives, regularization, neighbors, user_power=0.0, item_power=0.0):
    """The weights in this form, even with as many neighbours as there are items."""
    weight = Weighting.of(positives, user_power, item_power)
    columns = Neighborhoods(positives, weight, neighbors, 1).solve([regularization])
    return matrix(fit._by_row(columns, columns.values[0]))


@st.composite
def positives(draw):
    users, items = draw(st.integers(1, 12)), draw(st.integers(1, 40))
    pairs = draw(st.lists(st.tuples(st.integers(0, users - 1), st.integers(0, items - 1)), max_size=120))
    user, item = np.array(pairs, dtype=int).reshape(-1, 2).T
    return Csr.of(user, item, (users, items))


@pytest.mark.parametrize("neighbors", [None, 7])
def test_several_at_once_are_what_each_alone_is(neighbors):
    data = reference.random_positives()
    found = fit_item_weights(data, [0.5, 3.0, 500.0], item_power=0.2, neighbors=neighbors, memory_mb=1000)
    for regularization, weights in zip([0.5, 3.0, 500.0], found, strict=True):
        alone = fitted(data, regularization, item_power=0.2, neighbors=neighbors)
        np.testing.assert_array_equal(matrix(weights), matrix(alone))


powers = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@settings(deadline=None)
@given(positives(), st.sampled_from([0.5, 3.0, 500.0]), powers, powers, st.integers(1, 45))
def test_weights_are_those_of_the_equations(data, regularization, user_power, item_power, neighbors):
    whole = fitted(data, regularization, user_power=user_power, item_power=item_power)
    assert isinstance(whole, DenseWeights)
    expected = reference.weights(data, regularization, user_power, item_power)
    np.testing.assert_allclose(matrix(whole), expected, atol=2e-5)
    few = fitted(data, regularization, neighbors=neighbors, user_power=user_power, item_power=item_power)
    if neighbors >= data.shape[1] - 1:
        np.testing.assert_array_equal(matrix(few), matrix(whole))
    else:
        assert isinstance(few, SparseWeights)
        if user_power == item_power == 0:  # otherwise rounding decides between items that are equal on paper
            expected = reference.weights(data, regularization, neighbors=neighbors)
            np.testing.assert_allclose(matrix(few), expected, atol=2e-5)


@pytest.mark.parametrize("neighbors", [1, 2, 3, 4, 5, 15, 16, 17, 31, 63, 64, 100, 150])
@pytest.mark.parametrize("power", [0.0, 0.3])
def test_neighborhoods_of_any_size_are_those_of_the_equations(neighbors, power):
    # People who like different numbers of items, so that no two products are equal with powers.
    data = reference.random_positives(seed=4, n=9000, users=300, items=160)
    settings = {"user_power": power, "item_power": power / 2}
    regularization = 2 * mean_diagonal(data, **settings)
    found = matrix(fitted(data, regularization, neighbors=neighbors, threads=2, **settings))
    expected = reference.weights(data, regularization, neighbors=neighbors, **settings)
    assert np.count_nonzero(found, axis=0).max() == neighbors
    np.testing.assert_array_equal(found != 0, expected != 0)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("settings", [{}, {"user_power": 0.5, "item_power": 0.25}])
def test_neighborhoods_of_all_items_are_ease(settings):
    data = reference.random_positives(n=3000, users=60)
    assert (reference.products(data) > 0).all()
    found = by_neighborhoods(data, 2.0, neighbors=24, **settings)
    np.testing.assert_allclose(found, matrix(fitted(data, 2.0, **settings)), atol=1e-5)


def test_no_weight_of_a_neighborhood_can_be_improved():
    data, regularization = reference.random_positives(seed=1), 5.0
    b = matrix(fitted(data, regularization, neighbors=7)).astype(np.float64)
    x = reference.dense(data)
    assert not np.diag(b).any()
    gradient = -2 * x.T @ (x - x @ b) + 2 * regularization * b
    assert np.abs(gradient[b != 0]).max() < 1e-3


def test_items_that_nobody_likes_have_no_weights():
    data = Csr.of([0, 0, 1, 1, 1, 3], [1, 3, 1, 3, 4, 6], (5, 9))
    for neighbors in (None, 3):
        found = matrix(fitted(data, neighbors=neighbors))
        assert np.isfinite(found).all()
        for lonely in (0, 2, 5, 6, 7, 8):  # 6 is liked, but with nothing else
            assert not found[lonely].any()
            assert not found[:, lonely].any()
        assert found[1, 3] > found[1, 4] > 0


@pytest.mark.parametrize("neighbors", [None, 1, 2])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1)])
def test_one_user_or_one_item(shape, neighbors):
    data = Csr.of(*np.nonzero(np.ones(shape)), shape)
    found = matrix(fitted(data, neighbors=neighbors))
    np.testing.assert_allclose(found, reference.weights(data, 3.0, neighbors=neighbors), atol=1e-6)


def test_more_neighbors_than_items_that_were_liked_together_change_nothing():
    data = reference.random_positives(n=60, users=30, items=60)
    most = int((reference.products(data) > 0).sum(axis=1).max()) - 1
    found = matrix(fitted(data, neighbors=most))
    np.testing.assert_array_equal(matrix(fitted(data, neighbors=most + 5)), found)
    assert np.count_nonzero(matrix(fitted(data, neighbors=most - 1))) < np.count_nonzero(found)


@pytest.mark.parametrize("threads", [2, 3, None])
def test_threads_change_no_bit(threads):
    data = reference.random_positives(n=20_000, users=900, items=1500)
    settings = {"neighbors": 40, "user_power": 0.4, "item_power": 0.2}
    one, more = (fitted(data, threads=n, **settings).state() for n in (1, threads))
    for name, array in one.items():
        np.testing.assert_array_equal(array, more[name])


@pytest.mark.parametrize("settings", [{}, {"neighbors": 20, "user_power": 0.5, "item_power": 0.25}])
def test_another_order_of_items_is_another_order_of_weights(settings):
    data = reference.random_positives(seed=3, n=4000, users=150, items=60)
    order = np.random.default_rng(0).permutation(60)
    turned = Csr.of(data.users, order[data.indices], data.shape)
    found, again = matrix(fitted(data, **settings)), matrix(fitted(turned, **settings))
    np.testing.assert_allclose(again[np.ix_(order, order)], found, atol=1e-5)


def test_of_equal_neighbors_the_less_popular_is_taken():
    # Item 0 was liked once with each of 1 (by three people), 2 and 3 (by two each).
    data = Csr.of([0, 0, 0, 0, 1, 2, 1, 2], [0, 1, 2, 3, 1, 1, 2, 3], (3, 5))
    assert np.flatnonzero(matrix(fitted(data, neighbors=1))[:, 0]).tolist() == [2]
    assert np.flatnonzero(matrix(fitted(data, neighbors=2))[:, 0]).tolist() == [2, 3]


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_mean_diagonal(power):
    data = reference.random_positives()
    expected = np.diag(reference.products(data, power, power / 2)).mean()
    assert mean_diagonal(data, power, power / 2) == pytest.approx(expected)


def test_ml_100k(ml_100k):
    data = ml_100k.positives
    regularization = 10 * mean_diagonal(data, 0.5, 0.25)
    settings = {"user_power": 0.5, "item_power": 0.25, "neighbors": 60}
    found = matrix(fitted(data, regularization, threads=2, **settings))
    expected = reference.weights(data, regularization, **settings)
    # Rounding may occasionally choose the other of two neighbours that are equal on paper.
    differs = (np.abs(found - expected) > 1e-5).any(axis=0)
    assert differs.mean() < 0.02
    assert np.abs(found).max() > 0.05


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("neighbors", [None, 2])
def test_too_little_regularization_is_refused_in_words(neighbors):
    data = Csr.of(np.repeat(np.arange(9), 4), np.tile([0, 1, 2, 3], 9), (9, 4))
    with pytest.raises(ConfigError, match=r"pure: .*raise regularization"):
        fitted(data, 1e-9, neighbors=neighbors, name="pure")


@pytest.mark.parametrize(("neighbors", "remedy"), [(None, "set neighbors=200"), (7, "lower neighbors")])
def test_too_little_memory_is_refused_in_words(neighbors, remedy, monkeypatch):
    data = reference.random_positives()
    message = rf"ease needs \d+ MB for 25 items, and memory_mb is 0: raise it with --set memory_mb=1, {remedy}, "
    with pytest.raises(DataError, match=message):
        fitted(data, neighbors=neighbors, memory_mb=1e-3)
    monkeypatch.setattr(memory, "available_mb", lambda: 1e-3)
    with pytest.raises(DataError, match=rf"0 MB of memory are free here: make room, {remedy}"):
        fitted(data, neighbors=neighbors)


def test_nothing_large_is_made_before_memory_is_looked_at(monkeypatch):
    monkeypatch.setattr(Neighborhoods, "solve", None)
    with pytest.raises(DataError, match="memory_mb"):
        fitted(reference.random_positives(), neighbors=7, memory_mb=1e-3)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("neighbors", [5, 150])
def test_what_a_fit_takes_is_what_it_says(neighbors, n):
    data = reference.random_positives(n=120_000, users=4000, items=6000)
    fitted(reference.random_positives(), neighbors=3)  # compile
    system = Neighborhoods(data, Weighting.of(data, 0, 0), neighbors, 2)
    peak = Peak()
    fit_item_weights(data, [3.0, 4.0][:n], neighbors=neighbors, threads=2, memory_mb=1000)
    assert not peak.own or peak.mb - peak.before_mb < 1.05 * system.needed_bytes(n) / 2**20 + 10
