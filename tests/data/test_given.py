"""Splits whose parts are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import purerec as pr
from conftest import need
from purerec.data.cold import Cold
from purerec.data.folds import folds
from purerec.errors import ReadError, SplitError

TRAIN = [("a", 1), ("a", 2), ("b", 1), ("b", 3), ("c", 2)]
VALID = [("a", 3)]
TEST = [("a", 4), ("b", 2), ("d", 1), ("d", 9)]


def frame(pairs: list[tuple[Any, Any]], **more: Any) -> pl.DataFrame:
    return pl.DataFrame({"user": [u for u, _ in pairs], "item": [i for _, i in pairs], **more})


def log(pairs: list[tuple[Any, Any]], **more: Any) -> pr.Interactions:
    return pr.Interactions.from_columns([u for u, _ in pairs], [i for _, i in pairs], **more)


def csv(folder: Path, name: str, pairs: list[tuple[Any, Any]], heading: str = "user,item\n") -> Path:
    path = folder / name
    path.write_text(heading + "".join(f"{u},{i}\n" for u, i in pairs))
    return path


def pairs(part: pr.Interactions) -> list[tuple[object, object]]:
    return list(zip(part.users.take(part.user_idx), part.items.take(part.item_idx), strict=True))


@pytest.mark.parametrize("form", ["files", "polars", "pandas", "logs", "mixed"])
def test_parts_of_any_form_keep_their_rows_and_share_their_ids(tmp_path: Path, form: str) -> None:
    if form == "pandas":
        need("pandas")
    made: dict[str, Any] = {
        "files": [csv(tmp_path, f"{n}.csv", part) for n, part in enumerate((TRAIN, TEST, VALID))],
        "polars": [frame(part) for part in (TRAIN, TEST, VALID)],
        "pandas": [frame(part).to_pandas() if form == "pandas" else None for part in (TRAIN, TEST, VALID)],
        "logs": [log(part) for part in (TRAIN, TEST, VALID)],
        "mixed": [csv(tmp_path, "a.csv", TRAIN), frame(TEST), log(VALID)],
    }
    parts = pr.given_split(*made[form])
    assert (pairs(parts.train), pairs(parts.test), parts.valid and pairs(parts.valid)) == (TRAIN, TEST, VALID)
    assert list(parts.train.users) == ["a", "b", "c", "d"]
    assert list(parts.train.items) == [1, 2, 3, 4, 9]
    assert parts.label == "given"
    assert pairs(parts.full_train) == [*TRAIN, *VALID]


def test_what_train_lacks_stays_and_is_counted() -> None:
    parts = pr.given_split(frame(TRAIN), frame(TEST))
    assert parts.cold == Cold(judged=3, users=1, positives=4, on_new_items=2, items=2)
    told = "1 of 3 users has no train positive, 2 of 4 positives are on items that nobody has in train"
    assert parts.describe() == f"given: train 5, test 4 ({told})"
    found = pr.evaluate(pr.ItemPop().fit(parts.full_train), parts)
    assert found.n_users_evaluated == 3  # d, who is not in train, is evaluated too
    assert pr.given_split(frame(TRAIN), frame([("a", 3)])).describe() == "given: train 5, test 1"


def test_warm_leaves_out_users_without_a_train_positive() -> None:
    parts = pr.given_split(frame(TRAIN), frame(TEST)).warm()
    assert pairs(parts.test) == TEST[:2]
    assert (parts.label, parts.cold.users, parts.cold.on_new_items) == ("given warm", 0, 1)
    assert parts.describe().endswith(", users with a train positive only")
    strangers = pr.given_split(
        frame([("a", 1), ("b", 2)], rating=[1, 5]), frame([("a", 2)], rating=[5]), positive_rating=4
    )
    with pytest.raises(SplitError, match="nobody is left to evaluate"):
        strangers.warm()


def test_a_temporal_split_says_what_it_measures() -> None:
    log = pr.Interactions.from_columns([1, 1, 2, 2, 3], [1, 2, 1, 3, 3], timestamp=[1, 2, 3, 4, 5])
    parts = pr.split(log, "temporal", at=4, valid=False)
    assert parts.cold == Cold(judged=2, users=1, positives=2, on_new_items=2, items=1)
    assert "1 of 2 users has no train positive, 2 of 2 positives are on items" in parts.describe()
    assert "nobody" not in pr.split(log, "ratio", test=0.4, valid=False).describe()


def test_evaluated_as_the_same_rows_split_by_us() -> None:
    rng = np.random.default_rng(0)
    whole = pr.Interactions.from_columns(rng.integers(0, 40, 900), rng.integers(0, 60, 900)).deduplicate()
    ours = pr.split(whole, "ratio", seed=3)
    assert ours.valid is not None
    theirs = pr.given_split(frame(pairs(ours.train)), frame(pairs(ours.test)), frame(pairs(ours.valid)))
    first = pr.evaluate(pr.ItemPop().fit(ours.full_train), ours)
    second = pr.evaluate(pr.ItemPop().fit(theirs.full_train), theirs)
    assert (first.metrics, first.fingerprint) == (second.metrics, second.fingerprint)
    held = folds(theirs.full_train, theirs.made, 2)
    assert [len(fold.test) for fold in held] == [121, 121]
    assert held[0].test.pairs.overlap(held[1].test.pairs) == 0


def test_repeated_rows_of_a_part_count_once() -> None:
    parts = pr.given_split(frame([*TRAIN, ("a", 1)]), frame(TEST))
    assert (len(parts.train), parts.made.duplicates_dropped) == (5, 1)


def test_times_are_brought_to_one_unit() -> None:
    parts = pr.given_split(log(TRAIN, timestamp=[1, 2, 3, 4, 5]), log(TEST, timestamp=[6000] * 4, time_unit="ms"))
    assert parts.train.timestamp is not None
    assert (parts.train.timestamp.tolist(), parts.train.time_unit) == ([1000, 2000, 3000, 4000, 5000], "ms")
    assert parts.test.time_unit == "ms"


def test_stored_and_read_back(tmp_path: Path) -> None:
    parts = pr.given_split(frame(TRAIN), frame(TEST), frame(VALID))
    again = pr.load_split(pr.save_split(parts, tmp_path / "split"))
    assert (pairs(again.train), pairs(again.test), again.made) == (pairs(parts.train), pairs(parts.test), parts.made)


@pytest.mark.parametrize("test", ["0 5 6\n1 5 7\n", "0 5\n1 7\n", "0 5 6\n1\n", "user,item\n0,5\n1,7\n"])
def test_beside_lists_a_file_of_equally_long_lists_is_no_table(tmp_path: Path, test: str) -> None:
    (tmp_path / "train.txt").write_text("0 1 2 3\n1 1\n2 7 5\n")
    (tmp_path / "test.txt").write_text(test)
    parts = pr.given_split(tmp_path / "train.txt", tmp_path / "test.txt")
    assert parts.test.rating is None
    expected = [(int(user), int(item)) for user, *items in map(str.split, test.splitlines()) for item in items]
    assert pairs(parts.test) == (expected or [(0, 5), (1, 7)])


def test_equally_long_lists_of_train_beside_lists_of_test(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0 1 2 3\n1 1 2 7\n")
    (tmp_path / "test.txt").write_text("0 7\n1 3 8\n")
    parts = pr.given_split(tmp_path / "train.txt", tmp_path / "test.txt")
    assert pairs(parts.train) == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 7)]


def test_lists_are_read_as_told(tmp_path: Path) -> None:
    path = tmp_path / "lists.txt"
    path.write_text("0 1 2\n1 3 4\n")
    assert pairs(pr.read(path, lists=True)) == [(0, 1), (0, 2), (1, 3), (1, 4)]
    assert pairs(pr.read(path)) == [(0, 1), (1, 3)]


@pytest.mark.parametrize(
    ("train", "test", "valid", "message"),
    [
        (
            TRAIN,
            [*TEST, ("a", 1), ("b", 3)],
            None,
            r"2 of the 6 test pairs are in the train part too, such as user 'a'",
        ),
        (TRAIN, TEST, [("a", 1)], "1 of the 1 valid pairs are in the train part too"),
        (TRAIN, TEST, [("a", 4)], "1 of the 4 test pairs are in the valid part too"),
        (TRAIN, [("x", 1)], None, r"no user of the test part is in the train part \(train has 'a', 'b', .*same ids"),
        (TRAIN, [("a", 77)], None, "no item of the test part is in the train part"),
    ],
)
def test_parts_that_are_no_split(train: Any, test: Any, valid: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        pr.given_split(frame(train), frame(test), None if valid is None else frame(valid))


def test_ratings_count_alike_in_all_parts() -> None:
    ratings = [5, 4, 3, 2, 1]
    train, test = frame(TRAIN, rating=ratings), frame(TEST, rating=[1, 2, 3, 4])
    assert pr.given_split(train, test, positive_rating=4).test.n_positives == 1
    with pytest.raises(SplitError, match=r"which ratings count as positive \(train 4, test all rows\)"):
        pr.given_split(pr.read(train, positive_rating=4), pr.read(test))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    train, other = csv(tmp_path, "train.csv", TRAIN), csv(tmp_path, "other.csv", TEST, "who,what\n")
    with pytest.raises(ReadError, match=r"nowhere.csv: there is no such file"):
        pr.given_split(train, tmp_path / "nowhere.csv")
    with pytest.raises(ReadError, match=r"other.csv: no column is recognised as the user; there are 'who', 'what'"):
        pr.given_split(train, other, header=True)
    with pytest.raises(ReadError, match="cannot read a int"):
        pr.given_split(train, 3)
