import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.vocabulary import Vocabulary, encode
from purerec.errors import DataError, UnknownIdError

ids = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50),
    st.lists(st.text(max_size=8), min_size=1, max_size=50),
)


@given(ids)
def test_ids_of_any_kind_come_back_exactly(values):
    vocabulary, index = encode(pl.Series(values), "user")
    assert vocabulary.take(index).to_list() == values
    assert vocabulary.ids.to_list() == sorted(set(values), key=lambda v: v if isinstance(v, int) else v.encode())


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(-(2**62), 2**62))
def test_table_and_hash_give_the_same_indices(values, offset):
    near, near_idx = encode(pl.Series(values), "item")
    far, far_idx = encode(pl.Series([v * 10**9 + offset for v in values], dtype=pl.Int64), "item")
    np.testing.assert_array_equal(near_idx, far_idx)
    assert len(near) == len(far)


def test_unsigned_ids_beyond_int64_are_kept_as_text():
    vocabulary, _ = encode(pl.Series([2**64 - 1, 5], dtype=pl.UInt64), "user")
    assert set(vocabulary.ids.to_list()) == {str(2**64 - 1), "5"}


def test_lookup_takes_either_spelling():
    whole, text = Vocabulary.of([196, 22], "user"), Vocabulary.of(["196", "007"], "user")
    assert whole.index("196") == whole.index(196) == 0
    assert text.index(196) == text.index("196") == 0
    assert text.find(7) is None
    assert whole.find("0196") is None


def test_unknown_user_says_what_to_do():
    with pytest.raises(UnknownIdError, match=r"user '981' was not in training; use recommend_for"):
        Vocabulary.of(["1"], "user").index("981")


def test_csr_is_sorted_and_without_repeats():
    csr = Csr.of([2, 0, 2, 0, 2], [3, 1, 0, 1, 2], (4, 5))
    assert csr.indptr.tolist() == [0, 1, 1, 4, 4]
    assert csr.indices.tolist() == [1, 0, 2, 3]
    assert csr.item_counts.tolist() == [1, 1, 1, 1, 0]
    assert csr.users.tolist() == [0, 2, 2, 2]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), max_size=80))
def test_csr_holds_exactly_the_pairs(pairs):
    user, item = (np.array([p[k] for p in pairs], dtype=np.int32) for k in (0, 1))
    csr = Csr.of(user, item, (7, 9))
    assert list(zip(csr.users.tolist(), csr.indices.tolist(), strict=True)) == sorted(set(pairs))
    assert csr.overlap(csr) == len(csr)


def test_positives_follow_the_threshold(tiny):
    assert tiny.n_positives == 5  # five different pairs
    likes = tiny.with_positives(4)
    assert likes.n_positives == 3
    assert len(likes) == 6
    with pytest.raises(DataError, match="the highest is 5"):
        tiny.with_positives(6)


def test_threshold_is_compared_in_the_precision_of_the_ratings():
    data = Interactions.from_columns([1, 2], [1, 2], rating=[4.1, 4.0])
    assert data.filter(min_rating=4.1).n_interactions == 1


def test_filter_with_nothing_left_is_an_error(tiny):
    with pytest.raises(DataError, match="lower min_rating"):
        tiny.filter(min_rating=5.5)
    with pytest.raises(DataError, match="no rating column"):
        Interactions.from_columns([1], [1]).filter(min_rating=1)


def test_deduplicate_rules(tiny):
    last, highest = tiny.deduplicate(), tiny.deduplicate(keep="highest")
    assert len(last) == len(highest) == 5
    pick = lambda d: d.rating[(d.user_idx == 0) & (d.item_idx == 0)].tolist()  # noqa: E731
    assert pick(last) == [1]
    assert pick(highest) == [5]
    assert last.deduplicate() is last


def test_deduplicate_prefers_the_latest_time_over_the_last_row():
    data = Interactions.from_columns([1, 1], [1, 1], rating=[5, 3], timestamp=[200, 100])
    assert data.deduplicate().rating.tolist() == [5]


def test_min_per_user_and_k_core():
    data = Interactions.from_columns(["a", "a", "b", "b", "c"], [1, 2, 1, 2, 3])
    assert data.min_per_user(2).shape == (2, 2)
    core = data.k_core(2)
    assert core.shape == (2, 2)
    assert core.users.ids.to_list() == ["a", "b"]
    with pytest.raises(DataError, match="smaller k"):
        data.k_core(3)


def test_labels_follow_their_items():
    data = Interactions.from_columns(["a", "b"], [7, 8]).with_labels({"7": "Seven <b>", "9": "none"})
    assert [data.label(0), data.label(1)] == ["Seven <b>", "8"]
    assert data.subset(np.array([1])).compact().item_labels.to_list() == [None]


def test_frozen(tiny):
    with pytest.raises(ValueError, match="read-only"):
        tiny.user_idx[0] = 3
    with pytest.raises(AttributeError):
        tiny.name = "other"


def test_fingerprint_tells_data_apart(tiny):
    assert tiny.fingerprint == tiny.subset(np.arange(6)).fingerprint
    assert tiny.fingerprint != tiny.subset(np.arange(5)).fingerprint
    assert tiny.fingerprint != tiny.with_positives(4).fingerprint
    as_text = Interactions.from_columns(["1"], ["2"])
    assert as_text.fingerprint != Interactions.from_columns([1], [2]).fingerprint


def test_density_counts_pairs_not_rows() -> None:
    assert Interactions.from_columns([0, 0, 1], [0, 0, 1]).density == 0.5


def test_a_scipy_matrix_is_a_copy_that_may_be_changed():
    """Some libraries reject read-only arrays."""
    data = Interactions.from_columns([1, 1, 2], [1, 2, 2])
    matrix = data.positives.to_scipy()
    assert matrix.toarray().tolist() == [[1, 1], [0, 1]]
    matrix.indices[0] = 1
    assert data.positives.indices.tolist() == [0, 1, 1]
