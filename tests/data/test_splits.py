import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerec.data.catalog import load
from purerec.data.folds import folds
from purerec.data.interactions import Interactions
from purerec.data.readers import read
from purerec.data.splits import Split, split
from purerec.errors import SplitError, StoreError
from purerec.storage import load_split, save_split


def log(n_users=30, n_items=40, rows=600, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    return Interactions.from_columns(
        rng.integers(0, n_users, rows),
        rng.integers(0, n_items, rows),
        rating=rng.integers(1, 6, rows),
        timestamp=rng.integers(0, 10**6, rows),
        **kwargs,
    )


def rows_of(part):
    return set(zip(part.user_idx.tolist(), part.item_idx.tolist(), strict=True))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([("ratio", {}), ("leave_n_out", {"n": 3}), ("temporal", {}), ("temporal", {"n": 2})]),
    st.integers(0, 100),
)
def test_parts_cover_the_data_and_are_disjoint(method, seed):
    how, parameters = method
    data = log(seed=seed)
    parts = split(data, how, seed=seed, **parameters)
    sets = [rows_of(p) for p in (parts.train, parts.valid, parts.test)]
    assert set.union(*sets) == rows_of(data)
    assert sum(map(len, sets)) == len(data.deduplicate())
    assert rows_of(parts.full_train) == sets[0] | sets[1]
    assert parts.test.users is parts.train.users


def test_same_seed_same_split_other_seed_other_split():
    data = log()
    a, b, c = (split(data, "ratio", seed=s).test.item_idx.tolist() for s in (1, 1, 2))
    assert a == b
    assert a != c


def test_ratio_sizes():
    parts = split(log(rows=1000, n_items=5000), "ratio", test=0.25)
    assert len(parts.test) == pytest.approx(250, abs=3)
    assert parts.made.parameters.given() == {"test": 0.25}


def test_leave_n_out_takes_n_of_each_user_that_has_more():
    data = log()
    parts = split(data, "leave_n_out", n=4)
    had = np.bincount(data.deduplicate().user_idx, minlength=data.n_users)
    held = np.bincount(parts.test.user_idx, minlength=data.n_users)
    np.testing.assert_array_equal(held, np.where(had > 4, 4, 0))


def test_last_n_are_the_latest():
    data = log()
    parts = split(data, "temporal", n=2, valid=False)
    for user in range(data.n_users):
        before = parts.train.timestamp[parts.train.user_idx == user]
        after = parts.test.timestamp[parts.test.user_idx == user]
        assert len(after) == 2
        assert before.max() <= after.min()


def test_equal_times_are_ordered_by_row():
    data = Interactions.from_columns([1, 1, 1], [1, 2, 3], timestamp=[5, 5, 5])
    parts = split(data, "temporal", n=1, valid=False)
    assert parts.test.items.take(parts.test.item_idx).to_list() == [3]


def test_global_time_point_never_looks_ahead():
    parts = split(log(), "temporal")
    assert parts.train.timestamp.max() < parts.valid.timestamp.min()
    assert parts.valid.timestamp.max() < parts.test.timestamp.min()
    dated = split(log(), "temporal", at="1970-01-08", valid=False)
    assert dated.test.timestamp.min() >= 7 * 86400 > dated.train.timestamp.max()


def test_only_positives_can_be_held_out():
    parts = split(log().with_positives(4), "ratio", on="positives")
    assert parts.test.rating.min() >= 4
    assert parts.train.rating.min() == 1


def test_official_is_by_row_order(ml_100k):
    data = ml_100k
    parts = split(data, "u1")
    assert len(parts.test) == 20_000
    assert (np.diff(parts.test.positives.indptr) > 0).sum() == 456
    assert parts.full_train.n_positives == 44_140
    assert parts.label == "u1"
    second = split(data, "official", fold=2)
    np.testing.assert_array_equal(second.test.user_idx, data.user_idx[20_000:40_000])
    assert split(data).label == "u1"


def test_gowalla_is_split_as_it_was_published(data_dir):
    data = load("gowalla", offline=True)
    parts = split(data)
    assert (parts.label, parts.made.method) == ("given", "given")
    assert split(data, "official").label == "given"
    assert (parts.full_train.n_positives, parts.test.n_positives) == (810_128, 217_242)
    published = read(data_dir / "gowalla" / "test.txt")
    assert data.users == published.users
    np.testing.assert_array_equal(
        parts.test.users.take(parts.test.user_idx), published.users.take(published.user_idx)
    )
    np.testing.assert_array_equal(
        parts.test.items.take(parts.test.item_idx), published.items.take(published.item_idx)
    )
    assert len(parts.valid) == round(0.2 * 810_128)
    held = folds(parts.full_train, parts.made, 2)
    assert [len(fold.test) for fold in held] == [162_026, 162_026]
    assert held[0].test.pairs.overlap(held[1].test.pairs) == 0


def test_the_test_part_of_gowalla_is_no_random_part(data_dir):
    """Its lists are in order of time, and the test part is what came last: items late in people's train lists
    have more than their share of it. docs/results.md says so."""
    data = load("gowalla", offline=True)
    parts = split(data, "given")
    train, test = parts.full_train, parts.test
    n_train, n_test = (np.bincount(part.item_idx, minlength=data.n_items) for part in (train, test))
    n, share = n_train + n_test, len(test) / len(data)
    surprise = (n_test - share * n) / np.sqrt(share * (1 - share) * n)
    assert surprise.var() > 1.5  # for a random part it would be 1
    starts = np.searchsorted(train.user_idx, train.user_idx)
    place = (np.arange(len(train)) - starts) / np.bincount(train.user_idx)[train.user_idx]
    late, early = (surprise[train.item_idx[np.abs(place - at) < 0.1]].mean() for at in (0.75, 0.25))
    assert late > early + 0.2


@pytest.mark.parametrize(
    ("how", "parameters", "message"),
    [
        ("weekly", {}, "there is no split 'weekly'"),
        ("given", {}, "was not published in train and test parts, as gowalla was; use ratio"),
        ("official", {}, "use ratio, leave_n_out or temporal"),
        ("u1", {"fold": 2}, "contradict"),
        ("ratio", {"test": 1.5}, "between 0 and 1"),
        ("ratio", {"n": 3}, "does not use n"),
        ("leave_n_out", {}, "needs n"),
        ("leave_n_out", {"n": 0}, "at least 1"),
        ("leave_n_out", {"n": 1000}, "smaller n"),
        ("temporal", {"at": "soon"}, "neither a date"),
        ("temporal", {"at": "2050-01-01"}, "would be empty"),
        (
            "temporal",
            {"at": "2050-01-01"},
            "the test part .* would be empty; at='2050-01-01' is after all of the data",
        ),
        (
            "temporal",
            {"at": "1960-01-01"},
            "the train part .* would be empty; at='1960-01-01' is before all of the data",
        ),
        ("temporal", {"at": "0001-01-01"}, "before all of the data, from 1970-01-01"),
        ("temporal", {"at": -1}, "before all of the data"),
        ("temporal", {"at": 1e300}, "after all of the data"),
        ("temporal", {"at": "9" * 400}, "neither a date"),
        ("temporal", {"at": float("nan")}, "neither a date"),
        ("temporal", {"at": float("inf")}, "neither a date"),
        ("temporal", {"at": True}, "neither a date"),
        ("temporal", {"at": [1]}, "neither a date"),
        ("temporal", {"n": 2.5}, "whole number"),
        ("temporal", {"n": True}, "whole number"),
        ("temporal", {"n": "2"}, "whole number"),
        ("ratio", {"test": "0.2"}, "between 0 and 1"),
        ("ratio", {"test": True}, "between 0 and 1"),
        ("ratio", {"test": float("nan")}, "between 0 and 1"),
        ("temporal", {"n": 1, "test": 0.1}, "one of at, test and n"),
        ("ratio", {"on": "some"}, "'all' or 'positives'"),
    ],
)
def test_impossible_splits_say_why(how, parameters, message):
    with pytest.raises(SplitError, match=message):
        split(log(), how, **parameters)


def test_a_log_of_one_moment_has_no_later_part():
    data = Interactions.from_columns([1, 2, 3], [1, 2, 3], timestamp=[5, 5, 5])
    with pytest.raises(SplitError, match="the train part of the temporal split would be empty; choose another share"):
        split(data, "temporal")


def test_temporal_needs_times():
    with pytest.raises(
        SplitError, match=r"needs timestamps, and none were read from 'data'; name .* timestamp="
    ) as caught:
        split(Interactions.from_columns([1, 2], [1, 2]), "temporal")
    assert "name their column with --timestamp, or use --split ratio" in caught.value.at_command_line


def test_overlapping_parts_are_refused():
    data = log()
    with pytest.raises(SplitError, match="more than one part"):
        Split(data, None, data)
    with pytest.raises(SplitError, match="share their"):
        Split(data, None, log(seed=5, n_users=10))


def test_save_and_load(tmp_path):
    parts = split(log(name="mine").with_positives(4), "leave_n_out", n=2, seed=3)
    again = load_split(save_split(parts, tmp_path / "split"))
    assert again.made == parts.made
    for name in ("train", "valid", "test"):
        assert getattr(again, name).fingerprint == getattr(parts, name).fingerprint
    with pytest.raises(StoreError, match="does not exist"):
        load_split(tmp_path / "nothing")


def test_what_is_no_log_is_refused():
    with pytest.raises(SplitError, match=r"a log from pr.read or pr.load, not str"):
        split("clicks.csv")


def test_times_that_cannot_be_divided_have_no_validation_part():
    data = Interactions.from_columns([1, 1, 2, 2, 1, 2], [1, 2, 3, 4, 5, 6], timestamp=[10] * 4 + [20] * 2)
    parts = split(data, "temporal", at=20)
    assert (len(parts.train), parts.valid, len(parts.test)) == (4, None, 2)
    with pytest.raises(SplitError, match="at=21 is after all of the data"):
        split(data, "temporal", at=21)
    with pytest.raises(SplitError, match="at=5 is before all of the data"):
        split(data, "temporal", at=5)


def test_a_split_with_another_threshold():
    parts = split(log(), "ratio")
    high = parts.with_positives(4)
    assert high.test.positive_rating == high.train.positive_rating == high.valid.positive_rating == 4
    assert len(high.test.positives) < len(parts.test.positives)
    assert high.made == parts.made


@pytest.mark.parametrize("name", ["ml-100k", "ml-1m", "yelp", "gowalla"])
def test_a_file_is_not_the_data_set_of_its_name(tmp_path, name):
    rows = "".join(f"{n % 40},{n % 61}\n" for n in range(1000))
    (tmp_path / f"{name}.csv").write_text("user,item\n" + rows)
    data = read(tmp_path / f"{name}.csv")
    assert data.name == f"{name} (file)"
    assert split(data).made.method == "ratio"
    assert read(tmp_path / f"{name}.csv", name=name).name == name  # as given
