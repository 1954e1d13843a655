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


OTHER_DATES = ["11/05/2019", "31.12.2020", "5/6/20", "2020/01/31", "2020-1-31", "5 May 2019", "Jan 5th, 2020 10:30"]


@pytest.mark.parametrize("date", OTHER_DATES)
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_dates_that_text_does_not_order_are_not_compared(date, sign):
    table = pr.read_items(pl.DataFrame({"item": [1, 2, 3], "released": [date, date, None], "note": ["a", "b", date]}))
    for value in ("2020-01-31", date):
        with pytest.raises(
            ConfigError, match=r"not that of dates; write dates as 2020-01-31, in the column released"
        ):
            Condition.parse(f"released{sign}{value}").mask(table)
    assert Condition.parse(f"released={date}").mask(table).tolist() == [True, True, False]
    assert len(Condition.parse(f"note{sign}{date}").mask(table)) == 3  # one such text is no column of dates
    with pytest.raises(ConfigError, match="not that of dates"):
        Condition.parse(f"day{sign}{date}").mask(TABLE)  # a column that is in order


def test_other_text_is_compared():
    table = pr.read_items(
        pl.DataFrame(
            {
                "item": [1, 2],
                "at": ["2019-05-01 10:00", "2020-05-01T11:00:05"],
                "release": ["1.10.2", "1.9.3"],
                "form": ["Mayor 12", "March"],
            }
        )
    )
    for text in ("at>=2020-01-01", "release>1.9.0", "form>=May"):
        assert Condition.parse(text).mask(table).any(), text


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
        ("day>=2024", "^'day>=2024': day is text .* not numbers"),
        ("in stock>1", "no order"),
        (3, "not 3"),
        ("x" * 1000 + "=1", "no column"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(ConfigError, match=message) as error:
        Condition.parse(text).mask(TABLE)
    assert len(str(error.value)) < 400
