"""A temporal split of a log with repeats: a pair belongs where it was first seen."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from purerec.data.interactions import Interactions
from purerec.data.splits import split


def rows_of(part):
    ids = part.users.take(part.user_idx).to_list(), part.items.take(part.item_idx).to_list()
    return {(u, i): (r, t) for u, i, r, t in zip(*ids, part.rating.tolist(), part.timestamp.tolist(), strict=True)}


def test_what_was_known_before_stays_in_train_with_what_was_known_of_it():
    user = [1, 1, 1, 1, 2, 2]
    item = [7, 7, 7, 8, 7, 9]
    time = [10, 20, 50, 50, 15, 60]
    rating = [1, 2, 5, 4, 3, 5]
    data = Interactions.from_columns(user, item, rating=rating, timestamp=time)
    parts = split(data, "temporal", at=40, valid=False)
    assert rows_of(parts.train) == {(1, 7): (2, 20), (2, 7): (3, 15)}  # not rated 5, which came later
    assert rows_of(parts.test) == {(1, 8): (4, 50), (2, 9): (5, 60)}  # 7 is not new to 1
    assert parts.made.duplicates_dropped == 2
    assert parts.describe().endswith("2 repeated rows left out")
    last = split(data, "temporal", n=1, valid=False)
    assert rows_of(last.test) == {(1, 8): (4, 50), (2, 9): (5, 60)}
    assert rows_of(last.train) == {(1, 7): (2, 20), (2, 7): (3, 15)}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_no_part_knows_what_came_later(seed, valid):
    rng = np.random.default_rng(seed)
    n, at = 300, 60
    user, item, time = rng.integers(0, 8, n), rng.integers(0, 20, n), rng.integers(0, 100, n)
    data = Interactions.from_columns(user, item, rating=np.arange(n), timestamp=time)
    parts = split(data, "temporal", at=at, valid=valid)
    pairs = list(zip(user.tolist(), item.tolist(), strict=True))
    before = {pair for pair, when in zip(pairs, time, strict=True) if when < at}
    after = {pair for pair, when in zip(pairs, time, strict=True) if when >= at}
    assert rows_of(parts.full_train).keys() == before
    assert rows_of(parts.test).keys() == after - before
    ends = [(parts.full_train, at), (parts.test, 100)]
    if parts.valid is not None:
        times = dict(sorted(zip(pairs, time.tolist(), strict=True), key=lambda row: -row[1]))  # the first of each
        begins = min(times[pair] for pair in rows_of(parts.valid))
        assert parts.train.timestamp.max() < begins
        ends = [(parts.train, begins), (parts.valid, at), (parts.test, 100)]
    for part, end in ends:
        for pair, (rating, when) in rows_of(part).items():
            known = [
                (t, row) for row, (p, t) in enumerate(zip(pairs, time.tolist(), strict=True)) if p == pair and t < end
            ]
            assert (when, rating) == max(known)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_the_last_n_of_each_user_are_new_to_them(seed):
    rng = np.random.default_rng(seed)
    user, item, time = rng.integers(0, 6, 200), rng.integers(0, 20, 200), rng.permutation(200)
    data = Interactions.from_columns(user, item, rating=np.ones(200), timestamp=time)
    parts = split(data, "temporal", n=2)
    for who in range(6):
        own = [
            part.timestamp[part.user_idx == parts.train.users.index(who)]
            for part in (parts.train, parts.valid, parts.test)
        ]
        assert [len(times) for times in own[1:]] == [2, 2]
        assert own[0].max() < own[1].min()
        assert own[1].max() < own[2].min()
