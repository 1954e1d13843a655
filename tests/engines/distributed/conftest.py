import numpy as np
import pytest

from purerec.data.pairs import Csr
from purerec.engines.source import MemorySource


@pytest.fixture(scope="module")
def source():
    """Even users have touched even items, odd ones odd items."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, 90, 1500)
    item = 2 * (25 * rng.random(1500) ** 2).astype(np.int64) + user % 2
    return MemorySource(Csr.of(user, item, (90, 50)))
