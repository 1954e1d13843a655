"""Co-clustering against the same sums over a full matrix of targets and weights."""

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard
from purerec.models.coclustering import ClusteringProblem, CoClustering, _fill_empty
from purerec.models.families.ratings import Targets


class Dense:
    """The method on full matrices: targets and weights of all pairs."""

    def __init__(self, target, weight, clusters):
        self.target, self.weight, self.clusters = target, weight, clusters
        total = (weight * target).sum()
        self.mean = total / weight.sum()
        self.user_mean = (weight * target).sum(1) / weight.sum(1)
        self.item_mean = (weight * target).sum(0) / weight.sum(0)

    def average(self, mask):
        w = self.weight * mask
        return (w * self.target).sum() / w.sum() if w.sum() > 1e-9 else self.mean

    def predicted(self, user, item):
        by_user = [self.average((user == g)[:, None]) for g in range(self.clusters[0])]
        by_item = [self.average((item == h)[None, :]) for h in range(self.clusters[1])]
        found = np.empty(self.target.shape)
        for u in range(len(user)):
            for i in range(len(item)):
                block = self.average((user == user[u])[:, None] * (item == item[i]))
                found[u, i] = block + self.user_mean[u] - by_user[user[u]] + self.item_mean[i] - by_item[item[i]]
        return found

    def error(self, user, item):
        return float((self.weight * (self.target - self.predicted(user, item)) ** 2).sum())


def problem(seed, clusters, *, background):
    rng = np.random.default_rng(seed)
    shape = 11, 8
    known = rng.random(shape) < 0.4
    known[:, 0] = known[0] = True
    user, item = np.nonzero(known)
    value = rng.integers(0, 2, len(user)) if background else rng.integers(1, 6, len(user))
    weight = rng.random(shape[0]) if background else np.zeros(shape[0])
    full = np.zeros(shape)
    full[user, item] = value
    targets = Targets(user.astype(np.int32), item.astype(np.int32), value.astype(np.float32))
    weights = np.where(known, 1.0, weight[:, None])
    return ClusteringProblem(targets, weight, shape, clusters), Dense(full, weights, clusters), rng


@pytest.mark.parametrize("background", [True, False], ids=["weighted zeros", "ratings"])
def test_averages_and_objective_are_those_of_the_full_matrix(background):
    for seed in range(5):
        fast, full, rng = problem(seed, (3, 4), background=background)
        user, item = rng.integers(0, 3, 11).astype(np.int32), rng.integers(0, 4, 8).astype(np.int32)
        np.testing.assert_allclose(fast.user_mean, full.user_mean)
        np.testing.assert_allclose(fast.item_mean, full.item_mean)
        assert fast.error(user, item, fast.averages(user, item)) == pytest.approx(full.error(user, item))


@pytest.mark.parametrize("background", [True, False], ids=["weighted zeros", "ratings"])
def test_rows_move_to_the_cluster_that_predicts_them_best(background):
    fast, full, rng = problem(1, (3, 4), background=background)
    user, item = rng.integers(0, 3, 11).astype(np.int32), rng.integers(0, 4, 8).astype(np.int32)
    found = fast.averages(user, item)
    by_pair = found.block - found.user[:, None] - found.item

    def errors(of_user, of_item):
        guess = by_pair[of_user[:, None], of_item] + full.user_mean[:, None] + full.item_mean
        return full.weight * (full.target - guess) ** 2

    best = np.argmin([errors(np.full(11, g), item).sum(1) for g in range(3)], axis=0)
    moved = fast.move_users(item, found)
    assert len(np.unique(best)) == 3  # no cluster had to be filled
    np.testing.assert_array_equal(moved, best)
    best = np.argmin([errors(user, np.full(8, h)).sum(0) for h in range(4)], axis=0)
    if len(np.unique(best)) == 4:
        np.testing.assert_array_equal(fast.move_items(user, found), best)


def test_scores_are_the_predictions():
    data = checkerboard()
    model = CoClustering(user_clusters=3, item_clusters=2, unlabeled_ratio=1.5).fit(data)
    liked = np.zeros(data.shape)
    liked[data.positives.users, data.positives.indices] = 1
    counts = liked.sum(axis=1, keepdims=True)
    weight = np.where(liked > 0, 1, 1.5 * counts / (data.n_items - counts))
    expected = Dense(liked, weight, (3, 2)).predicted(model.learned["user_cluster"], model.learned["item_cluster"])
    np.testing.assert_allclose(model.score(np.arange(data.n_users)), expected, atol=1e-5)


def test_two_tastes_are_found():
    model = CoClustering(user_clusters=2, item_clusters=2).fit(checkerboard())
    user, item = model.learned["user_cluster"], model.learned["item_cluster"]
    assert len(set(user[::2])) == len(set(user[1::2])) == len(set(item[::2])) == len(set(item[1::2])) == 1
    assert user[0] != user[1]


def test_more_restarts_are_never_worse():
    rng = np.random.default_rng(5)
    data = pr.Interactions.from_columns(rng.integers(0, 40, 400), rng.integers(0, 30, 400))

    def error(restarts):
        model = CoClustering(user_clusters=4, item_clusters=4, restarts=restarts, epochs=3).fit(data, seed=0)
        weight = 16.0 * data.positives.counts / (30 - data.positives.counts)
        known = Targets(data.positives.users, data.positives.indices, np.ones(data.n_positives, np.float32))
        task = ClusteringProblem(known, weight, data.shape, (4, 4))
        clusters = model.learned["user_cluster"], model.learned["item_cluster"]
        return task.error(*clusters, task.averages(*clusters))

    errors = [error(restarts) for restarts in (1, 3, 10)]
    assert errors[0] >= errors[1] >= errors[2]


def test_the_best_on_the_way_is_kept():
    fast, _, _ = problem(2, (3, 3), background=True)
    found = [fast.descend(epochs, np.random.default_rng(0))[0] for epochs in range(6)]
    assert (np.diff(found) <= 1e-12).all()


def test_an_empty_cluster_takes_the_row_that_fits_worst():
    cluster = np.array([0, 0, 0, 2, 2, 0], dtype=np.int32)
    _fill_empty(cluster, np.array([1.0, 5.0, 2.0, 9.0, 1.0, 0.0]), 4)
    np.testing.assert_array_equal(cluster, [0, 3, 0, 1, 2, 0])
    lonely = np.array([0, 1], dtype=np.int32)
    _fill_empty(lonely, np.array([3.0, 3.0]), 5)  # more clusters than rows
    np.testing.assert_array_equal(lonely, [0, 1])


def test_more_clusters_than_rows_are_no_trouble():
    data = pr.Interactions.from_columns([0, 0, 1], [0, 1, 2], rating=[5, 3, 1])
    for target in ("binary", "rating"):
        model = CoClustering(target=target, user_clusters=9, item_clusters=9).fit(data)
        assert np.isfinite(model.score([0, 1])).all()


def test_a_new_person_joins_the_cluster_that_predicts_them_best():
    model = CoClustering(user_clusters=2, item_clusters=2).fit(checkerboard())
    like_0 = model.score_history(np.arange(2, 20, 2, dtype=np.int32)) - model.score([0])[0]
    np.testing.assert_allclose(like_0, like_0.mean(), atol=1e-5)  # up to a constant, which ranks nothing
