"""EASE against the closed form in double precision, and against its own objective."""

import numpy as np
import pytest

import purerec as pr
from purerec import memory
from purerec.engines.closed_form import dense
from purerec.errors import ConfigError, DataError
from purerec.memory import Peak
from purerec.models.ease import EASE


def log(seed=0, n=400, users=40, items=25):
    rng = np.random.default_rng(seed)
    return pr.Interactions.from_columns(rng.integers(0, users, n), (rng.random(n) ** 2 * items).astype(int))


def zeros_and_ones(data):
    x = np.zeros(data.shape)
    x[data.positives.users, data.positives.indices] = 1
    return x


def closed_form(x, regularization):
    p = np.linalg.inv(x.T @ x + regularization * np.eye(x.shape[1]))
    b = -p / np.diag(p)
    np.fill_diagonal(b, 0)
    return b


@pytest.mark.parametrize("regularization", [0.5, 20.0, 500.0])
def test_weights_are_the_closed_form(regularization):
    data = log()
    model = EASE(regularization=regularization).fit(data)
    x = zeros_and_ones(data)
    expected = closed_form(x, regularization)
    np.testing.assert_allclose(model._weights.matrix, expected, atol=1e-5)
    np.testing.assert_allclose(model.score(np.arange(data.n_users)), x @ expected, atol=1e-4)
    np.testing.assert_allclose(model.score_history(np.array([3, 7], np.int32)), expected[[3, 7]].sum(0), atol=1e-5)


def test_no_weight_off_the_diagonal_can_be_improved():
    data, regularization = log(seed=1), 5.0
    x = zeros_and_ones(data)
    b = EASE(regularization=regularization).fit(data)._weights.matrix.astype(np.float64)
    assert not np.diag(b).any()
    gradient = -2 * x.T @ (x - x @ b) + 2 * regularization * b
    np.fill_diagonal(gradient, 0)
    assert np.abs(gradient).max() < 1e-3


def test_blocks_change_nothing(monkeypatch):
    data = log()
    whole = EASE(regularization=3).fit(data)._weights.matrix
    monkeypatch.setattr(dense, "_BLOCK", 7)
    np.testing.assert_array_equal(EASE(regularization=3).fit(data)._weights.matrix, whole)


def test_a_fit_in_panels_gives_the_same_lists(monkeypatch):
    data = log()
    whole = EASE(regularization=3).fit(data)
    monkeypatch.setattr(dense, "_PANEL", 7)
    monkeypatch.setattr(dense, "_DIRECT", 0)
    panels = EASE(regularization=3).fit(data)
    np.testing.assert_allclose(panels._weights.matrix, whole._weights.matrix, atol=1e-6)
    assert panels.recommend(k=5).select("user", "item").equals(whole.recommend(k=5).select("user", "item"))


def test_a_matrix_that_is_singular_is_refused_in_panels_too(monkeypatch):
    monkeypatch.setattr(dense, "_PANEL", 2)
    monkeypatch.setattr(dense, "_DIRECT", 0)
    twins = pr.Interactions.from_columns(np.repeat(np.arange(9), 3), np.tile([0, 1, 2], 9))
    with pytest.raises(ConfigError, match="raise regularization"):
        EASE(regularization=1e-9).fit(twins)


def test_what_a_fit_takes_is_what_it_says(monkeypatch):
    monkeypatch.setattr(dense, "_DIRECT", 0)
    rng = np.random.default_rng(0)
    n = 5000
    data = pr.Interactions.from_columns(
        np.repeat(np.arange(n), 4), np.append(np.arange(n), rng.integers(0, n, 3 * n))
    )
    EASE().fit(log())  # imports
    peak = Peak()
    EASE().fit(data)
    assert not peak.own or peak.mb - peak.before_mb < 1.05 * dense.needed_bytes(n) / 2**20 + 10


def test_too_many_items_are_refused_in_words():
    with pytest.raises(
        DataError, match=r"needs \d+ MB for 25 items, and memory_mb is 0.*--set memory_mb=1, .*use ials"
    ):
        EASE(memory_mb=1e-3).fit(log())


def test_too_little_free_memory_is_refused_before_anything_is_done(monkeypatch):
    monkeypatch.setattr(memory, "available_mb", lambda: 0.1)
    monkeypatch.setattr(dense, "products", None)
    with pytest.raises(
        DataError, match=r"ease needs \d+ MB for 25 items, and 0 MB of memory are free here: make room"
    ):
        EASE().fit(log())
    monkeypatch.undo()
    monkeypatch.setattr(memory, "available_mb", lambda: None)  # a system that does not tell
    EASE().fit(log())


def test_too_little_regularization_is_refused_in_words():
    twins = pr.Interactions.from_columns(np.repeat(np.arange(9), 3), np.tile([0, 1, 2], 9))
    with pytest.raises(ConfigError, match="raise regularization"):
        EASE(regularization=1e-9).fit(twins)


def test_somebody_without_positives_gets_popular_items():
    data = pr.Interactions.from_columns([0, 0, 1, 2], [0, 1, 1, 2], rating=[5, 5, 5, 1], positive_rating=4)
    np.testing.assert_array_equal(EASE().fit(data).score([2])[0], data.positives.item_counts)


def test_the_row_of_ml_100k(ml_100k):
    parts = pr.split(ml_100k, "u1", valid=False)
    found = pr.evaluate(EASE(regularization=500).fit(parts.train), parts).metrics
    assert [round(found[name], 4) for name in ("P@5", "NDCG@5", "MAP", "MRR")] == [0.4167, 0.4572, 0.2837, 0.6835]


def test_data_without_positives_is_refused_in_words():
    data = pr.Interactions.from_columns([0, 1], [0, 1], rating=[1, 2], positive_rating=4)
    with pytest.raises(DataError, match="lower the rating"):
        EASE().fit(data)
