"""EASE against the closed form in double precision, and against its own objective."""

import numpy as np
import pytest

import purerec as pr
from purerec.data import memory
from purerec.data.memory import Peak
from purerec.engines.closed_form import DenseWeights, SparseWeights, dense
from purerec.errors import ConfigError, DataError, StoreError
from purerec.models import ease
from purerec.models.ease import EASE
from purerec.storage import HEAD, read_folder, write_folder


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
    np.testing.assert_allclose(model.learned.matrix, expected, atol=1e-5)
    np.testing.assert_allclose(model.score(np.arange(data.n_users)), x @ expected, atol=1e-4)
    np.testing.assert_allclose(model.score_history(np.array([3, 7], np.int32)), expected[[3, 7]].sum(0), atol=1e-5)


def test_no_weight_off_the_diagonal_can_be_improved():
    data, regularization = log(seed=1), 5.0
    x = zeros_and_ones(data)
    b = EASE(regularization=regularization).fit(data).learned.matrix.astype(np.float64)
    assert not np.diag(b).any()
    gradient = -2 * x.T @ (x - x @ b) + 2 * regularization * b
    np.fill_diagonal(gradient, 0)
    assert np.abs(gradient).max() < 1e-3


def test_blocks_change_nothing(monkeypatch):
    data = log()
    whole = EASE(regularization=3).fit(data).learned.matrix
    monkeypatch.setattr(dense, "_BLOCK", 7)
    np.testing.assert_array_equal(EASE(regularization=3).fit(data).learned.matrix, whole)


def test_a_fit_in_panels_gives_the_same_lists(monkeypatch):
    data = log()
    whole = EASE(regularization=3).fit(data)
    monkeypatch.setattr(dense, "_PANEL", 7)
    monkeypatch.setattr(dense, "_DIRECT", 0)
    panels = EASE(regularization=3).fit(data)
    np.testing.assert_allclose(panels.learned.matrix, whole.learned.matrix, atol=1e-6)
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
    EASE().fit(log())  # import what it needs
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
    monkeypatch.setattr(memory, "available_mb", lambda: None)  # a system that does not report it
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


# ---------------------------------------------------------------------- few neighbours


def test_only_so_many_items_have_a_weight_for_another():
    model = EASE(neighbors=4, regularization=3).fit(log())
    assert np.count_nonzero([model.learned.row(j) for j in range(25)], axis=0).max() == 4


def test_a_large_catalogue_has_neighborhoods_unless_told_otherwise(monkeypatch):
    data = log()
    monkeypatch.setattr(ease, "_MOST_DENSE", 24)
    monkeypatch.setattr(ease, "_NEIGHBORS", 7)
    found, told = EASE(regularization=3).fit(data), EASE(regularization=3, neighbors=7).fit(data)
    assert isinstance(found.learned, SparseWeights)
    np.testing.assert_array_equal(found.learned.values, told.learned.values)
    assert isinstance(EASE(neighbors=24).fit(data).learned, DenseWeights)
    monkeypatch.setattr(ease, "_MOST_DENSE", 25)
    assert isinstance(EASE().fit(data).learned, DenseWeights)


def test_a_large_catalogue_is_refused_only_with_too_many_neighbors():
    n = 20_000
    data = pr.Interactions.from_columns(np.arange(3 * n) // 3, np.arange(3 * n) // 2 % n)
    assert EASE(memory_mb=100).fit(data).recommend([0], k=1).height == 1
    with pytest.raises(DataError, match=r"ease needs 1,9\d\d MB for 20,000 items, .*set neighbors=200"):
        EASE(neighbors=n, memory_mb=100).fit(data)


@pytest.mark.parametrize("neighbors", [None, 5])
def test_powers_let_the_many_count_less(neighbors):
    data, regularization = log(), 2.0
    x = zeros_and_ones(data)
    n_user, n_item = x.sum(axis=1), x.sum(axis=0)
    w = x * n_user[:, None] ** -0.5 * n_item**-0.25
    model = EASE(regularization=regularization, user_power=0.5, item_power=0.25, neighbors=neighbors).fit(data)
    found = np.array([model.learned.row(j) for j in range(25)])
    b = found * n_item[:, None] ** 0.25 * n_item**-0.25
    slope = -w.T @ (w - w @ b) + regularization * b
    assert np.abs(slope[b != 0]).max() < 1e-4


@pytest.mark.parametrize("settings", [{}, {"neighbors": 6}])
def test_there_and_back(settings, tmp_path):
    data = log()
    model = EASE(**settings).fit(data)
    model.save(tmp_path / "m")
    again = pr.load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.score(np.arange(data.n_users)), model.score(np.arange(data.n_users)))
    assert again.explain(0, 3).because.equals(model.explain(0, 3).because)
    assert again.similar_items(3).equals(model.similar_items(3))


def test_a_folder_from_before_there_were_neighbors(tmp_path, monkeypatch):
    """All weights, whatever the number of items, and a config without the newer settings."""
    model = EASE().fit(log())
    model.save(tmp_path / "m")
    stored = read_folder(tmp_path / "m", kind="model")
    facts = {name: value for name, value in stored.manifest.items() if name not in HEAD}
    facts["config"] = {"regularization": 500.0, "memory_mb": 8192.0}
    write_folder(tmp_path / "old", kind="model", manifest=facts, tensors=stored.tensors)
    monkeypatch.setattr(ease, "_MOST_DENSE", 10)
    again = pr.load_model(tmp_path / "old")
    np.testing.assert_array_equal(again.score([0, 1]), model.score([0, 1]))


def test_a_folder_with_indices_out_of_range_is_refused(tmp_path):
    EASE(neighbors=6).fit(log()).save(tmp_path / "m")
    stored = read_folder(tmp_path / "m", kind="model")
    facts = {name: value for name, value in stored.manifest.items() if name not in HEAD}
    tensors = {name: array.copy() for name, array in stored.tensors.items()}
    tensors["model.weight_items"][-1] = 25
    write_folder(tmp_path / "bad", kind="model", manifest=facts, tensors=tensors)
    with pytest.raises(StoreError, match="weights has indices"):
        pr.load_model(tmp_path / "bad")
