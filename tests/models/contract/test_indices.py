"""Internal indices and external ids: invalid ones are refused by every method."""

import numpy as np
import pytest

import purerec as pr
from models.contract.small import N_ITEMS, N_USERS
from purerec.errors import ConfigError, DataError
from purerec.models.registry import make_model

BAD_INDICES = [-1, N_USERS, 2**31, 2**63, 2**200, 1.5, 1.0, float("nan"), True, "3", None, [[0, 1]], [True], [0, -1],
               [0, True], [0.0], [[0], [0, 1]], np.array([1.5]), np.array([True]), np.array([[0]])]  # fmt: skip
BY_INDEX = {
    "score": lambda model, bad: model.score(bad),
    "top_for_users": lambda model, bad: model.top_for_users(bad, 3),
    "top_for_users, seen ones too": lambda model, bad: model.top_for_users(bad, 3, exclude_seen=False),
    "top_for_users items": lambda model, bad: model.top_for_users(np.array([0]), 3, items=_listed(bad)),
    "top_for_users exclude": lambda model, bad: model.top_for_users(np.array([0]), 3, exclude=_listed(bad)),
    "top_for_history": lambda model, bad: model.top_for_history(_listed(bad), 3),
    "top_for_history items": lambda model, bad: model.top_for_history([0], 3, items=_listed(bad)),
    "top_for_history exclude": lambda model, bad: model.top_for_history([0], 3, exclude=_listed(bad)),
    "score_history": lambda model, bad: model.score_history(_listed(bad)),
    "fold_in": lambda model, bad: model.fold_in(_listed(bad)),
    "reasons_for_history": lambda model, bad: model.reasons_for_history(_listed(bad), 1),
    "reasons_for_history target": lambda model, bad: model.reasons_for_history([0], bad),
    "reasons_for_user": lambda model, bad: model.reasons_for_user(bad, 1),
    "top_similar": lambda model, bad: model.top_similar(bad, 3),
}


def _listed(bad):
    return bad if isinstance(bad, list | np.ndarray) else [bad]


@pytest.mark.parametrize("name", ["bpr", "ease", "itempop", "itemknn"])
@pytest.mark.parametrize("method", BY_INDEX)
def test_internal_indices_are_whole_and_in_range_or_refused(fitted, name, method):
    model = fitted(name)
    for bad in BAD_INDICES:
        with pytest.raises(DataError, match=r"(user|item) ind"):
            BY_INDEX[method](model, bad)


def test_good_indices_of_any_type_give_the_same(fitted):
    model = fitted("bpr")
    expected = model.score([0, 3])
    for good in ((0, 3), np.array([0, 3], dtype=np.uint8), np.array([0, 3], dtype=np.uint64), np.array([3, 0])[::-1]):
        assert np.array_equal(model.score(good), expected)
    assert np.array_equal(model.score(3), model.score([3]))
    assert np.array_equal(model.score(np.int16(3)), model.score([3]))
    assert model.score([]).shape == (0, N_ITEMS)
    assert model.top_for_users([0], 3, exclude=[]).items.tolist() == model.top_for_users(0, 3).items.tolist()


@pytest.mark.parametrize("bad", [-1, N_ITEMS, 1.5, True, "3", None])
def test_ids_and_titles_by_index(log, bad):
    for ask in (log.label, log.items.__getitem__, lambda bad: log.items.take([bad])):
        with pytest.raises(DataError, match="item indices must be"):
            ask(bad)
    assert list(log.items) == log.items.take(np.arange(N_ITEMS)).to_list()


@pytest.mark.parametrize("strange", [True, 1.5, None, b"a", [1]])
def test_columns_of_other_things_than_ids_are_refused(strange):
    with pytest.raises(DataError, match=r"row 1 has the item .*, which is not a valid id"):
        pr.Interactions.from_columns([1, 2], [1, strange])


@pytest.mark.parametrize("strange", [True, 1.0, None, (), [0], 2**70, b"u1"])
def test_ids_of_another_type_find_nobody(strange):
    model = make_model("itempop").fit(pr.Interactions.from_columns([0, 1, 1], [0, 1, 0]))
    with pytest.raises(DataError, match="was not in training"):
        model.recommend([strange])
    with pytest.raises(DataError, match="was not in training"):
        model.similar_items(strange)
    with pytest.warns(UserWarning, match="ignoring history items not in training"):
        model.recommend_for([strange])


def test_ids_that_are_no_list():
    model = make_model("itempop").fit(pr.Interactions.from_columns([0, 1, 1], [0, 1, 0]))
    with pytest.raises(DataError, match="ids are integers or text"):
        model.recommend(1.5)
    for size in (0, -1, True, 1.5):
        with pytest.raises(ConfigError, match="block_users"):
            model.recommend_blocks(block_users=size)


def test_ids_that_are_no_list_of_ids():
    import polars as pl

    model = pr.ItemPop().fit(pr.Interactions.from_columns([196, 117], [1, 2]))
    with pytest.raises(DataError, match="integers or text, or a list of them, not b'u'"):
        model.recommend(b"u", k=1)
    with pytest.raises(DataError, match="not a DataFrame: give one column"):
        model.recommend(pl.DataFrame({"user": [196]}), k=1)
    assert model.recommend(pl.DataFrame({"user": [196]})["user"], k=1).height == 1
