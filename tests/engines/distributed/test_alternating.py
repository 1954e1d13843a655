"""iALS with several workers: the same numbers as with one, up to the rounding of a sum."""

import numpy as np
import pytest

import purerec as pr
from engines.distributed.threads import with_group
from purerec.engines.distributed.group import sharing_with


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    return pr.Interactions.from_columns(rng.integers(0, 90, 1500), (50 * rng.random(1500) ** 2).astype(np.int64))


def fitted(log, group=None):
    model = pr.IALS(dim=12, epochs=4)
    if group is None:
        return model.fit(log, seed=0)
    with sharing_with(group):
        return model.fit(log, seed=0)


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_workers_solve_what_one_process_solves(log, n_workers):
    alone, shared = fitted(log), with_group(n_workers, lambda group: fitted(log, group))
    for name, value in alone._state().items():
        np.testing.assert_allclose(shared._state()[name], value, rtol=1e-3, atol=1e-5)
    assert shared.recommend(k=5)["item"].to_list() == alone.recommend(k=5)["item"].to_list()
    one, other = (model.history.records[-1].values["loss"] for model in (alone, shared))
    assert one == pytest.approx(other, rel=1e-5)


def test_more_workers_than_items(log):
    few = pr.Interactions.from_columns([0, 0, 1, 2, 2], [0, 1, 1, 0, 1])
    alone, shared = fitted(few), with_group(4, lambda group: fitted(few, group))
    np.testing.assert_allclose(shared._state()["user"], alone._state()["user"], rtol=1e-3, atol=1e-5)
