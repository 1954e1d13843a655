"""The inverse of large matrices."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from purerec.engines.closed_form import dense


@pytest.mark.parametrize(("n", "panel"), [(1, 7), (6, 7), (7, 7), (8, 7), (50, 7), (300, 64), (321, 64), (640, 64)])
def test_a_large_matrix_is_inverted_in_panels(n, panel, monkeypatch):
    """As good as LAPACK on the whole matrix, where OpenBLAS is unreliable above some size."""
    monkeypatch.setattr(dense, "_PANEL", panel)
    monkeypatch.setattr(dense, "_BLOCK", panel)
    rng = np.random.default_rng(n)
    x = (rng.random((2 * n, n)) < np.minimum(0.5, 3 / np.arange(1, n + 1) ** 0.7)).astype(np.float32)
    matrix = x.T @ x + 2 * np.eye(n, dtype=np.float32)
    expected = np.linalg.inv(matrix.astype(np.float64))
    whole = matrix.copy()
    dense.invert(whole)
    monkeypatch.setattr(dense, "_DIRECT", 0)
    dense.invert(matrix)
    np.testing.assert_allclose(matrix, expected, atol=3e-7)
    np.testing.assert_allclose(matrix, whole, atol=3e-7)
    np.testing.assert_array_equal(matrix, matrix.T)


def test_the_same_bits_with_any_number_of_blas_threads(monkeypatch):
    x = (np.random.default_rng(0).random((1500, 900)) < 0.1).astype(np.float32)
    matrix = x.T @ x + 50 * np.eye(900, dtype=np.float32)

    def inverse(threads: int) -> np.ndarray:
        found = matrix.copy()
        with threadpool_limits(threads, "blas"):
            dense.invert(found)
        return found

    np.testing.assert_array_equal(inverse(1), inverse(2))
    monkeypatch.setattr(dense, "_ALONE", 899)  # above that, BLAS chooses its own threads
    np.testing.assert_allclose(inverse(1), inverse(2), atol=1e-6)


def test_lapack_never_sees_a_matrix_that_crashes_it(monkeypatch):
    """40,981 items crashed the process; only the size decides."""
    seen = []
    monkeypatch.setattr(dense, "_invert_whole", lambda matrix: seen.append("whole"))
    monkeypatch.setattr(dense, "_invert_in_panels", lambda matrix: seen.append("panels"))
    for n in (4, 5):
        monkeypatch.setattr(dense, "_DIRECT", 4)
        dense.invert(np.eye(n, dtype=np.float32))
    assert seen == ["whole", "panels"]
    monkeypatch.undo()
    assert dense._DIRECT < 20_000
