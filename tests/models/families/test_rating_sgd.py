"""SVD and PMF against plain loops, finite differences, and explicit least squares."""

import itertools

import numpy as np
import pytest

import purerec as pr
from purerec.data.pairs import Csr
from purerec.models.families.rating_sgd import Descent, Positives, Ratings, Weights, new_choice, rating_epoch
from purerec.models.families.ratings import rating_targets
from purerec.models.pmf import PMF
from purerec.models.svd import SVD
from purerec.rng import named_rng

both = pytest.mark.parametrize("model", [SVD, PMF])
NO_SCALE = np.zeros(3, np.float32)
"""Nothing is predicted with it"""


def ratings(seed=0, n=300, users=20, items=15):
    rng = np.random.default_rng(seed)
    return pr.Interactions.from_columns(
        rng.integers(0, users, n), rng.integers(0, items, n), rating=rng.integers(1, 6, n), positive_rating=4
    ).deduplicate()


def value(pair, p, q, bu, bi, decay, biased, mean):
    """Half the squared error at one pair, with the penalty."""
    u, i, r = pair
    error = r - p[u] @ q[i] - (mean + bu[u] + bi[i] if biased else 0)
    norms = decay * (p[u] @ p[u] + q[i] @ q[i] + (bu[u] ** 2 + bi[i] ** 2 if biased else 0))
    return 0.5 * error**2 + 0.5 * norms


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dim", [5, 19])
def test_a_step_goes_down_the_gradient(biased, dim):
    rng, width, rate, decay, mean = np.random.default_rng(dim), -(-dim // 8) * 8, 1e-2, 0.3, 3.1 * biased
    arrays = [np.zeros((4, width), np.float32), np.zeros((3, width), np.float32)]
    for vectors in arrays:
        vectors[:, :dim] = rng.normal(0, 0.5, (len(vectors), dim))
    arrays += [rng.normal(0, 0.1, n).astype(np.float32) * biased for n in (4, 3)]
    before = [a.astype(np.float64) for a in arrays]
    weights = Weights(
        arrays[0].ravel(), arrays[1].ravel(), arrays[2], arrays[3],
        np.full(4, decay, np.float32), np.full(3, decay, np.float32), width, mean, biased,
    )  # fmt: skip
    pair = 2, 1, 4.0
    one = [np.array([x], t) for x, t in zip(pair, (np.int32, np.int32, np.float32), strict=True)]
    found = rating_epoch(weights, *one, np.zeros(1, np.int64), np.float32(rate))
    error = 4 - before[0][2] @ before[1][1] - mean - before[2][2] - before[3][1]
    assert found == pytest.approx(error**2, rel=1e-4)
    for k, (old, new) in enumerate(zip(before, arrays, strict=True)):
        if k >= 2 and not biased:
            assert not new.any()
            continue
        gradient = np.zeros(old.shape)
        for place in np.ndindex(old.shape):
            values = []
            for step in (-1e-5, 1e-5):
                old[place] += step
                values.append(value(pair, *before, decay, biased, mean))
                old[place] -= step
            gradient[place] = (values[1] - values[0]) / 2e-5
        np.testing.assert_allclose(new - old, -rate * gradient, atol=2e-6)


@both
def test_an_epoch_is_a_plain_loop(model):
    data = ratings()
    settings = {"dim": 3, "regularization": 0.4, "learning_rate": 0.05, "epochs": 1, "target": "rating"}
    found = model(**settings).fit(data, seed=6)._params
    known = rating_targets(data)
    start = Descent(model(**settings), Ratings(known, data.shape, 6), NO_SCALE, named_rng(6, "init")).arrays
    p, q = (start[name][:, :3].astype(np.float64) for name in ("user", "item"))
    bu, bi, mean = np.zeros(data.n_users), np.zeros(data.n_items), known.mean
    n_u, n_i = (
        np.bincount(idx, minlength=n) for idx, n in zip((known.user_idx, known.item_idx), data.shape, strict=True)
    )
    for n in named_rng(6, "order/0").permutation(len(known.value)):
        u, i = known.user_idx[n], known.item_idx[n]
        biased = model is SVD
        by_user, by_item = (0.4, 0.4) if biased else (0.4 / n_u[u], 0.4 / n_i[i])
        error = known.value[n] - p[u] @ q[i] - biased * (mean + bu[u] + bi[i])
        bu[u] += biased * 0.05 * (error - by_user * bu[u])
        bi[i] += biased * 0.05 * (error - by_item * bi[i])
        p[u], q[i] = p[u] + 0.05 * (error * q[i] - by_user * p[u]), q[i] + 0.05 * (error * p[u] - by_item * q[i])
    np.testing.assert_allclose(found["user"], p, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found["item"], q, rtol=1e-3, atol=1e-4)
    if model is SVD:
        np.testing.assert_allclose(found["user_bias"], bu, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found["item_bias"], bi, rtol=1e-3, atol=1e-4)


def test_pmf_ends_where_its_objective_is_flat():
    """1/2 sum (r - p.q)^2 + 1/2 regularization (|P|^2 + |Q|^2): the Frobenius norm, each row once."""
    data, strength = ratings(seed=1), 4.0
    model = PMF(
        target="rating", dim=2, regularization=strength, learning_rate=0.02, schedule="cosine", epochs=3000
    ).fit(data)
    p, q = (model._params[name].astype(np.float64) for name in ("user", "item"))
    error = np.zeros(data.shape)
    error[data.user_idx, data.item_idx] = data.rating - np.sum(p[data.user_idx] * q[data.item_idx], axis=1)
    for gradient, size in ((-error @ q + strength * p, p), (-error.T @ p + strength * q, q)):
        assert np.abs(gradient).max() < 0.02 * np.abs(strength * size).max()


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5, 7.0])
def test_as_many_unlabeled_pairs_are_drawn_as_asked_for(ratio):
    data = ratings()
    feed = Positives(data.positives, ratio, seed=0)
    model = SVD(dim=4, init_std=1e-9, unlabeled_ratio=ratio)
    descent = Descent(model, feed, NO_SCALE, np.random.default_rng(0))
    # At a rate of zero every prediction is the mean, so the error shows how many ones and zeros there were.
    a = descent.arrays
    still = Weights(
        a["user"].ravel(), a["item"].ravel(), a["user_bias"], a["item_bias"], descent.user_decay, descent.item_decay,
        descent.width, feed.mean, True,
    )  # fmt: skip
    found = feed.epoch(0, still, 0.0) * feed.n
    n, zeros = data.n_positives, int(ratio * data.n_positives)
    assert found == pytest.approx(n * (1 - feed.mean) ** 2 + zeros * feed.mean**2, rel=1e-4)
    assert feed.mean == pytest.approx(1 / (1 + ratio))
    assert feed.user_pairs.sum() == pytest.approx(feed.item_pairs.sum())


def test_unlabeled_pairs_are_drawn_anew_in_each_epoch():
    data = ratings()
    feed = Positives(data.positives, 2.0, seed=0)
    descent = Descent(SVD(dim=4), feed, NO_SCALE, np.random.default_rng(0))
    touched = []
    for number in range(2):
        a = {name: array.copy() for name, array in descent.arrays.items()}
        descent.epoch(number)
        touched.append(descent.arrays["item_bias"].copy())
        descent.arrays = a
    assert not np.array_equal(*touched)
    again = Descent(SVD(dim=4), feed, NO_SCALE, np.random.default_rng(0))
    again.epoch(0)
    np.testing.assert_array_equal(again.arrays["item_bias"], touched[0])


@both
@pytest.mark.parametrize("target", ["binary", "rating"])
def test_a_new_person_is_fitted_by_least_squares(model, target):
    data = ratings(seed=3)
    fitted = model(dim=3, target=target, unlabeled_ratio=2.0, regularization=0.1).fit(data)
    history, n = np.array([0, 3, 4], np.int32), data.n_items
    p = {name: array.astype(np.float64) for name, array in fitted._params.items()}
    liked = 1.0 if target == "binary" else data.rating[data.rating >= 4].mean()
    weight = np.full(n, 2 * 3 / (n - 3) if target == "binary" else 0.0)
    weight[history] = 1
    goal = np.where(np.isin(np.arange(n), history), liked, 0.0)
    design, offset = p["item"], 0.0
    if model is SVD:
        design, offset = np.column_stack([p["item"], np.ones(n)]), p["mean"] + p["item_bias"]
    strength = 0.1 * (1 if model is PMF else weight.sum())
    root = np.sqrt(weight)
    rows = np.vstack([design * root[:, None], np.sqrt(strength) * np.eye(design.shape[1])])
    right = np.concatenate([(goal - offset) * root, np.zeros(design.shape[1])])
    expected = design @ np.linalg.lstsq(rows, right, rcond=None)[0] + offset
    shift = fitted.score_history(history) - expected  # a constant, which ranks nothing; without biases there is none
    np.testing.assert_allclose(shift, shift.mean() if model is SVD else 0, atol=1e-4)


def test_penalties_of_pmf():
    few_and_many = np.array([2.0, 8.0, 0.0])
    np.testing.assert_allclose(PMF(regularization=4).decay(few_and_many), [2, 0.5, 4])
    np.testing.assert_allclose(PMF(regularization=4, penalty="per_pair").decay(few_and_many), [4, 4, 4])


def test_the_rate_falls_to_nothing_or_stays():
    data = ratings()
    falling = SVD(epochs=10, learning_rate=0.2).fit(data).history.curve("learning_rate")
    assert falling[0][1] == 0.2
    assert falling[5][1] == pytest.approx(0.1)
    assert falling[9][1] < 0.01
    assert {rate for _, rate in SVD(epochs=4, schedule="constant").fit(data).history.curve("learning_rate")} == {0.1}


@pytest.mark.parametrize("negatives", ["dns", "drns"])
def test_dynamic_negatives_have_the_distribution_of_their_rule(negatives):
    """Item 0 is everybody's positive. At a rate of zero the errors show which items were chosen."""
    n, scores = 6000, np.array([0.3, 1.1, -0.4, 0.0, 0.8])
    feed = Positives(Csr.of(np.arange(n), np.zeros(n, int), (n, 5)), 2.0, 0, new_choice(negatives, 3))
    for_users, for_items = np.zeros(n, np.float32), np.zeros(5, np.float32)
    still = Weights(
        np.zeros(n * 8, np.float32), np.zeros(5 * 8, np.float32), for_users, scores.astype(np.float32), for_users,
        for_items, 8, 0.0, True,
    )  # fmt: skip
    squares = feed.epoch(0, still, 0.0) * feed.n - n * (1 - scores[0]) ** 2
    shares = []
    for items in itertools.product(range(1, 5), repeat=3):
        s = scores[list(items)]
        weight = np.exp(s) if negatives == "drns" else np.eye(3)[np.argmax(s)]
        shares.append(weight @ s**2 / weight.sum())
    assert squares / (2 * n) == pytest.approx(np.mean(shares), rel=0.02)


@both
@pytest.mark.parametrize("negatives", ["dns", "drns"])
def test_dynamic_negatives_of_one_candidate_are_uniform(model, negatives):
    data = ratings()
    uniform = model(dim=3, epochs=4).fit(data, seed=1).score([0, 1])
    np.testing.assert_array_equal(
        model(dim=3, epochs=4, negatives=negatives, candidates=1).fit(data, seed=1).score([0, 1]), uniform
    )
    chosen = model(dim=3, epochs=4, negatives=negatives, candidates=4).fit(data, seed=1).score([0, 1])
    assert np.isfinite(chosen).all()
    assert not np.array_equal(chosen, uniform)
