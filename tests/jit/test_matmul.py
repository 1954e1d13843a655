"""Matrix products inside kernels agree with numpy's, for all sizes and for both orders of `a`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerec.jit.decorator import Scalar, kernel
from purerec.jit.matmul import multiply, stride_of
from purerec.types import F32


@kernel()
def product(
    a: F32, a_row: Scalar, a_column: Scalar, b: F32, b_row: Scalar, out: F32, out_row: Scalar, sizes: tuple[int, ...]
) -> None:
    n, depth, width = sizes
    multiply(a, np.int64(0), a_row, a_column, b, b_row, out, np.int64(0), out_row, n, depth, width)


@kernel()
def stride(width: Scalar, out: F32) -> None:
    out[0] = stride_of(width)


def padded(matrix: np.ndarray, row: int) -> F32:
    """The matrix row by row, with NaN between the rows, which must not be read."""
    flat = np.full((len(matrix), row), np.nan, np.float32)
    flat[:, : matrix.shape[1]] = matrix
    return flat.reshape(-1)


def check(n: int, depth: int, width: int, turned: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((n, depth)), rng.standard_normal((depth, width))
    lying, row = (a.T, n + 3) if turned else (a, depth + 3)
    steps = (1, row) if turned else (row, 1)
    out = np.full(n * (width + 5), np.nan, np.float32)
    product(padded(lying, row), *steps, padded(b, width + 1), width + 1, out, width + 5, (n, depth, width))
    found = out.reshape(n, -1)
    np.testing.assert_allclose(found[:, :width], a @ b, rtol=1e-4, atol=1e-4)
    assert np.isnan(found[:, width:]).all(), "written beyond the matrix"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 20), st.integers(1, 40), st.integers(1, 6).map(lambda n: 8 * n), st.booleans(), st.integers(0, 99)
)
def test_products_are_numpys(n: int, depth: int, width: int, turned: bool, seed: int) -> None:
    check(n, depth, width, turned, seed)


@pytest.mark.parametrize("turned", [False, True])
def test_deep_products_go_on_from_block_to_block(turned: bool) -> None:
    check(13, 600, 24, turned, 0)


def test_rows_never_fall_on_the_same_sets() -> None:
    out = np.zeros(1, np.float32)
    for width in range(1, 200):
        stride(width, out)
        lines, rest = divmod(int(out[0]), 16)
        assert (rest, lines % 2) == (0, 1)
        assert width <= out[0] < width + 48
