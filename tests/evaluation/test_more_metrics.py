"""AUC, Popularity and ILD: by hand, and against scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import purerec as pr
from purerec.data.pairs import Csr
from purerec.evaluation.metrics import auc, diversity, parse, parse_of_ranks, popularity, serendipity
from ranking.known_scores import Table


def random_split(seed: int) -> pr.Split:
    rng = np.random.default_rng(seed)
    log = pr.Interactions.from_columns(rng.integers(0, 30, 900), rng.integers(0, 50, 900) ** 2 // 50)
    return pr.split(log, "ratio", seed=seed)


def test_auc_by_hand() -> None:
    # Of 5 candidates, positives at ranks 1 and 4: of six pairs, the second positive is behind two others.
    ranks, indptr = np.array([1, 4, 1, 2]), np.array([0, 2, 4])
    assert auc(ranks, indptr, np.array([5, 5])).tolist() == pytest.approx([4 / 6, 1.0])
    assert auc(np.array([1, 2]), np.array([0, 2]), np.array([2])).tolist() == [0.5]  # nothing to distinguish
    assert parse_of_ranks("AUC").name == "AUC"


@pytest.mark.parametrize("protocol", ["exact", "sampled"])
def test_auc_is_the_statistic_of_mann_and_whitney(protocol: Any) -> None:
    from scipy.stats import mannwhitneyu

    from purerec.evaluation.protocols import draw_pools

    split = random_split(1)
    scores = np.random.default_rng(2).normal(size=split.train.shape).astype(np.float32)
    found = pr.evaluate(Table(scores), split, metrics="AUC", protocol=protocol, pool=12)
    known, relevant = split.full_train.positives, split.test.positives
    pools = draw_pools(split, relevant, 12, 0)
    for user, value in zip(found.user_idx, found.per_user["AUC"], strict=True):
        ranked = np.zeros(split.train.n_items, dtype=bool)
        ranked[pools.row(user) if protocol == "sampled" else slice(None)] = True
        ranked[known.row(user)] = False
        ranked[relevant.row(user)] = True
        truth = np.isin(np.arange(split.train.n_items), relevant.row(user))
        mine, others = scores[user][ranked & truth], scores[user][ranked & ~truth]
        assert value == pytest.approx(mannwhitneyu(mine, others).statistic / (len(mine) * len(others)))


def test_popularity_is_the_mean_percentile() -> None:
    from scipy.stats import percentileofscore

    rng = np.random.default_rng(0)
    counts = rng.integers(0, 6, 40)
    lists = np.array([rng.permutation(40)[:5] for _ in range(7)])
    lists[3, 2:] = -1
    lists[4] = -1
    percentile = [percentileofscore(counts, count, kind="mean") / 100 for count in counts]
    expected = [np.mean([percentile[i] for i in row if i >= 0]) if row[0] >= 0 else 0 for row in lists]
    assert popularity(lists, counts).tolist() == pytest.approx(expected)
    assert popularity(np.arange(40)[None, :], counts).tolist() == pytest.approx([0.5])


def test_diversity_by_hand() -> None:
    # Items 0 and 1 have the same two users, item 2 shares one of its two with them, item 3 has nobody.
    train = Csr.of([0, 1, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2], (3, 4))
    lists = np.array([[0, 1, -1], [0, 1, 2], [3, 0, -1], [0, -1, -1], [-1, -1, -1]])
    assert diversity(lists, train).tolist() == pytest.approx([0, (0 + 0.5 + 0.5) / 3, 1, 0, 0])


def test_diversity_is_that_of_cosine_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.spatial.distance import pdist

    monkeypatch.setattr("purerec.evaluation.metrics._PAIRS_AT_ONCE", 7)
    train = random_split(3).train.positives
    dense = train.to_scipy().toarray().T
    listed = np.flatnonzero(train.item_counts)
    lists = np.array([np.random.default_rng(n).permutation(listed)[:6] for n in range(9)])
    assert diversity(lists, train).tolist() == pytest.approx([pdist(dense[row], "cosine").mean() for row in lists])


def test_in_an_evaluation() -> None:
    split = random_split(4)
    popular = pr.evaluate(pr.ItemPop().fit(split.full_train), split, metrics="Popularity@5,ILD@5,AUC,Novelty@5")
    noise = Table(np.random.default_rng(0).normal(size=split.train.shape))
    random = pr.evaluate(noise, split, metrics="Popularity@5,AUC")
    assert popular.metrics["Popularity@5"] > 0.7 > random.metrics["Popularity@5"]
    truth = Table(split.test.positives.to_scipy().toarray())
    assert pr.evaluate(truth, split, metrics="AUC").metrics["AUC"] == 1
    assert 0.4 < random.metrics["AUC"] < 0.6
    assert 0 < popular.metrics["ILD@5"] < 1
    assert parse("ILD@5").needs_lists


def test_serendipity_by_hand() -> None:
    lists, popular = np.array([[4, 5, 6], [1, 2, -1]]), np.array([[5, 7, 8], [0, 3, 9]])
    relevant = np.array([[True, True, False], [False, True, False]])
    # Of the first user's two hits, item 5 is popular.
    assert serendipity(lists, popular, relevant).tolist() == pytest.approx([1 / 3, 1 / 3])


def test_serendipity_counts_hits_that_popularity_has_not() -> None:
    split = random_split(3)
    scores = np.random.default_rng(2).normal(size=split.train.shape).astype(np.float32)
    # Popular items are never serendipitous; popularity is that of the train part alone.
    assert pr.evaluate(pr.ItemPop().fit(split.train), split, metrics="Serendipity@5").metrics["Serendipity@5"] == 0
    found = pr.evaluate(Table(scores), split, metrics=["Serendipity@5", "P@5"])
    assert 0 < found.metrics["Serendipity@5"] < found.metrics["P@5"]
    known, relevant = split.full_train.positives, split.test.positives
    for user, value in zip(found.user_idx, found.per_user["Serendipity@5"], strict=True):
        free = np.setdiff1d(np.arange(split.train.n_items), known.row(user))
        mine = free[np.argsort(-scores[user, free])][:5]
        hits = np.intersect1d(mine, relevant.row(user))
        assert value <= len(hits) / 5
        counts = split.train.positives.item_counts
        sure = [i for i in hits if counts[i] < np.sort(counts[free])[-5]]  # never among the five, whatever the ties
        assert value >= len(sure) / 5
