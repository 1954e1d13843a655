"""Conditions on items."""

import polars as pl
import pytest

import purerec as pr
from purerec.data.items.conditions import Condition, fulfilled, nothing_fulfils
from purerec.errors import ConfigError

TABLE = pr.read_items(
    pl.DataFrame(
        {
            "item": [1, 2, 3, 4],
            "genre": ["Comedy|Drama", "Horror", "Drama", None],
            "year": [1990.0, 2000.0, None, 1980.0],
            "in stock": [True, False, None, True],
            "day": ["2024-05-01", "2024-06-01", "2023-01-01", None],
            "brand": ["apple", "Zebra", "Banana", "Apple"],
        }
    )
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("genre=Comedy", [1]),
        (" genre = drama ", [1, 3]),
        ("Genre=Comedy|Horror", [1, 2]),
        ("genre!=Drama", [2, 4]),
        ("genre", [1, 2, 3]),
        ("!genre", [4]),
        ("year>=1990", [1, 2]),
        ("year<1990", [4]),
        ("year=1990|1980", [1, 4]),
        ("year>1e3", [1, 2, 4]),
        ("year", [1, 2, 4]),
        ("in stock", [1, 4]),
        ("!in stock", [2, 3]),
        ("in stock=no", [2]),
        ("day>=2024-05-01", [1, 2]),
        ("day<2024-05-01", [3]),
        ("day<=2024-05-01", [1, 3]),
        ("day>2030-01-01", []),
        ("brand>=b", [2, 3]),
        ("brand<B", [1, 4]),
        ("brand<=APPLE", [1, 4]),
        ("brand>apple", [2, 3]),
        ("genre=__import__('os').system('true')", []),
    ],
)
def test_conditions(text, rows):
    found = Condition.parse(text).mask(TABLE)
    assert [item for item, yes in zip([1, 2, 3, 4], found, strict=True) if yes] == rows


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["genre=Comedy"], None),
        (["genre=Comdy"], "no item has genre=Comdy; did you mean Comedy?"),
        (["year>=1990", "genre=Comdy"], "no item has genre=Comdy; did you mean Comedy?"),
        (["year>3000"], "no item has year>3000"),
        (["year<=1990", "year>1990"], "no item has year<=1990 and year>1990"),
    ],
)
def test_conditions_that_leave_nothing_are_told(texts, message):
    assert nothing_fulfils(TABLE, tuple(map(Condition.parse, texts))) == message


def test_all_hold_together():
    found = fulfilled(TABLE, tuple(map(Condition.parse, ("year<=1990", "in stock"))))
    assert found.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a condition"),
        ("=", "is not a condition"),
        ("genre=", "no value"),
        ("gnere=Comedy", "did you mean genre"),
        ("year>=soon", "year takes a number, not 'soon'"),
        ("year=nan", "a number"),
        ("in stock=maybe", "true or false"),
        ("genre>Comedy", "no order"),
        ("day>=2024", "day is text .* not numbers"),
        ("in stock>1", "no order"),
        (3, "not 3"),
        ("x" * 1000 + "=1", "no column"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(ConfigError, match=message) as error:
        Condition.parse(text).mask(TABLE)
    assert len(str(error.value)) < 400
