"""A data source from plain arrays, for tests of the engines."""

from __future__ import annotations

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.source import MemorySource


def source_of(indptr: np.ndarray, indices: np.ndarray, n_items: int) -> MemorySource:
    """(n_users + 1,) and (n_positive,), ascending in each row."""
    return MemorySource(Csr(indptr, indices, (len(indptr) - 1, n_items)))
