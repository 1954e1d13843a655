"""With users and items that are new to it, a model ranks as if it had been fitted with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import purerec as pr
from purerec.data.given import given_split
from purerec.data.splits import Split
from purerec.errors import DataError
from purerec.evaluation.protocols import evaluate
from purerec.evaluation.widened import Widened, widened


def later(*, text: bool = False) -> tuple[pr.Interactions, Split]:
    """A train log, and a split of it whose test part has one more user and item; optionally with text ids."""
    user, item = np.nonzero(np.add.outer(np.arange(12), np.arange(9)) % 3 > 0)
    train = pr.Interactions.from_columns(user + 10, item + 10)
    new_user: list[int | str] = [10, 11, 14, "new"] if text else [10, 11, 14, 5]
    return train, given_split(train, pr.Interactions.from_columns(new_user, [10, 12, 7, 11]))


@pytest.mark.parametrize("text", [False, True])
def test_ranks_are_those_of_a_model_that_was_fitted_with_room_for_them(text: bool) -> None:
    train, split = later(text=text)
    alone, here = pr.make_model("itempop").fit(train), pr.make_model("itempop").fit(split.train)
    for protocol in ("exact", "sampled"):
        found, expected = (evaluate(model, split, protocol=protocol) for model in (alone, here))  # type: ignore[arg-type]
        assert found.metrics == pytest.approx(expected.metrics)
        assert found.fingerprint == expected.fingerprint


@pytest.mark.parametrize("name", ["bpr", "ease", "itemknn"])
def test_new_items_are_last_and_new_people_get_popular_ones(name: str) -> None:
    train, split = later()
    model = pr.make_model(name).fit(train)
    wide = widened(model, split, split.test)
    assert isinstance(wide, Widened)
    old, new = split.train.users.index(11), split.train.users.index(5)
    new_item = split.train.items.index(7)
    scores = wide.score([old, new])
    assert scores.argmin(axis=1).tolist() == [new_item, new_item]
    np.testing.assert_array_equal(np.delete(scores[0], new_item), model.score(model.users.index(11))[0])
    np.testing.assert_array_equal(np.delete(scores[1], new_item), model.popularity())
    assert len(wide.seen) == len(model.seen)


def test_scores_keep_their_precision() -> None:
    class Latest(pr.ItemPop):
        def score(self, user_idx: Any) -> Any:
            return np.tile(1_700_000_000 + np.arange(len(self.items)), (len(user_idx), 1))

    train, split = later()
    wide = widened(Latest().fit(train), split, split.test)
    scores = wide.score([split.train.users.index(11)])[0]
    assert len(np.unique(scores)) == len(split.train.items)
    assert scores.argmin() == split.train.items.index(7)


def test_what_is_of_other_data_or_has_seen_the_answers_is_refused() -> None:
    train, split = later()
    kept = np.arange(len(train)) > 3
    with pytest.raises(DataError, match="of the 4 test positives, so its score would be inflated"):
        evaluate(pr.make_model("itempop").fit(split.test.compact()), split)
    other = pr.Interactions.from_columns([10, 11], [13, 11])  # known ids, and a pair that is not in this data
    with pytest.raises(DataError, match="fitted on other users"):
        evaluate(pr.make_model("itempop").fit(other), split)
    assert evaluate(pr.make_model("itempop").fit(train.subset(kept).compact()), split).metrics
