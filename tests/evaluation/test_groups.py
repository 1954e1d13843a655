"""Metrics per group of users and of items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import purerec as pr
from conftest import checkerboard
from purerec.errors import ConfigError, DataError, ReadError
from purerec.evaluation.groups import warm_and_cold, warmth

PARTS = pr.split(checkerboard(), "ratio")
MODEL = pr.ItemPop().fit(PARTS.full_train)
USERS = pl.DataFrame({"user": range(18), "side": ["even", "odd"] * 9, "age": [20.0 + n for n in range(18)]})


def test_means_of_each_group_and_of_those_in_none() -> None:
    whole = pr.evaluate(MODEL, PARTS, metrics=["P@5", "MRR"])
    found = pr.evaluate_by(MODEL, PARTS, "side", users=USERS, metrics=["P@5", "MRR"])
    assert found.columns == ["group", "users", "P@5", "MRR"]
    assert set(found["group"]) == {"even", "odd", "(none)"}
    assert found["users"].sum() == whole.n_users_evaluated
    assert (found["users"] * found["P@5"]).sum() == pytest.approx(whole.metrics["P@5"] * whole.n_users_evaluated)
    even = [n for n, user in enumerate(whole.user_idx) if PARTS.train.users[user] in range(0, 18, 2)]
    assert found.filter(group="even")["MRR"].item() == pytest.approx(whole.per_user["MRR"][even].mean())
    same = whole.by([{0: "even", 1: "odd"}[u % 2] if u < 18 else "(none)" for u in PARTS.train.users.ids])
    assert same.equals(found)
    with pytest.raises(ConfigError, match="3 labels for 20 users"):
        whole.by([1, 2, 3])


def test_positives_on_the_items_of_each_group() -> None:
    items = pl.DataFrame({"id": range(20), "genre": ["a|b", "a", "b", "c"] * 5})
    found = pr.evaluate_by(MODEL, PARTS, "genre", items=items, metrics="Recall@20")
    on = {g: [g in genre.split("|") for genre in items["genre"]] for g in "abc"}
    ids = PARTS.test.items.ids.to_numpy()[PARTS.test.item_idx]
    assert dict(zip(found["group"], found["positives"], strict=True)) == {
        g: int(np.array(on[g])[ids].sum()) for g in "abc"
    }
    assert found["Recall@20"].to_list() == [1.0, 1.0, 1.0]  # all candidates are listed


def test_positives_of_the_validation_part() -> None:
    model = pr.ItemPop().fit(PARTS.train)
    items = pl.DataFrame({"id": range(20), "genre": ["a", "b"] * 10})
    found = pr.evaluate_by(model, PARTS, "genre", items=items, metrics="Recall@5", on="valid")
    assert PARTS.valid is not None
    ids = PARTS.valid.items.ids.to_numpy()[PARTS.valid.item_idx]
    assert dict(zip(found["group"], found["positives"], strict=True)) == {
        "a": (ids % 2 == 0).sum(),
        "b": (ids % 2 == 1).sum(),
    }
    for group, rest in (("a", 0), ("b", 1)):
        part = replace(PARTS, valid=PARTS.valid.subset(ids % 2 == rest))
        alone = pr.evaluate(model, part, metrics="Recall@5", on="valid")
        row = found.filter(group=group)
        assert (row["users"].item(), row["Recall@5"].item()) == (alone.n_users_evaluated, alone.metrics["Recall@5"])
    with pytest.raises(ConfigError, match="has no validation part"):
        pr.evaluate_by(model, replace(PARTS, valid=None), "genre", items=items, on="valid")


def test_tags_are_split_as_in_an_item_table() -> None:
    clean = ["Comedy|Drama", "Comedy|Drama", "Drama", None] * 5
    loose = ["Comedy|Drama", " Comedy | Drama", "Drama|", "|"] * 5
    expected, found = (
        pr.evaluate_by(MODEL, PARTS, "genre", items=pl.DataFrame({"id": range(20), "genre": genre}), metrics="P@5")
        for genre in (clean, loose)
    )
    assert found.equals(expected)
    assert set(found["group"]) == {"Comedy", "Drama", "(none)"}


def test_numbers_are_cut_into_four_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purerec.evaluation.groups.MOST_GROUPS", 10)
    found = pr.evaluate_by(MODEL, PARTS, "age", users=USERS, metrics="P@5")
    assert set(found["group"]) == {"20 to 24", "25 to 28", "29 to 32", "33 to 37", "(none)"}


def test_tables_come_from_files_and_pandas(tmp_path: Path) -> None:
    expected = pr.evaluate_by(MODEL, PARTS, "side", users=USERS, metrics="P@5")
    USERS.write_csv(tmp_path / "users.tsv", separator="\t")
    USERS.write_parquet(tmp_path / "users.parquet")
    for given in (tmp_path / "users.tsv", str(tmp_path / "users.parquet"), USERS.to_pandas()):
        assert pr.evaluate_by(MODEL, PARTS, "side", users=given, metrics="P@5").equals(expected)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ConfigError, "give users=TABLE or items=TABLE"),
        ({"users": USERS, "items": USERS}, ConfigError, "groups are of users or of items"),
        ({"users": USERS.drop("side")}, ConfigError, "has no column 'side'"),
        ({"users": USERS.with_columns(user=pl.lit("nobody"))}, DataError, "has no user of this data"),
        (
            {"users": pl.concat([USERS, USERS.with_columns(side=pl.lit("up"))])},
            DataError,
            "user '0' in several groups",
        ),
        ({"users": "nowhere.csv"}, ReadError, "there is no such file"),
        ({"users": 3}, ReadError, "cannot be read as a table"),
        (
            {"users": pl.DataFrame({"user": range(40), "side": [f"s{n}" for n in range(40)]})},
            ConfigError,
            "40 different",
        ),
    ],
)
def test_wrong_tables_are_one_sentence(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        pr.evaluate_by(MODEL, PARTS, "side", **options)
    assert "\n" not in str(caught.value)


def test_users_and_items_that_train_does_not_know() -> None:
    train = pl.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 2, 3]})
    test = pl.DataFrame({"user": [1, 3, 3], "item": [3, 1, 4]})
    split = pr.given_split(train, test)
    model = pr.ItemPop().fit(split.full_train)
    found = warm_and_cold(model, split, pr.evaluate(model, split, metrics="MRR").by(warmth(split)), metrics="MRR")
    assert dict(zip(found["group"], found["users"], strict=True)) == {
        "users with a train positive": 1,
        "users without one": 1,
        "positives on known items": 2,
    }
