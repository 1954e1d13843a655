"""Slope One against its formula, pair by pair."""

import numpy as np
import pytest

import purerec as pr
from purerec.models import slopeone
from purerec.models.slopeone import SlopeOne


def ratings(seed=0, n=120, users=12, items=9):
    rng = np.random.default_rng(seed)
    data = pr.Interactions.from_columns(
        rng.integers(0, users, n), rng.integers(0, items, n), rating=rng.integers(1, 6, n), positive_rating=4
    )
    return data.deduplicate()


def predicted(known, items, prior, shrinkage):
    """known[v] = {item: value}; (n_users, n_items) by the formula."""
    found = np.empty((len(known), items))
    for u, own in enumerate(known):
        for i in range(items):
            above, below = shrinkage * prior[u], float(shrinkage)
            for j, value in own.items():
                both = [v for v in known if i in v and j in v]
                if j != i and both:
                    dev = np.mean([v[i] - v[j] for v in both])
                    above += len(both) * (dev + value)
                    below += len(both)
            found[u, i] = above / below if below else prior[u]
    return found


@pytest.mark.parametrize("memory_mb", [1024, 0], ids=["over items", "over users"])
@pytest.mark.parametrize("shrinkage", [0.0, 5.0])
def test_ratings_by_the_formula(memory_mb, shrinkage):
    data = ratings(n=60)
    model = SlopeOne(target="rating", shrinkage=shrinkage, memory_mb=memory_mb).fit(data)
    known = [{} for _ in range(data.n_users)]
    for u, i, r in zip(data.user_idx, data.item_idx, data.rating, strict=True):
        known[u][int(i)] = float(r)
    prior = [np.mean(list(own.values())) for own in known]
    expected = predicted(known, data.n_items, prior, shrinkage)
    np.testing.assert_allclose(model.score(np.arange(data.n_users)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("memory_mb", [1024, 0], ids=["over items", "over users"])
def test_relevance_by_the_formula(memory_mb):
    data = ratings(seed=1)
    model = SlopeOne(unlabeled_ratio=0.7, shrinkage=3, memory_mb=memory_mb).fit(data, seed=4)
    known = [
        dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        for row in (model.learned.targets[[u]] for u in range(data.n_users))
    ]
    assert {value for own in known for value in own.values()} == {0.0, 1.0}
    expected = predicted(known, data.n_items, np.zeros(data.n_users), 3)
    strangers = [u for u, own in enumerate(known) if not own]
    expected[strangers] = data.positives.item_counts / data.n_users
    np.testing.assert_allclose(model.score(np.arange(data.n_users)), expected, rtol=1e-4, atol=1e-5)


def test_with_every_unlabeled_pair_it_is_popularity():
    rng = np.random.default_rng(3)
    liked = rng.random((30, 12)) < np.linspace(0.1, 0.8, 12)
    user, item = np.indices(liked.shape).reshape(2, -1)
    model = SlopeOne(target="rating").fit(pr.Interactions.from_columns(user, item, rating=liked.ravel().astype(int)))
    scores, counts = model.score(np.arange(30)), liked.sum(axis=0)
    for u in range(30):
        unseen = np.flatnonzero(~liked[u])
        steps = np.diff(scores[u, unseen]) / np.where(np.diff(counts[unseen]) == 0, 1, np.diff(counts[unseen]))
        np.testing.assert_allclose(steps[np.diff(counts[unseen]) != 0], (1 + 1 / 11) / 30, rtol=1e-3)


def test_a_new_person_knows_their_items_and_a_share_of_all_others():
    data = ratings(seed=2)
    model = SlopeOne(unlabeled_ratio=0.5, shrinkage=2).fit(data)
    common, slopes = model.learned.products
    history, weight = np.array([1, 4], np.int32), np.full(data.n_items, 0.5 * 2 / (data.n_items - 2))
    value = np.zeros(data.n_items)
    weight[history] = value[history] = 1
    expected = (weight @ slopes + value @ common) / (weight @ common + 2)
    np.testing.assert_allclose(model.score_history(history), expected, rtol=1e-4)


def test_blocks_change_nothing(monkeypatch):
    data = ratings(n=90)
    pairs = data.user_idx, data.item_idx
    whole = SlopeOne(target="rating").fit(data).predict(*pairs)
    monkeypatch.setattr(slopeone, "_BLOCK", 4)
    np.testing.assert_allclose(SlopeOne(target="rating").fit(data).predict(*pairs), whole, rtol=1e-6)


def test_memory_is_bounded():
    many = pr.Interactions.from_columns(np.repeat(np.arange(50), 20), (np.arange(1000) * 7919) % 20_011)
    model = SlopeOne(memory_mb=1).fit(many)
    assert model.learned.products is None
    assert np.isfinite(model.score([0, 1])).all()
