"""The small solver against LAPACK in double precision."""

import numpy as np
import pytest

from purerec.engines.closed_form import cholesky
from purerec.jit.decorator import kernel


@kernel()
def solved(a, n):
    return cholesky.solve(a, n)


@kernel()
def cleared(a, n):
    cholesky.clear(a, n)


def solution(matrix, right):
    n = len(matrix)
    height = cholesky.padded_height(n)
    width = cholesky.padded_width(height)
    a = np.full(cholesky.scratch_size(n), 1e30, dtype=np.float32)
    cleared(a, n)
    rows = a.reshape(-1, width)
    rows[:n, :n] += np.triu(matrix) + np.tril(np.full((n, n), 7.0), -1)  # the lower triangle is not read
    rows[:n, height] = right
    return rows[height, :n] if solved(a, n) else None


@pytest.mark.parametrize("n", [*range(1, 36), 63, 64, 65, 100, 127, 200])
def test_solutions_are_those_of_lapack(n):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((2 * n, n))
    matrix, right = x.T @ x + n * np.eye(n), rng.standard_normal(n)
    expected = np.linalg.solve(matrix, right)
    np.testing.assert_allclose(solution(matrix, right), expected, atol=2e-5 * np.abs(expected).max())


def test_a_system_without_unknowns():
    assert solution(np.zeros((0, 0)), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.ones((6, 6)), -np.eye(5), np.full((2, 2), np.nan)])
def test_what_has_no_solution_is_told(matrix):
    assert solution(matrix, np.ones(len(matrix))) is None


def test_rows_do_not_share_their_cache_lines():
    for n in range(600):
        height = cholesky.padded_height(n)
        width = cholesky.padded_width(height)
        assert n <= height < width
        assert height % 4 == width % 16 == 0
        assert width % 64
