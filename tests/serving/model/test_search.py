"""Finding items by their titles."""

import numpy as np
import polars as pl
import pytest

from purerec.data.vocabulary import Vocabulary
from purerec.serving.model.search import ItemSearch, UserSearch, plain_words

TITLES = [
    "Star Wars (1977)",
    "Star Trek",
    "War of the Stars",
    None,
    "Amélie",
    "Star",
    "L'été",
    "100% Wolf",
    "ΣΊΣΥΦΟΣ",
]


@pytest.fixture
def search() -> ItemSearch:
    ids = Vocabulary(pl.Series([10, 20, 30, 40, 50, 60, 70, 80, 101], dtype=pl.Int64), "item")
    return ItemSearch(ids, pl.Series(TITLES), np.arange(9, dtype=np.float32))


def found(search: ItemSearch, query: str, limit: int = 10) -> list[str | None]:
    return [TITLES[i] for i in search.find(query, limit).idx]


def test_words_without_case_accents_and_order(search: ItemSearch):
    assert found(search, "wars star") == ["Star Wars (1977)"]
    assert found(search, "AMELIE") == ["Amélie"]
    assert found(search, "ete") == ["L'été"]
    assert found(search, "été") == ["L'été"]
    assert found(search, "1977") == ["Star Wars (1977)"]
    assert found(search, "ars") == []
    assert found(search, "star zzz") == []


def test_best_first(search: ItemSearch):
    """Equal titles, then those that start with the text, then the rest, popular ones first."""
    assert found(search, "star") == ["Star", "Star Trek", "Star Wars (1977)", "War of the Stars"]
    assert found(search, "star", limit=2) == ["Star", "Star Trek"]
    assert search.find("star", 2).total == 4


def test_ids(search: ItemSearch):
    assert found(search, "10") == ["Star Wars (1977)", "100% Wolf", "ΣΊΣΥΦΟΣ"]
    assert found(search, "40") == [None]


def test_nothing_asked_gives_what_is_popular(search: ItemSearch):
    assert found(search, "  ", 2) == ["ΣΊΣΥΦΟΣ", "100% Wolf"]
    assert search.find("", 2).total == 9
    assert found(search, "()") == []


def test_without_titles():
    ids = Vocabulary(pl.Series(["b", "a", "ab"]), "item")
    search = ItemSearch(ids, None, np.zeros(3, dtype=np.float32))
    assert search.find("a", 5).idx.tolist() == [1, 2]
    named = Vocabulary(pl.Series(["Café Noir", "noir", "Le café"]), "item")
    search = ItemSearch(named, None, np.zeros(3, dtype=np.float32))
    assert search.find("cafe", 5).idx.tolist() == [0, 2]
    assert search.find("NOIR", 5).idx.tolist() == [1, 0]


def test_users():
    users = UserSearch(Vocabulary(pl.Series([1, 12, 111, 2, 11], dtype=pl.Int64), "user"))
    assert users.find("1", 3) == ["1", "11", "12"]
    assert users.find("3", 3) == []
    assert users.find("", 2) == ["1", "12"]


def test_plain_words_are_words_with_a_space_before_each():
    assert plain_words(pl.Series(["  <b>Ça</b> va? ", None, "..."])).to_list() == [" b ca b va", " ", " "]
