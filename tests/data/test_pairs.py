"""Repeated pairs: which of their rows is kept, against a loop over the rows."""

import numpy as np
import pytest

from purerec.data.pairs import last_of_each_pair, sorted_matrix


def kept_by_a_loop(user, item, value):
    best = {}
    for row, pair in enumerate(zip(user.tolist(), item.tolist(), strict=True)):
        if pair not in best or value is None or value[row] >= value[best[pair]]:
            best[pair] = row
    found = np.zeros(len(user), dtype=bool)
    found[list(best.values())] = True
    return found


@pytest.mark.parametrize("with_value", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7, 300])
def test_the_highest_and_of_equal_ones_the_last(n, with_value):
    rng = np.random.default_rng(n)
    user, item = (rng.integers(0, size, n, dtype=np.int32) for size in (9, 6))
    value = rng.integers(0, 3, n) if with_value else None
    np.testing.assert_array_equal(last_of_each_pair(user, item, (9, 6), value), kept_by_a_loop(user, item, value))


def test_rows_are_sorted_and_repeats_stay_in_their_order():
    user, item = np.array([1, 0, 1, 1, 0]), np.array([2, 1, 0, 2, 1])
    matrix = sorted_matrix(user, item, np.arange(5), (2, 3))
    assert matrix.indptr.tolist() == [0, 2, 5]
    assert matrix.indices.tolist() == [1, 1, 0, 2, 2]
    assert matrix.data.tolist() == [1, 4, 2, 0, 3]
