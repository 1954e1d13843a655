"""Positives of some parts, put together again; how workers use them is in engines/distributed/test_reading.py."""

import numpy as np
import pytest

import purerec as pr
from purerec.data.large.shares import joined, left_out, read_ids, read_share
from purerec.data.pairs import Csr
from purerec.errors import DataError

WHOLE = Csr.of([0, 0, 1, 2, 2, 2], [1, 3, 0, 0, 1, 2], (4, 4))


def test_shares_are_joined_to_the_whole():
    shares = [(np.array([0, 2]), np.array([2, 3]), np.array([1, 3, 0, 1, 2], np.int32))]
    shares += [(np.array([1, 3]), np.array([1, 0]), np.array([0], np.int32))]
    found = joined(shares, WHOLE.shape)
    assert np.array_equal(found.indptr, WHOLE.indptr)
    assert np.array_equal(found.indices, WHOLE.indices)


def test_what_is_left_out():
    users, items = left_out(WHOLE, Csr.of([0, 1, 2, 2], [3, 0, 0, 2], (4, 4)))
    assert list(zip(users, items, strict=True)) == [(0, 1), (2, 1)]
    assert [len(found) for found in left_out(WHOLE, WHOLE)] == [0, 0]


@pytest.mark.parametrize(
    "other",
    [
        Csr.of([0, 0, 1, 2, 2, 2], [1, 2, 0, 0, 1, 2], (4, 4)),
        Csr.of([0, 1, 2, 2, 2], [2, 0, 0, 1, 2], (4, 4)),
        Csr.of([3], [3], (4, 4)),
        Csr.of([0], [1], (5, 4)),
    ],
    ids=["another item", "another and one less", "another user's", "of others"],
)
def test_positives_of_something_else(other):
    assert left_out(WHOLE, other) is None


def test_a_threshold_needs_ratings(tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item\n" + "".join(f"u{n},i{n % 3}\n" for n in range(9)))
    data = pr.ingest(tmp_path / "clicks.csv", tmp_path / "data", partitions=4)
    place = read_ids(data).item_place
    assert sum(len(read_share(data, [part], place, None).positives) for part in range(4)) == 9
    with pytest.raises(DataError, match="has no ratings"):
        read_share(data, [0], place, 4)
