"""Both forms of item weights give the same answers, and come back from storage unchanged."""

import numpy as np
import pytest

from engines.closed_form import reference
from purerec.data.pairs import Csr
from purerec.engines.closed_form import DenseWeights, ItemWeights, SparseWeights
from purerec.errors import StoreError
from purerec.storage import check_layout

N = 12


@pytest.fixture
def matrix():
    rng = np.random.default_rng(0)
    found = rng.standard_normal((N, N)).astype(np.float32) * (rng.random((N, N)) < 0.4)
    found[7] = 0
    return found


@pytest.fixture(params=["dense", "sparse"])
def weights(request, matrix):
    return DenseWeights(matrix) if request.param == "dense" else sparse(matrix)


def sparse(matrix):
    row, column = np.nonzero(matrix)
    starts = np.searchsorted(row, np.arange(len(matrix) + 1)).astype(np.int64)
    return SparseWeights(starts, column.astype(np.int32), matrix[row, column])


def test_scores_are_sums_over_own_items(weights, matrix):
    positives = Csr.of([0, 0, 0, 2, 2, 3], [1, 7, 11, 3, 4, 7], (4, N))
    users = np.array([2, 0, 1, 0, 3])
    expected = reference.dense(positives)[users] @ matrix
    np.testing.assert_allclose(weights.scores(positives, users), expected, atol=1e-6)
    assert weights.scores(positives, users).dtype == np.float32
    assert weights.scores(positives, users[:0]).shape == (0, N)


@pytest.mark.parametrize("items", [[], [7], [3], [9, 2, 5]])
def test_a_history_its_shares_and_rows(weights, matrix, items):
    items = np.array(items, dtype=np.int32)
    np.testing.assert_allclose(weights.of_history(items), matrix[items].sum(axis=0), atol=1e-6)
    for target in range(N):
        np.testing.assert_array_equal(weights.shares(items, np.array([target, 0]))[:, 0], matrix[items, target])
    for item in items:
        np.testing.assert_array_equal(weights.row(item), matrix[item])
        weights.row(item)[:] = 0  # a copy
        np.testing.assert_array_equal(weights.row(item), matrix[item])


def test_there_and_back(weights, matrix):
    state = weights.state()
    check_layout(state, ItemWeights.kind_of(state).layout, {"items": N})
    assert ItemWeights.kind_of(state).layout is weights.layout
    again = ItemWeights.from_state({**state, "something": matrix}, N)
    assert type(again) is type(weights)
    np.testing.assert_array_equal([again.row(j) for j in range(N)], matrix)


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("weight_items", 0, N, "indices"),
        ("weight_items", 0, -1, "indices"),
        ("weight_items", 1, 0, "sorted, or repeat"),
        ("weight_starts", 3, 10**12, "rows of weights"),
        ("weight_starts", 0, 1, "rows of weights"),
        ("weight_starts", N, 1, "rows of weights"),
    ],
)
def test_indices_that_lead_out_of_the_weights_are_refused(matrix, name, at, value, message):
    state = {key: array.copy() for key, array in sparse(matrix).state().items()}
    state[name][at] = value
    with pytest.raises(StoreError, match=message):
        ItemWeights.from_state(state, N)


def test_weights_of_fewer_items_are_refused(matrix):
    with pytest.raises(StoreError, match="shape"):
        ItemWeights.from_state(sparse(matrix[:5, :5]).state(), N)
