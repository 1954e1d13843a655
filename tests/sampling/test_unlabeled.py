"""Draws are never observed, exactly uniform, pure functions of the seed, and cannot spin."""

from __future__ import annotations

import time

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from purerec.errors import ConfigError, DataError
from purerec.sampling.unlabeled import UnlabeledSampler

Csr = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
FILTERS = pytest.mark.parametrize("memory_mb", [256.0, 0.0], ids=["bitmap", "bloom"])


def csr(observed: npt.NDArray[np.bool_]) -> Csr:
    indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(observed)[1].astype(np.int32)


def random_matrix(n_users: int, n_items: int, density: float, seed: int) -> npt.NDArray[np.bool_]:
    observed: npt.NDArray[np.bool_] = np.random.default_rng(seed).random((n_users, n_items)) < density
    return observed


def test_kernels_see_one_type_whatever_flags_the_arrays_have() -> None:
    """Otherwise everything that draws would be compiled again for writable arrays."""
    observed = random_matrix(5, 7, 0.4, 0)
    constant = csr(observed)
    for array in constant:
        array.flags.writeable = False
    one, other = (numba.typeof(UnlabeledSampler(*arrays, 7).tables) for arrays in (csr(observed), constant))
    assert one == other


def assert_fits(counts: npt.NDArray[np.int64], expected: npt.NDArray[np.float64]) -> None:
    """A chi-square test that a correct sampler fails once in 10,000 (the seeds are fixed, so: never)."""
    assert counts[expected == 0].sum() == 0
    kept = expected > 0
    statistic = float(np.sum((counts[kept] - expected[kept]) ** 2 / expected[kept]))
    assert statistic < chi2.ppf(1 - 1e-4, int(kept.sum()) - 1)
    assert statistic > chi2.ppf(1e-4, int(kept.sum()) - 1)


@given(
    n_users=st.integers(1, 12),
    n_items=st.integers(1, 90),
    density=st.floats(0, 1),
    seed=st.integers(0, 2**40),
    memory_mb=st.sampled_from([256.0, 0.0]),
)
@settings(max_examples=60, deadline=None)
def test_never_an_observed_pair(n_users: int, n_items: int, density: float, seed: int, memory_mb: float) -> None:
    observed = random_matrix(n_users, n_items, density, seed % 1000)
    sampler = UnlabeledSampler(*csr(observed), n_items, memory_mb=memory_mb, full_users="skip")
    full = observed.all(axis=1)
    users = np.tile(np.arange(n_users), 40)
    for items in (sampler.items_for(users, seed=seed), sampler.popular_items_for(users, seed=seed)):
        assert np.array_equal(items < 0, full[users])
        drawn = items >= 0
        assert not observed[users[drawn], items[drawn]].any()
    if not full.all():
        pair_users, pair_items = sampler.pairs(300, seed=seed)
        assert not observed[pair_users, pair_items].any()


@FILTERS
@pytest.mark.parametrize("density", [0.05, 0.6, 0.97])
def test_items_of_a_user_are_uniform(memory_mb: float, density: float) -> None:
    observed = random_matrix(3, 150, density, 5)
    sampler = UnlabeledSampler(*csr(observed), 150, memory_mb=memory_mb)
    for user in range(3):
        n = 60_000
        counts = np.bincount(sampler.items_for(np.full(n, user), seed=user), minlength=150)
        assert_fits(counts, n * ~observed[user] / (~observed[user]).sum())


@FILTERS
@pytest.mark.parametrize("density", [0.05, 0.9])
def test_pairs_are_uniform_even_with_full_users(memory_mb: float, density: float) -> None:
    observed = random_matrix(20, 30, density, 6)
    observed[7] = True
    sampler = UnlabeledSampler(*csr(observed), 30, memory_mb=memory_mb)
    n = 200_000
    users, items = sampler.pairs(n, seed=1)
    counts = np.bincount(users * 30 + items, minlength=600)
    assert_fits(counts, n * (~observed).ravel() / sampler.n_unobserved)


@FILTERS
def test_the_fallback_over_pairs_is_uniform(memory_mb: float) -> None:
    observed = np.ones((40, 50), dtype=bool)
    observed[[0, 3, 3, 39, 20], [49, 0, 7, 20, 20]] = False
    sampler = UnlabeledSampler(*csr(observed), 50, memory_mb=memory_mb)
    users, items = sampler.pairs(20_000, seed=9)
    counts = np.bincount(users * 50 + items, minlength=2000)
    assert_fits(counts, 20_000 * (~observed).ravel() / 5)


@FILTERS
@pytest.mark.parametrize("touches", ["few", "all but two of the popular ones"])
def test_popular_items_come_in_proportion(memory_mb: float, touches: str) -> None:
    observed = random_matrix(200, 40, 1.0, 3) & (np.random.default_rng(3).random((200, 40)) < np.linspace(0, 1, 40))
    observed[0] = False
    observed[0, 3 : 5 if touches == "few" else 38] = True
    sampler = UnlabeledSampler(*csr(observed), 40, memory_mb=memory_mb)
    weight = observed.sum(axis=0) * ~observed[0]
    n = 100_000
    counts = np.bincount(sampler.popular_items_for(np.zeros(n, int), seed=2), minlength=40)
    assert_fits(counts, n * weight / weight.sum())


@FILTERS
def test_popular_fallback_is_in_proportion(memory_mb: float) -> None:
    # User 0 has touched the one item with nearly all the weight, so most draws go through the enumeration.
    observed = np.zeros((1000, 6), dtype=bool)
    observed[:, 2] = True
    observed[1:4, 4] = True
    observed[5, 5] = True
    sampler = UnlabeledSampler(*csr(observed), 6, memory_mb=memory_mb)
    counts = np.bincount(sampler.popular_items_for(np.zeros(20_000, int), seed=4), minlength=6)
    assert_fits(counts, 20_000 * np.array([0, 0, 0, 0, 0.75, 0.25]))


def test_popular_is_uniform_where_no_untouched_item_has_a_positive() -> None:
    observed = np.zeros((2, 12), dtype=bool)
    observed[0, :4] = True
    sampler = UnlabeledSampler(*csr(observed), 12)
    counts = np.bincount(sampler.popular_items_for(np.zeros(20_000, int), seed=4), minlength=12)
    assert_fits(counts, 20_000 * ~observed[0] / 8)


def test_draws_are_pure_functions_of_seed_and_counter() -> None:
    observed = random_matrix(30, 80, 0.3, 8)
    bitmap = UnlabeledSampler(*csr(observed), 80)
    bloom = UnlabeledSampler(*csr(observed), 80, memory_mb=0.0)
    assert bitmap.has_bitmap
    assert not bloom.has_bitmap
    users = np.random.default_rng(0).integers(0, 30, 1000)
    whole = bitmap.items_for(users, seed=3)
    assert np.array_equal(whole, bitmap.items_for(users, seed=3))
    assert np.array_equal(whole, bloom.items_for(users, seed=3))
    assert np.array_equal(whole[617:], bitmap.items_for(users[617:], seed=3, counter=617))
    assert not np.array_equal(whole, bitmap.items_for(users, seed=4))
    popular = bitmap.popular_items_for(users, seed=3)
    assert np.array_equal(popular[100:], bloom.popular_items_for(users[100:], seed=3, counter=100))
    pairs, later = np.stack(bitmap.pairs(500, seed=3)), np.stack(bloom.pairs(400, seed=3, counter=100))
    assert np.array_equal(pairs[:, 100:], later)


@FILTERS
def test_a_single_free_item_is_quick(memory_mb: float) -> None:
    n_items = 20_000
    observed = np.ones((1, n_items), dtype=bool)
    observed[0, 12_345] = False
    sampler = UnlabeledSampler(*csr(observed), n_items, memory_mb=memory_mb)
    sampler.items_for([0], seed=0)
    start = time.perf_counter()
    items = sampler.items_for(np.zeros(100_000, int), seed=0)
    assert time.perf_counter() - start < 1.0  # by rejection: two billion tries
    assert np.all(items == 12_345)


def test_full_users_by_rule() -> None:
    observed = random_matrix(4, 6, 0.3, 1)
    observed[2] = True
    with pytest.raises(DataError, match="user index 2 has touched all 6 items"):
        UnlabeledSampler(*csr(observed), 6).items_for([0, 2, 1], seed=0)
    skipping = UnlabeledSampler(*csr(observed), 6, full_users="skip")
    assert (skipping.items_for([0, 2, 1, 2], seed=0) < 0).tolist() == [False, True, False, True]
    with pytest.raises(DataError, match="every user has touched every item"):
        UnlabeledSampler(*csr(np.ones((2, 2), dtype=bool)), 2).pairs(1, seed=0)


def test_bad_positives_are_refused() -> None:
    with pytest.raises(DataError, match="at least one user"):
        UnlabeledSampler([0], [], 3)
    with pytest.raises(DataError, match="indptr must ascend"):
        UnlabeledSampler([0, 2, 1], [0, 1], 3)
    with pytest.raises(DataError, match=r"range\(3\)"):
        UnlabeledSampler([0, 1], [3], 3)
    with pytest.raises(DataError, match="without repeats"):
        UnlabeledSampler([0, 2], [1, 1], 3)
    with pytest.raises(DataError, match="from 0 to 0, not 1"):
        UnlabeledSampler([0, 1], [1], 3).items_for([1], seed=0)
    with pytest.raises(DataError, match="a flat list"):
        UnlabeledSampler([0, 1], [1], 3).items_for([[0]], seed=0)
    with pytest.raises(DataError, match="whole numbers"):
        UnlabeledSampler([0, 1], [1], 3).items_for([0.5], seed=0)
    with pytest.raises(ConfigError, match="full_users"):
        UnlabeledSampler([0, 1], [1], 3, full_users="ignore")  # type: ignore[arg-type]
    assert UnlabeledSampler([0, 0, 2, 2, 3], [0, 2, 1], 3).n_unobserved == 9
