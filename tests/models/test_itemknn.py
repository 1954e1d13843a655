"""ItemKNN against brute force and against implicit."""

import warnings

import numpy as np
import pytest

import purerec as pr
from conftest import need
from purerec.errors import DataError
from purerec.models import itemknn
from purerec.models.itemknn import ItemKNN, neighbors_for


def log(seed=0, n=400, users=40, items=25):
    rng = np.random.default_rng(seed)
    return pr.Interactions.from_columns(rng.integers(0, users, n), (rng.random(n) ** 2 * items).astype(int))


def similarities(data, *, neighbors, shrinkage, person_weight, asymmetry):
    """[i, j]: similarity of item i to its neighbour j, computed item by item."""
    rows = [set(data.positives.row(u).tolist()) for u in range(data.n_users)]
    weight = [np.log((data.n_items + 1) / len(row)) if person_weight == "idf" else 1.0 for row in rows]
    typical = np.sqrt(np.mean([w * w for w, row in zip(weight, rows, strict=True) for _ in row]))
    weight = [w / typical for w in weight]
    found = np.zeros((data.n_items, data.n_items))
    squared = [sum(w * w for w, row in zip(weight, rows, strict=True) if i in row) for i in range(data.n_items)]
    for i in range(data.n_items):
        for j in range(data.n_items):
            dot = sum(w * w for w, row in zip(weight, rows, strict=True) if i in row and j in row)
            if i != j and dot:
                found[i, j] = dot / (squared[i] ** asymmetry * squared[j] ** (1 - asymmetry) + shrinkage)
        found[i, np.argsort(-found[i], kind="stable")[neighbors:]] = 0
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {"neighbors": 25, "shrinkage": 0.0, "person_weight": "equal", "asymmetry": 0.5},
        {"neighbors": 1000, "shrinkage": 7.0, "person_weight": "equal", "asymmetry": 0.5},
        {"neighbors": 25, "shrinkage": 7.0, "person_weight": "idf", "asymmetry": 0.2},
        {"neighbors": 4, "shrinkage": 1.3, "person_weight": "idf", "asymmetry": 0.3},
    ],
)
def test_scores_are_sums_of_similarities(settings):
    data = log()
    model = ItemKNN(**settings).fit(data)
    near = similarities(data, **settings)
    for user in range(data.n_users):
        expected = near[:, data.positives.row(user)].sum(axis=1)
        np.testing.assert_allclose(model.score([user])[0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.score_history(np.array([2, 9], np.int32)), near[:, [2, 9]].sum(1), rtol=1e-4)


def test_blocks_change_nothing(monkeypatch):
    data = log()
    whole = ItemKNN(neighbors=5).fit(data).score(np.arange(data.n_users))
    monkeypatch.setattr(itemknn, "_BLOCK_MB", 1e-3)
    np.testing.assert_array_equal(ItemKNN(neighbors=5).fit(data).score(np.arange(data.n_users)), whole)


def test_only_so_many_neighbours_are_kept():
    data = log()
    near = ItemKNN(neighbors=3).fit(data).learned.near
    assert np.bincount(near.indices, minlength=data.n_items).max() <= 3


def test_similarities_are_those_of_implicit():
    need("implicit")
    data = log(seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from implicit.nearest_neighbours import CosineRecommender

        peer = CosineRecommender(K=data.n_items, num_threads=1)
        peer.fit(data.positives.to_scipy().tocsr().astype(np.float64), show_progress=False)
    theirs = peer.similarity.toarray()
    np.fill_diagonal(theirs, 0)
    ours = ItemKNN(neighbors=1000, shrinkage=0, person_weight="equal", asymmetry=0.5).fit(data).learned.near.toarray()
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_shrinkage_takes_down_what_rests_on_few():
    # Items 0 and 1 are liked together by ten, 2 and 3 by one.
    user = [*range(10), *range(10), 10, 10]
    data = pr.Interactions.from_columns(user, [0] * 10 + [1] * 10 + [2, 3])
    near = ItemKNN(shrinkage=2, person_weight="equal", asymmetry=0.5).fit(data).learned.near.toarray()
    assert near[0, 1] == pytest.approx(10 / 12)
    assert near[2, 3] == pytest.approx(1 / 3)


def test_somebody_without_positives_gets_popular_items():
    data = pr.Interactions.from_columns([0, 0, 1, 2], [0, 1, 1, 2], rating=[5, 5, 5, 1], positive_rating=4)
    np.testing.assert_array_equal(ItemKNN().fit(data).score([2])[0], data.positives.item_counts)


def test_data_without_positives_is_refused_in_words():
    data = pr.Interactions.from_columns([0, 1], [0, 1], rating=[1, 2], positive_rating=4)
    with pytest.raises(DataError, match="lower the rating"):
        ItemKNN().fit(data)


def test_sparser_data_have_more_neighbours():
    """2.5 of the neighbours are liked on average: with a share q of all items liked, 2.5 / q neighbours."""
    rng = np.random.default_rng(0)
    for share, expected in ((0.5, 5), (0.05, 50), (0.001, 1000)):
        liked = rng.random((4000, 2000)) < share
        data = pr.Interactions.from_columns(*np.nonzero(liked))
        assert neighbors_for(data.positives) == pytest.approx(expected, rel=0.05)
