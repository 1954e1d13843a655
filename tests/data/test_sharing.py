"""Logs that get the same vocabularies."""

from __future__ import annotations

from purerec.data.interactions import Interactions
from purerec.data.sharing import join, with_shared_vocabularies


def pairs(log: Interactions) -> list[tuple[object, object]]:
    return list(zip(log.users.take(log.user_idx), log.items.take(log.item_idx), strict=True))


def test_pairs_stay_and_ids_are_those_of_all() -> None:
    first = Interactions.from_columns([1, 5], [10, 30])
    second = Interactions.from_columns([5, 3, 9], [20, 10, 30])
    shared = with_shared_vocabularies([first, second])
    assert [pairs(log) for log in shared] == [[(1, 10), (5, 30)], [(5, 20), (3, 10), (9, 30)]]
    for log in shared:
        assert (list(log.users), list(log.items)) == ([1, 3, 5, 9], [10, 20, 30])
    assert pairs(join(*shared)) == [(1, 10), (5, 30), (5, 20), (3, 10), (9, 30)]


def test_a_number_and_its_spelling_are_one_id() -> None:
    first = Interactions.from_columns([1, 2], ["a", "b"])
    second = Interactions.from_columns(["2", "x"], ["b", "c"])
    shared = with_shared_vocabularies([first, second])
    assert list(shared[0].users) == list(shared[1].users) == ["1", "2", "x"]
    assert pairs(shared[1]) == [("2", "b"), ("x", "c")]


def test_equal_vocabularies_stay_the_same_object() -> None:
    first = Interactions.from_columns([1, 2], [1, 2])
    second = Interactions.from_columns([2, 1], [2, 1])
    shared = with_shared_vocabularies([first, second])
    assert shared[1].users is first.users
    assert pairs(shared[1]) == pairs(second)


def test_titles_of_all_logs_the_first_counts() -> None:
    first = Interactions.from_columns([1, 1], [10, 20]).with_labels({"10": "ten"})
    second = Interactions.from_columns([1, 1], [10, 30]).with_labels({"10": "other", "30": "thirty"})
    shared = with_shared_vocabularies([first, second])
    assert [log.label(at) for log in shared for at in range(3)] == ["ten", "20", "thirty"] * 2
