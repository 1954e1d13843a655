"""Ranks and lists against a full sort, and the guarantees about ties, blocks and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerec.data.pairs import Csr
from purerec.errors import ConfigError, DataError, ScoreError
from purerec.ranking import ranks as ranking
from purerec.ranking import scorers
from purerec.ranking.rank_counts import MANY
from purerec.ranking.ranks import ranks, tie_order, top_k, top_k_of_row
from purerec.ranking.scorers import Factors
from ranking.known_scores import Product, Table, as_dict, full_sort, random_pairs, ranks_by_sorting


def random_factors(
    rng: np.random.Generator, n_users: int, n_items: int, dim: int, *, whole: bool, bias: bool = True
) -> Factors:
    def draw(*shape: int) -> np.ndarray:
        values = rng.integers(-2, 3, size=shape) if whole else rng.normal(size=shape)
        return values.astype(np.float32)

    return Factors(draw(n_users, dim), draw(n_items, dim), draw(n_items) if bias else None)


def empty_pairs(n_users: int, n_items: int) -> Csr:
    return Csr.of([], [], (n_users, n_items))


SIZES = [(1, 1, 1), (7, 64, 3), (5, 65, 4), (70, 300, 5), (66, 1024, 1), (9, 2500, 8)]


@pytest.mark.parametrize(("n_users", "n_items", "dim"), SIZES)
@pytest.mark.parametrize("share", [0.03, 0.4])
def test_counting_equals_sorting(n_users: int, n_items: int, dim: int, share: float) -> None:
    rng = np.random.default_rng(n_items)
    product = Product(random_factors(rng, n_users, n_items, dim, whole=True))
    positives = random_pairs(rng, n_users, n_items, share)
    excluded = random_pairs(rng, n_users, n_items, 0.1)
    scores = product.score(np.arange(n_users))
    expected = ranks_by_sorting(scores, positives, excluded, None, seed=3)
    assert as_dict(ranks(product, positives, excluded=excluded, seed=3)) == expected
    assert as_dict(ranks(Table(scores), positives, excluded=excluded, seed=3)) == expected


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_counting_equals_sorting_under_ties(data: st.DataObject) -> None:
    n_users, n_items = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 90))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    scores = rng.integers(0, data.draw(st.integers(1, 5)), size=(n_users, n_items)).astype(np.float32)
    positives = random_pairs(rng, n_users, n_items, data.draw(st.sampled_from([0.0, 0.1, 0.7, 1.0])))
    others = random_pairs(rng, n_users, n_items, data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    seed = data.draw(st.integers(0, 5))
    found = ranks(Table(scores), positives, excluded=others, seed=seed, threads=1)
    assert as_dict(found) == ranks_by_sorting(scores, positives, others, None, seed)
    identity = Product(Factors(scores, np.eye(n_items, dtype=np.float32)))
    assert as_dict(ranks(identity, positives, excluded=others, seed=seed, threads=1)) == as_dict(found)
    k = data.draw(st.integers(1, 100))
    lists = top_k(Table(scores), np.arange(n_users), k, excluded=others, seed=seed, threads=1)
    for user in range(n_users):
        candidates = np.setdiff1d(np.arange(n_items), others.row(user))
        best = full_sort(scores, user, candidates, seed)[:k]
        assert lists.items[user, : len(best)].tolist() == best.tolist()
        assert lists.scores[user, : len(best)].tolist() == scores[user, best].tolist()
        assert (lists.items[user, len(best) :] == -1).all()
        assert np.isneginf(lists.scores[user, len(best) :]).all()


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_ranks_in_a_pool(share: float) -> None:
    rng = np.random.default_rng(5)
    n_users, n_items = 40, 900
    product = Product(random_factors(rng, n_users, n_items, 6, whole=True))
    positives = random_pairs(rng, n_users, n_items, share)
    drawn = rng.random((n_users, n_items)) < 0.2
    drawn[positives.users, positives.indices] = False
    pool = Csr.of(*np.nonzero(drawn), (n_users, n_items))
    scores = product.score(np.arange(n_users))
    expected = ranks_by_sorting(scores, positives, None, pool, seed=0)
    assert as_dict(ranks(product, positives, pool=pool)) == expected
    assert as_dict(ranks(Table(scores), positives, pool=pool)) == expected


def test_known_answer() -> None:
    scores = np.array([[9, 8, 7, 6, 5, 4], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]], dtype=np.float32)
    positives = Csr.of([0, 0, 1], [2, 5, 0], (3, 6))
    excluded = Csr.of([0, 0, 1], [0, 4, 5], (3, 6))
    found = ranks(Table(scores), positives, excluded=excluded)
    assert found.user_idx.tolist() == [0, 1]
    assert found.indptr.tolist() == [0, 2, 3]
    assert found.values.tolist() == [2, 4, 5]
    lists = top_k(Table(scores), [2, 0], 2, excluded=excluded)
    assert lists.items.tolist() == [[5, 4], [1, 2]]
    assert lists.scores.tolist() == [[6, 5], [8, 7]]


def test_many_users_with_many_positives() -> None:
    """Both sides of the switch between comparing and binary search, in one call."""
    rng = np.random.default_rng(8)
    n_items = 4 * MANY
    product = Product(random_factors(rng, 8, n_items, 3, whole=True))
    dense = np.zeros((8, n_items), dtype=bool)
    for user, n in enumerate([1, MANY - 1, MANY, MANY + 1, n_items, 0, 2, n_items - 1]):
        dense[user, rng.choice(n_items, n, replace=False)] = True
    positives = Csr.of(*np.nonzero(dense), dense.shape)
    expected = ranks_by_sorting(product.score(np.arange(8)), positives, None, None, seed=1)
    assert as_dict(ranks(product, positives, seed=1)) == expected
    assert as_dict(ranks(Table(product.score(np.arange(8))), positives, seed=1)) == expected


def test_constant_scorer_is_a_random_ranking() -> None:
    """With one positive per user, its rank is uniform; a perfect or worst ranking would show immediately."""
    n_users, n_items = 400, 101
    positives = Csr.of(np.arange(n_users), np.arange(n_users) % n_items, (n_users, n_items))
    for model in (
        Table(np.full((n_users, n_items), 2.5, dtype=np.float32)),
        Product(Factors(np.ones((n_users, 2), dtype=np.float32), np.ones((n_items, 2), dtype=np.float32))),
    ):
        mean = np.mean([ranks(model, positives, seed=seed).values.mean() for seed in range(5)])
        assert abs(mean - (n_items + 1) / 2) < 2
        found = ranks(model, positives, seed=0).values[:n_items]
        assert sorted(found.tolist()) == list(range(1, n_items + 1))


def test_tie_order_depends_on_the_seed_only() -> None:
    assert np.array_equal(tie_order(50, 1), tie_order(50, 1))
    assert not np.array_equal(tie_order(50, 1), tie_order(50, 2))
    assert sorted(tie_order(50, 1).tolist()) == list(range(50))


@pytest.mark.parametrize("kind", ["product", "table"])
def test_memory_and_threads_change_nothing(kind: str) -> None:
    rng = np.random.default_rng(11)
    n_users, n_items = 130, 5000
    product = Product(random_factors(rng, n_users, n_items, 7, whole=False))
    model = product if kind == "product" else Table(product.score(np.arange(n_users)))
    positives = random_pairs(rng, n_users, n_items, 0.01)
    excluded = random_pairs(rng, n_users, n_items, 0.05)
    expected = ranks(model, positives, excluded=excluded, threads=1)
    lists = top_k(model, np.arange(n_users), 20, excluded=excluded, threads=1)
    for memory_mb in (1.5, 256) if kind == "table" else (0.1, 0.2, 256):
        for threads in (1, 2, 3):
            limits: dict[str, Any] = {"memory_mb": memory_mb, "threads": threads}
            found = ranks(model, positives, excluded=excluded, **limits)
            assert np.array_equal(found.values, expected.values)
            again = top_k(model, np.arange(n_users), 20, excluded=excluded, **limits)
            assert np.array_equal(again.items, lists.items)
            assert np.array_equal(again.scores, lists.scores)
    if isinstance(model, Table):
        assert set(model.asked) == {64, 2}


def test_few_users_get_the_lists_of_many() -> None:
    """The shortcut for single requests gives the same bits as the tiled code."""
    rng = np.random.default_rng(4)
    model = Product(random_factors(rng, 40, 3000, 13, whole=False))
    lists = top_k(model, np.arange(40), 15)
    for user in (0, 3, 39):
        one = top_k(model, user, 15)
        assert np.array_equal(one.items[0], lists.items[user])
        assert np.array_equal(one.scores[0], lists.scores[user])
    assert np.allclose(lists.scores[:, 0], model.score(np.arange(40)).max(axis=1), rtol=1e-5)


def test_candidates_restrict_lists() -> None:
    rng = np.random.default_rng(2)
    model = Product(random_factors(rng, 30, 500, 4, whole=True))
    excluded = random_pairs(rng, 30, 500, 0.3)
    candidates = rng.choice(500, 90, replace=False)
    scores = model.score(np.arange(30))
    for source in (model, Table(scores)):
        lists = top_k(source, np.arange(30), 10, excluded=excluded, candidates=candidates, seed=6)
        for user in range(30):
            allowed = np.setdiff1d(candidates, excluded.row(user))
            assert lists.items[user].tolist() == full_sort(scores, user, allowed, 6)[:10].tolist()
    none = top_k(model, [1], 3, candidates=[])
    assert none.items.tolist() == [[-1, -1, -1]]


def test_a_list_of_given_scores() -> None:
    scores = np.array([1, 3, 2], dtype=np.float32)
    assert top_k_of_row(scores, 2, excluded=[1]).items.tolist() == [[2, 0]]
    assert top_k_of_row(scores, 2, candidates=[0]).items.tolist() == [[0, -1]]
    with pytest.raises(ScoreError, match=r"my model gave a NaN or infinite score; .* lower the learning rate"):
        top_k_of_row(np.array([1.0, np.nan], dtype=np.float32), 1, name="my model")
    with pytest.raises(ScoreError, match="those of one person"):
        top_k_of_row(scores[None], 1)


@pytest.mark.parametrize("most", [1, 9, 10**6])
@pytest.mark.parametrize("k", [1, 7, 60, 2000])
def test_a_list_of_given_scores_is_that_of_a_table(k: int, most: int) -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, most, (20, 900)).astype(np.float32)  # all tied, many, hardly any
    excluded = random_pairs(rng, 20, 900, 0.3)
    candidates = rng.choice(900, 400, replace=False)
    for asked in (None, candidates):
        lists = top_k(Table(scores), np.arange(20), k, excluded=excluded, candidates=asked, seed=4)
        for user, row in enumerate(scores):
            found = top_k_of_row(row, k, excluded=excluded.row(user), candidates=asked, seed=4)
            assert found.items[0].tolist() == lists.items[user].tolist()
            assert found.scores[0].tolist() == lists.scores[user].tolist()


def test_users_left_without_candidates_or_positives() -> None:
    scores = np.arange(12, dtype=np.float32).reshape(3, 4)
    positives = Csr.of([0, 1, 1], [1, 0, 3], (3, 4))
    everything = Csr.of(np.repeat(0, 4), np.arange(4), (3, 4))
    found = ranks(Table(scores), positives, excluded=everything)
    assert as_dict(found) == {1: [1, 4]}
    assert top_k(Table(scores), [0], 2, excluded=everything).items.tolist() == [[-1, -1]]
    nothing = ranks(Table(scores), empty_pairs(3, 4))
    assert nothing.indptr.tolist() == [0]
    assert len(nothing.values) == 0
    assert top_k(Table(scores), [], 2).items.shape == (0, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_cannot_be_ranked(bad: float) -> None:
    scores = np.ones((70, 8), dtype=np.float32)
    scores[66, 3] = bad
    positives = Csr.of(np.arange(70), np.zeros(70, dtype=int), (70, 8))
    for threads in (1, 2):
        with pytest.raises(ScoreError, match="table gave a NaN or infinite score for user index 66"):
            ranks(Table(scores), positives, threads=threads)
        with pytest.raises(ScoreError, match=r"table .* user index 66"):
            top_k(Table(scores), np.arange(70), 3, threads=threads)
    items = np.ones((8, 1), dtype=np.float32)
    with pytest.raises(ScoreError, match="product has a NaN or infinite factor for user index 66"):
        ranks(Product(Factors(scores[:, 3:4], items)), positives)
    items[5] = bad
    with pytest.raises(ScoreError, match="item index 5"):
        top_k(Product(Factors(scores[:, :1], items)), np.arange(70), 3)


def test_products_that_overflow() -> None:
    """Finite factors with an infinite product: found even when it is neither a positive nor excluded."""
    users = np.ones((70, 2), dtype=np.float32)
    users[67] = 3e30
    items = np.ones((9, 2), dtype=np.float32)
    items[4] = 1e20
    model = Product(Factors(users, items))
    positives = Csr.of(np.arange(70), np.zeros(70, dtype=int), (70, 9))
    for call in (
        lambda: ranks(model, positives),
        lambda: ranks(model, Csr.of([67], [4], (70, 9))),
        lambda: ranks(model, positives, pool=Csr.of([67], [4], (70, 9))),
        lambda: top_k(model, np.arange(70), 2),
        lambda: top_k(model, [67], 2),
    ):
        with pytest.raises(ScoreError, match="user index 67"):
            call()
    users[67] = 3e17
    assert ranks(model, positives).values.min() >= 2  # item 4 is before all others


def test_wrong_shapes_and_settings_are_refused() -> None:
    model = Table(np.ones((3, 4), dtype=np.float32))
    positives = Csr.of([0], [1], (3, 4))
    with pytest.raises(ScoreError, match="shape"):
        ranks(model, Csr.of([0], [1], (3, 5)))
    with pytest.raises(ScoreError, match="factors of the shapes"):
        ranks(Product(Factors(np.ones((3, 2), np.float32), np.ones((4, 3), np.float32))), positives)
    with pytest.raises(DataError, match="do not belong"):
        ranks(model, positives, excluded=Csr.of([0], [1], (3, 5)))
    with pytest.raises(ConfigError, match="either excluded or pool"):
        ranks(model, positives, excluded=positives, pool=positives)
    with pytest.raises(ConfigError, match="memory_mb=1e-06 is too little"):
        ranks(model, positives, memory_mb=1e-6)
    with pytest.raises(ConfigError, match="too little"):
        ranks(Product(random_factors(np.random.default_rng(0), 3, 4, 2, whole=True)), positives, memory_mb=0.001)
    with pytest.raises(ConfigError, match="threads"):
        ranks(model, positives, threads=0)
    for k in (0, -1, 2.5, True):
        with pytest.raises(ConfigError, match="k must be a whole number"):
            top_k(model, [0], k)  # type: ignore[arg-type]
    for users in ([-1], [3]):
        with pytest.raises(DataError, match="user indices must be from 0 to 2"):
            top_k(model, users, 1, excluded=positives)
    with pytest.raises(DataError, match="item indices must be from 0 to 3"):
        top_k(model, [0], 1, candidates=[4])


def test_generic_panels_shrink_with_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorers, "_PANEL_SCORES", 40)
    model = Table(np.random.default_rng(0).normal(size=(25, 5)).astype(np.float32))
    ranks(model, Csr.of(np.arange(25), np.arange(25) % 5, (25, 5)))
    assert model.asked == [8, 8, 8, 1]


def test_read_only_and_foreign_arrays_are_fine() -> None:
    scores = np.asfortranarray(np.random.default_rng(0).normal(size=(6, 30)))
    scores.flags.writeable = False
    positives = Csr.of(np.arange(6), np.arange(6), (6, 30))
    wanted = ranks_by_sorting(scores.astype(np.float32), positives, None, None, 0)
    assert as_dict(ranks(Table(scores), positives)) == wanted


def test_one_list_for_all_ranks_like_any_other_list(monkeypatch):
    from purerec.data.pairs import Csr

    rng = np.random.default_rng(4)
    shape = (40, 60)
    positives = Csr.of(rng.integers(0, 40, 200), rng.integers(0, 60, 200), shape)
    excluded = Csr.of(rng.integers(0, 40, 300), rng.integers(0, 60, 300), shape)

    class Popular:
        name = "popular"
        bias = rng.integers(0, 5, 60).astype(np.float32)  # many ties

        def factors(self):
            return Factors(np.zeros((40, 1), np.float32), np.zeros((60, 1), np.float32), self.bias)

        def score(self, user_idx):
            return np.repeat(self.bias[None], len(user_idx), axis=0)

    short = ranking.ranks(Popular(), positives, excluded=excluded, seed=2)
    monkeypatch.setattr(ranking, "_is_one_list", lambda factors: False)
    general = ranking.ranks(Popular(), positives, excluded=excluded, seed=2)
    for name in ("user_idx", "indptr", "values"):
        np.testing.assert_array_equal(getattr(short, name), getattr(general, name))
