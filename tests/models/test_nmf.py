"""NMF against its step on full matrices, and its guarantees: never negative, never uphill."""

import numpy as np
import pytest

import purerec as pr
from purerec.errors import DataError
from purerec.models.families.ratings import unlabeled_weight
from purerec.models.nmf import NMF, Multiplication, NMFConfig


def ratings(seed=0, n=300, users=20, items=15):
    rng = np.random.default_rng(seed)
    return pr.Interactions.from_columns(
        rng.integers(0, users, n), rng.integers(0, items, n), rating=rng.integers(1, 6, n), positive_rating=4
    ).deduplicate()


def full(data, target, ratio):
    """Targets and weights of all pairs."""
    goal, weight = np.zeros(data.shape), np.zeros(data.shape)
    if target == "rating":
        goal[data.user_idx, data.item_idx], weight[data.user_idx, data.item_idx] = data.rating, 1
    else:
        positives = data.positives
        weight += unlabeled_weight(positives.counts, data.n_items, ratio)[:, None]
        goal[positives.users, positives.indices] = weight[positives.users, positives.indices] = 1
    return goal, weight


def fitting_of(data, target, **settings):
    from scipy.sparse import csr_array

    goal, weight = full(data, target, 3.0)
    background = np.zeros(data.n_users)
    if target == "binary":
        background = unlabeled_weight(data.positives.counts, data.n_items, 3.0)
    config = NMFConfig(target=target, unlabeled_ratio=3.0, **settings)
    return (
        Multiplication(
            config, csr_array(goal.astype(np.float32)), background, np.zeros(3, np.float32), np.random.default_rng(0)
        ),
        goal,
        weight,
    )


@pytest.mark.parametrize("target", ["binary", "rating"])
@pytest.mark.parametrize("dim", [3, 11])
def test_a_step_is_that_on_full_matrices(target, dim):
    fitting, goal, weight = fitting_of(ratings(), target, dim=dim, regularization=0.05)
    p, q = (fitting.vectors[name][:, :dim].astype(np.float64) for name in ("user", "item"))

    def objective():
        norms = weight.sum(1) @ np.sum(p**2, axis=1) + weight.sum(0) @ np.sum(q**2, axis=1)
        return np.sum(weight * (goal - p @ q.T) ** 2) + 0.05 * norms

    p *= ((weight * goal) @ q) / ((weight * (p @ q.T)) @ q + 0.05 * weight.sum(1)[:, None] * p)
    halfway = objective()
    q *= ((weight * goal).T @ p) / ((weight * (p @ q.T)).T @ p + 0.05 * weight.sum(0)[:, None] * q)
    record = fitting.epoch(0)
    np.testing.assert_allclose(fitting.vectors["user"][:, :dim], p, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fitting.vectors["item"][:, :dim], q, rtol=1e-4, atol=1e-6)
    assert not fitting.vectors["item"][:, dim:].any()
    assert record["loss"] * weight.sum() == pytest.approx(halfway, rel=1e-4)


@pytest.mark.parametrize("target", ["binary", "rating"])
def test_vectors_stay_non_negative_and_the_objective_never_rises(target):
    model = NMF(target=target, dim=4, epochs=200).fit(ratings(seed=1))
    assert model._params["user"].min() >= 0
    assert model._params["item"].min() >= 0
    losses = np.array([loss for _, loss in model.history.curve("loss")])
    assert (np.diff(losses) <= 1e-5 * losses[:-1]).all()
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("target", ["binary", "rating"])
def test_the_start_has_the_mean_of_the_targets(target):
    fitting, goal, weight = fitting_of(ratings(n=2000, users=60, items=50), target, dim=40)
    mean = (weight * goal).sum() / weight.sum()
    assert fitting.mean == pytest.approx(mean, rel=1e-5)
    assert (fitting.vectors["user"] @ fitting.vectors["item"].T).mean() == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize("target", ["binary", "rating"])
def test_a_new_person_is_the_best_non_negative_vector(target):
    data = ratings(seed=3)
    model = NMF(dim=3, target=target, unlabeled_ratio=2.0, regularization=0.05).fit(data)
    history, n = np.array([0, 3, 4], np.int32), data.n_items
    q = model._params["item"].astype(np.float64)
    liked = 1.0 if target == "binary" else data.rating[data.rating >= 4].mean()
    weight = np.full(n, 2 * 3 / (n - 3) if target == "binary" else 0.0)
    weight[history] = 1
    goal = np.where(np.isin(np.arange(n), history), liked, 0.0)
    p = np.full(3, 0.5)
    for _ in range(20_000):  # the same step, for one row, until nothing moves
        p *= (q.T @ (weight * goal)) / (q.T @ (weight * (q @ p)) + 0.05 * weight.sum() * p + 1e-300)
    np.testing.assert_allclose(model.score_history(history), q @ p, rtol=1e-3, atol=1e-4)


def test_negative_ratings_are_refused_in_words():
    data = pr.Interactions.from_columns([0, 0, 1], [0, 1, 1], rating=[-1, 1, 1])
    with pytest.raises(DataError, match="the lowest is -1"):
        NMF(target="rating").fit(data)


def test_ratings_of_zero_are_ratings():
    data = pr.Interactions.from_columns([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], rating=[0, 4, 0, 4, 0])
    model = NMF(target="rating", dim=2, epochs=300).fit(data)
    assert model.predict([2], [0])[0] < 0.2
