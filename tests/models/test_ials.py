"""iALS against dense solves in double precision, its own objective, and implicit."""

import warnings

import numpy as np
import pytest

import purerec as pr
from conftest import need
from purerec.engines import ials
from purerec.errors import DataError
from purerec.models.ials import IALS, Alternation, IALSConfig


def log(seed=0, n=500, users=40, items=25):
    rng = np.random.default_rng(seed)
    return pr.Interactions.from_columns(rng.integers(0, users, n), (rng.random(n) ** 2 * items).astype(int))


def dense(data):
    x = np.zeros(data.shape)
    x[data.positives.users, data.positives.indices] = 1
    return x


def solved(x, fixed, config):
    """The minimiser over all rows of x, one at a time, with the columns' vectors fixed."""
    found = np.empty((len(x), fixed.shape[1]))
    for row, known in enumerate(x):
        penalty = config.regularization * (known.sum() + config.alpha * x.shape[1]) ** config.nu
        system = (fixed.T * (known + config.alpha)) @ fixed + penalty * np.eye(fixed.shape[1])
        found[row] = np.linalg.solve(system, fixed.T @ known)
    return found


def objective(x, user, item, config):
    product = user @ item.T
    loss = np.sum(x * (product - 1) ** 2) + config.alpha * np.sum(product**2)
    by_user = config.regularization * (x.sum(1) + config.alpha * x.shape[1]) ** config.nu
    by_item = config.regularization * (x.sum(0) + config.alpha * x.shape[0]) ** config.nu
    return loss + by_user @ np.sum(user**2, axis=1) + by_item @ np.sum(item**2, axis=1)


@pytest.mark.parametrize("dim", [1, 5, 8, 9, 19, 40, 70])
@pytest.mark.parametrize("nu", [0.0, 1.0])
def test_an_epoch_solves_for_users_then_for_items(dim, nu):
    data, config = log(), IALSConfig(dim=dim, alpha=0.3, regularization=0.1, nu=nu)
    fitting, x = Alternation(config, data.positives, np.random.default_rng(1)), dense(data)
    start = fitting.item[:, :dim].astype(np.float64)
    record = fitting.epoch(0)
    user = solved(x, start, config)
    np.testing.assert_allclose(fitting.user[:, :dim], user, rtol=2e-3, atol=1e-4)
    item = solved(x.T, fitting.user[:, :dim].astype(np.float64), config)
    np.testing.assert_allclose(fitting.item[:, :dim], item, rtol=2e-3, atol=1e-4)
    assert not fitting.item[:, dim:].any()
    expected = objective(x, *(v[:, :dim].astype(np.float64) for v in (fitting.user, fitting.item)), config)
    assert record["loss"] * data.n_positives == pytest.approx(expected, rel=1e-4)


def test_the_objective_never_rises():
    model = IALS(dim=4, epochs=30).fit(log(seed=2))
    losses = np.array([loss for _, loss in model.history.curve("loss")])
    assert (np.diff(losses) <= 1e-6).all()


def test_a_fit_is_where_the_objective_is_flat():
    data, config = log(seed=3), IALSConfig(dim=3, epochs=400, alpha=0.2, regularization=0.02)
    model, x = IALS(config).fit(data), dense(data)
    user, item = (model._params[name].astype(np.float64) for name in ("user", "item"))
    rng = np.random.default_rng(0)
    for vectors in (user, item):
        for _ in range(10):
            row, k = rng.integers(len(vectors)), rng.integers(3)
            values = []
            for step in (-1e-3, 1e-3):
                vectors[row, k] += step
                values.append(objective(x, user, item, config))
                vectors[row, k] -= step
            assert abs(values[1] - values[0]) / 2e-3 < 0.02


def test_threads_change_nothing(monkeypatch):
    data = log(n=2000, users=300)
    alone = IALS(dim=9, epochs=3).fit(data)
    monkeypatch.setattr(ials, "_WORTH_A_THREAD", 1000)
    monkeypatch.setattr(ials.os, "cpu_count", lambda: 5)
    np.testing.assert_array_equal(IALS(dim=9, epochs=3).fit(data)._params["user"], alone._params["user"])


def test_a_new_person_has_the_closed_form():
    data, config = log(), IALSConfig(dim=5, alpha=0.3, regularization=0.05)
    model = IALS(config).fit(data)
    history, item = np.array([1, 4, 6], np.int32), model._params["item"].astype(np.float64)
    known = np.zeros((1, data.n_items))
    known[0, history] = 1
    expected = solved(known, item, config)[0] @ item.T
    np.testing.assert_allclose(model.score_history(history), expected, rtol=1e-3, atol=1e-5)


def test_unobserved_pairs_weigh_32_times_the_positives_unless_told():
    data = log()
    model = IALS(dim=3).fit(data)
    everything = float(model._params["alpha"][0]) * data.n_users * data.n_items
    assert everything == pytest.approx(32 * data.n_positives, rel=1e-5)


def test_agrees_with_implicit():
    """Theirs: (c, 1) on positives, (1, 0) elsewhere. Ours is that with c = (1 + alpha) / alpha, times a constant."""
    need("implicit")
    data, alpha, regularization, dim = log(seed=4), 0.25, 0.5, 4
    fitting = Alternation(
        IALSConfig(dim=dim, alpha=alpha, regularization=regularization, nu=0),
        data.positives,
        np.random.default_rng(0),
    )
    scale = np.sqrt(1 + alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from implicit.cpu.als import AlternatingLeastSquares

        peer = AlternatingLeastSquares(
            factors=dim,
            alpha=(1 + alpha) / alpha,
            regularization=regularization * (1 + alpha) / alpha,
            iterations=4,
            use_cg=False,
            dtype=np.float64,
            num_threads=1,
        )
        peer.user_factors = fitting.user[:, :dim].astype(np.float64) * scale
        peer.item_factors = fitting.item[:, :dim].astype(np.float64) * scale
        peer.fit(data.positives.to_scipy().tocsr(), show_progress=False)
    for number in range(4):
        fitting.epoch(number)
    ours = fitting.user[:, :dim] @ fitting.item[:, :dim].T
    theirs = peer.user_factors @ peer.item_factors.T / (1 + alpha)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_somebody_without_positives_is_the_average_person():
    data = pr.Interactions.from_columns(
        np.repeat(np.arange(6), 3), (np.arange(18) * 5) % 7, rating=[5] * 15 + [1] * 3, positive_rating=4
    )
    user = IALS(dim=2).fit(data)._params["user"]
    np.testing.assert_allclose(user[5], user[:5].mean(axis=0), rtol=1e-5)


def test_data_without_positives_is_refused_in_words():
    data = pr.Interactions.from_columns([0, 1], [0, 1], rating=[1, 2], positive_rating=4)
    with pytest.raises(DataError, match="lower the rating"):
        IALS().fit(data)
