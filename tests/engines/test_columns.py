"""The columns of a step: all that its rows use, a sample of the others, and weights that account for the rest."""

import numpy as np
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from purerec.engines.columns import choose_columns


def rows_of(seed, n_rows, n_columns):
    rng = np.random.default_rng(seed)
    return scipy.sparse.csr_array((rng.random((n_rows, n_columns)) < 0.2).astype(np.float32))


@given(seed=st.integers(0, 10**6), n_rows=st.integers(0, 6), n_columns=st.integers(1, 40), most=st.integers(0, 50))
@settings(max_examples=100, deadline=None)
def test_what_is_chosen(seed, n_rows, n_columns, most):
    rows = rows_of(seed, n_rows, n_columns)
    found = choose_columns(rows, most, np.random.default_rng(seed))
    chosen = np.arange(n_columns) if found.chosen is None else found.chosen
    own = np.unique(rows.indices)
    assert np.all(np.diff(chosen) > 0)
    assert np.isin(own, chosen).all()
    assert len(chosen) == len(own) + min(most, n_columns - len(own))
    np.testing.assert_array_equal(chosen[found.places], rows.indices)
    np.testing.assert_array_equal(found.begins, rows.indptr)
    assert (found.stands_for[np.isin(chosen, own)] == 1).all()
    if most:
        assert np.isclose(found.stands_for.sum(), n_columns)


def test_sums_over_all_columns_are_right_in_the_mean():
    rows, values = rows_of(0, 3, 200), np.random.default_rng(1).random(200)
    rng = np.random.default_rng(2)
    found = [choose_columns(rows, 20, rng) for _ in range(4000)]
    sums = [float(columns.stands_for @ values[columns.chosen]) for columns in found]
    assert abs(np.mean(sums) - values.sum()) < 4 * np.std(sums) / np.sqrt(len(sums))
