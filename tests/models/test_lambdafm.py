"""LambdaFM: its samplers, as models. The distributions themselves are tested with BPR's kernel in test_bpr.py."""

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard
from purerec.models.bpr import BPR
from purerec.models.lambdafm import LambdaFM
from purerec.sampling.dynamic import rank_shares
from purerec.sampling.unlabeled import UnlabeledSampler, weighted
from purerec.training.run import Run


@pytest.mark.parametrize("sampler", ["static", "dynamic", "rank"])
def test_every_sampler_learns(sampler):
    model = LambdaFM(sampler=sampler, dim=4).fit(checkerboard(), seed=0)
    found = model.recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9


def test_one_candidate_is_bpr():
    data = checkerboard()
    shared = {"epochs": 5, "regularization": 0.01, "bias_regularization": 0.0, "learning_rate": 0.05}
    lambda_fm = LambdaFM(**shared, sampler="dynamic", candidates=1).fit(data, seed=4)
    bpr = BPR(**shared, negatives="uniform").fit(data, seed=4)
    np.testing.assert_array_equal(lambda_fm.score(np.arange(20)), bpr.score(np.arange(20)))


def test_shares_fall_with_the_rank():
    shares = rank_shares(8, 0.3)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares[1:] / shares[:-1], np.exp(-1 / (8 * 0.3)))


def test_weighted_tables_draw_by_the_weights_given():
    indptr, indices = np.array([0, 1, 3]), np.array([0, 1, 2], np.int32)
    tables = UnlabeledSampler(indptr, indices, 4).tables
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    new = weighted(tables, shares)
    assert new.weight / new.weight.sum() == pytest.approx(shares, abs=1e-6)
    assert new.free_weight.tolist() == [new.weight[1:].sum(), new.weight[[0, 3]].sum()]
    assert tables.weight.tolist() == [1, 1, 1, 0]


def test_a_small_rho_pushes_popular_items_down():
    rng = np.random.default_rng(0)
    item = np.minimum(rng.geometric(0.1, 3000), 40)
    data = pr.Interactions.from_columns(rng.integers(0, 200, 3000), item)
    popularity = data.positives.item_counts

    def liking(rho):
        scores = LambdaFM(sampler="static", rho=rho, epochs=20).fit(data).score(np.arange(200)).mean(0)
        return np.corrcoef(scores, popularity)[0, 1]

    assert liking(0.05) < liking(10.0)


@pytest.mark.parametrize("sampler", ["static", "dynamic", "rank"])
def test_a_resumed_run_ends_in_the_same_bits(sampler, tmp_path):
    data = checkerboard()
    make = lambda: LambdaFM(epochs=12, sampler=sampler)  # noqa: E731
    whole = make().fit(data, seed=2)
    make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=5, stop_after=7))
    resumed = make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", resume=True))
    np.testing.assert_array_equal(resumed.score(np.arange(20)), whole.score(np.arange(20)))
