"""Products between items, summed over workers."""

import numpy as np
import pytest

from engines.distributed.threads import with_group
from purerec.data.interactions import Csr
from purerec.engines.closed_form.dense import products
from purerec.engines.distributed.gram import lead_products


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_the_sum_over_workers_is_the_whole(n_workers):
    rng = np.random.default_rng(0)
    x = Csr.of(rng.integers(0, 40, 600), rng.integers(0, 25, 600), (40, 25)).to_scipy().astype(np.float32)
    whole = products(x)
    assert np.array_equal(with_group(n_workers, lambda group: lead_products(group, x)), whole)  # of whole numbers
    x.data = rng.random(x.nnz, dtype=np.float32)
    shared = with_group(n_workers, lambda group: lead_products(group, x))
    np.testing.assert_allclose(shared, products(x), rtol=1e-5)
