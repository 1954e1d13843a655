"""Products between items, summed over workers."""

import numpy as np
import pytest

import purerec as pr
from engines.distributed.threads import with_group
from purerec.data.pairs import Csr
from purerec.engines.closed_form.dense import products
from purerec.engines.distributed import helping
from purerec.engines.distributed.gram import follow_products, lead_products
from purerec.engines.distributed.group import sharing_with


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_the_sum_over_workers_is_the_whole(n_workers):
    rng = np.random.default_rng(0)
    x = Csr.of(rng.integers(0, 40, 600), rng.integers(0, 25, 600), (40, 25)).to_scipy().astype(np.float32)
    whole = products(x)
    assert np.array_equal(with_group(n_workers, lambda group: lead_products(group, x)), whole)  # integers
    x.data = (rng.random(25, dtype=np.float32) + 0.1)[x.indices]  # weights by item, as in PURE's history
    shared = with_group(n_workers, lambda group: lead_products(group, x))
    np.testing.assert_allclose(shared, products(x), rtol=1e-5)
    assert np.array_equal(shared, with_group(1, lambda group: lead_products(group, x)))
    x.data = rng.random(x.nnz, dtype=np.float32)
    shared = with_group(n_workers, lambda group: lead_products(group, x))
    np.testing.assert_allclose(shared, products(x), rtol=1e-5)


def test_the_history_of_pure_is_that_of_one_process_whoever_counts(monkeypatch):
    """Up to rounding; `test_reading` checks the bits for any number of workers."""
    rng = np.random.default_rng(0)
    positives = Csr.of(rng.integers(0, 90, 1500), (50 * rng.random(1500) ** 2).astype(np.int64), (90, 50))
    model, helped = pr.PURE(), []

    def follow(group, told):
        helped.append(group.rank)
        follow_products(group, told)

    monkeypatch.setattr(helping, "follow_products", follow)
    (alone,) = model._fit_history(positives, [10.0], 50)

    def fitted(group):
        with sharing_with(group):
            return model._fit_history(positives, [10.0], 50)

    (shared,) = with_group(3, fitted)
    assert sorted(helped) == [1, 2]
    np.testing.assert_allclose(shared.matrix, alone.matrix, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"user_power": 0.3, "item_power": 0.2}, {"neighbors": 5}])
def test_ease_by_workers_is_ease(settings):
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(rng.integers(0, 90, 1500), (50 * rng.random(1500) ** 2).astype(np.int64))

    def fitted(group):
        with sharing_with(group):
            return pr.EASE(regularization=20, **settings).fit(log)

    alone = pr.EASE(regularization=20, **settings).fit(log)
    shared = with_group(3, fitted)
    np.testing.assert_allclose(shared.score(range(90)), alone.score(range(90)), rtol=1e-3, atol=1e-5)
