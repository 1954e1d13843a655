"""Lists of every model against a full sort of its scores; blocks, candidates."""

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT
from models.contract.small import N_ITEMS, N_USERS
from purerec.errors import ConfigError, DataError
from purerec.models.registry import REGISTRY, make_model
from purerec.ranking.ranks import tie_order

every_model = pytest.mark.parametrize("name", REGISTRY)


def best(scores, allowed, k):
    """The k best of the allowed items by a full sort under the tie rule, without any of `purerec.ranking.ranks`."""
    place = np.argsort(tie_order(len(scores), 0))
    order = [i for i in np.lexsort((place, -scores)) if allowed[i]]
    return order[:k]


def check_order(model, scores, items, wanted):
    """The same items up to rounding: lists come from factors, scores from a matrix product."""
    found = model.items.indices(items)
    assert len(found) == len(wanted)
    np.testing.assert_allclose(scores[found], scores[np.array(wanted, dtype=int)], rtol=1e-4, atol=1e-4)
    assert len(set(items)) == len(items)


@every_model
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_lists_are_a_full_sort_of_the_scores(name, fitted, exclude_seen):
    model = fitted(name)
    only, never = [f"i{i:02}" for i in range(20)], ["i03", "i04", "nothing of ours"]
    found = model.recommend(k=7, exclude_seen=exclude_seen, items=only, exclude=never)
    scores = model.score(np.arange(len(model.users)))
    for user, part in found.group_by("user", maintain_order=True):
        u = model.users.index(user[0])
        allowed = np.zeros(N_ITEMS, bool)
        allowed[model.items.indices(only)] = True
        allowed[model.items.indices(never[:2])] = False
        if exclude_seen:
            allowed[model.seen.row(u)] = False
        check_order(model, scores[u], part["item"].to_list(), best(scores[u], allowed, 7))
        assert part["rank"].to_list() == list(range(1, len(part) + 1))
        assert part["score"].is_sorted(descending=True)
    assert found["user"].n_unique() == len(model.users)
    assert found["score"].is_finite().all()
    assert found.columns == ["user", "item", "label", "score", "rank"]


@every_model
def test_repeated_items_of_a_history_count_once(name, fitted):
    model = fitted(name)
    once, again = [2, 5, 6], [6, 2, 6, 5, 2]
    np.testing.assert_array_equal(model.score_history(again), model.score_history(once))
    np.testing.assert_array_equal(model.top_for_history(again, 9).scores, model.top_for_history(once, 9).scores)
    np.testing.assert_array_equal(model.fold_in(again), model.fold_in(once))
    for found, expected in zip(*(model.reasons_for_history(own, [8, 9]) for own in (again, once)), strict=True):
        assert (found.score, found.lift, found.rest) == (expected.score, expected.lift, expected.rest)
        assert found.shares.equals(expected.shares)
        assert found.text == expected.text


@every_model
def test_new_people_are_a_full_sort_of_their_scores(name, fitted):
    model = fitted(name)
    history = ["i01", "i05", "i06", "i05"]
    known = np.unique(model.items.indices(history))
    scores = model.score_history(known)
    found = model.recommend_for(history, k=5, exclude=["i02"])
    allowed = np.ones(N_ITEMS, bool)
    allowed[known] = allowed[model.items.index("i02")] = False
    check_order(model, scores, found["item"].to_list(), best(scores, allowed, 5))
    assert model.recommend_for(history, k=3, items=["i01", "i07"], exclude_seen=False).height == 2
    assert model.recommend_for(history, k=3, items=["i01"]).is_empty()
    with pytest.warns(UserWarning, match="'unheard of'"):
        assert len(model.recommend_for(["unheard of", "i01"], k=3)) == 3


@every_model
def test_nothing_known_gives_popularity(name, fitted):
    model = fitted(name)
    counts = model.popularity()
    found = model.items.indices(model.recommend_for([], k=N_ITEMS)["item"])
    assert (np.diff(counts[found]) <= 0).all()


@every_model
def test_similar_items(name, fitted):
    model = fitted(name)
    found = model.similar_items("i03", k=6)
    assert found["rank"].to_list() == [1, 2, 3, 4, 5, 6]
    assert "i03" not in found["item"].to_list()
    assert found["score"].is_sorted(descending=True)
    assert found["score"].is_finite().all()
    with pytest.raises(DataError, match="'i99'"):
        model.similar_items("i99")


def test_similar_items_by_vectors_and_by_weights(fitted):
    vectors = fitted("bpr").factors().items.astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    liked = fitted("bpr").popularity()
    near = vectors @ vectors[5]
    near = np.where(near > 0, near * liked / (liked + 50), near)
    near[5] = -2
    top = fitted("bpr").top_similar(5, 3)
    np.testing.assert_array_equal(top.items[0], np.argsort(-near)[:3])
    np.testing.assert_allclose(top.scores[0], np.sort(near)[::-1][:3], atol=1e-5)
    weights = fitted("ease").learned.row(5)
    assert fitted("ease").top_similar(5, 1).items[0, 0] == np.argmax(np.where(np.arange(N_ITEMS) == 5, -9, weights))


def test_similar_items_by_people(fitted, log):
    x = np.zeros((N_USERS, N_ITEMS))
    x[log.user_idx, log.item_idx] = 1
    near = x.T @ x[:, 4] / np.sqrt(x.sum(0) * x[:, 4].sum()) * x.sum(0) / (x.sum(0) + 50)
    top = fitted("itempop").top_similar(4, N_ITEMS)
    np.testing.assert_allclose(np.sort(top.scores[0])[::-1], np.sort(np.delete(near, 4))[::-1], atol=1e-6)


@pytest.mark.parametrize("name", ["bpr", "ease", "itempop", "slopeone"])
def test_blocks_are_the_whole(name, fitted):
    model = fitted(name)
    whole = model.recommend(k=4, exclude=["i02"])
    for size in (1, 7, 100):
        parts = list(model.recommend_blocks(k=4, exclude=["i02"], block_users=size))
        assert len(parts) == -(-N_USERS // size)
        assert pl.concat(parts).equals(whole)
    some = model.recommend(["u3", "u1", "u3"], k=2)
    assert some["user"].to_list() == ["u3", "u3", "u1", "u1", "u3", "u3"]
    assert model.recommend([], k=2).is_empty()


@settings(deadline=None, max_examples=40)
@given(
    only=st.one_of(st.none(), st.lists(st.integers(0, N_ITEMS - 1), max_size=N_ITEMS)),
    never=st.lists(st.integers(0, N_ITEMS - 1), max_size=N_ITEMS),
    users=st.lists(st.integers(0, N_USERS - 1), min_size=1, max_size=20),
    k=st.integers(1, 30),
    exclude_seen=st.booleans(),
)
@pytest.mark.parametrize("name", ["bpr", "ease"])
def test_candidates_are_kept_to(name, fitted, only, never, users, k, exclude_seen):
    model = fitted(name)
    found = model.top_for_users(
        np.array(users),
        k,
        exclude_seen=exclude_seen,
        items=None if only is None else np.array(only, dtype=np.int32),
        exclude=np.array(never, dtype=np.int32),
    )
    for row, user in zip(found.items, users, strict=True):
        left = set(range(N_ITEMS) if only is None else only) - set(never)
        if exclude_seen:
            left -= set(model.seen.row(user).tolist())
        listed = [i for i in row.tolist() if i >= 0]
        assert set(listed) <= left
        assert len(set(listed)) == len(listed) == min(k, len(left))
        assert (row[len(listed) :] == -1).all()


def test_what_is_wrong_is_told(fitted):
    model = fitted("bpr")
    with pytest.raises(DataError, match="'i77'"):
        model.recommend(["u1"], items=["i77"])
    with pytest.raises(DataError, match="'nobody'"):
        model.recommend("nobody")
    with pytest.raises(ConfigError, match="k must be"):
        model.recommend_for(["i01"], k=0)
    with pytest.raises(ConfigError, match="block_users"):
        model.recommend_blocks(block_users=0)
    with pytest.raises(DataError, match="item indices"):
        model.top_for_history(np.array([99]), 3)
    with pytest.raises(DataError, match="item indices"):
        model.top_similar(99, 3)


def test_what_was_made_once_is_forgotten_by_a_new_fit(log):
    model = make_model("ials", dim=3).fit(log, seed=0)
    model.recommend_for(["i01"])
    model.similar_items("i01")
    again = make_model("ials", dim=3).fit(log, seed=1)
    model.fit(log, seed=1)
    assert model.recommend_for(["i01"]).equals(again.recommend_for(["i01"]))
    assert model.similar_items("i01").equals(again.similar_items("i01"))
    assert model.recommend().equals(again.recommend())


def test_the_page_about_it_runs():
    text = (ROOT / "docs" / "recommending.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), {})
