"""The synthetic world: its truth is as documented, and its log shows only what was exposed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from purerec.data.synthetic import calibration
from purerec.data.synthetic import world as world_module
from purerec.data.synthetic.world import World, WorldSettings, make_world
from purerec.errors import ConfigError

EVERYONE = np.arange(400)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(users=400, items=300, prior=0.1, exposure=1.0, interactions=4000, seed=5)


def observed_matrix(world: World) -> npt.NDArray[np.bool_]:
    return np.asarray(world.observed.pairs.to_scipy().toarray() > 0)


def gini(counts: npt.NDArray[np.int64]) -> float:
    ordered = np.sort(counts)
    return float(1.0 - 2.0 * (np.cumsum(ordered) / ordered.sum()).mean() + 1.0 / len(ordered))


# ---------------------------------------------------------------------- relevance


@pytest.mark.parametrize("prior", [0.001, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("dim", [1, 8, 33])
def test_the_prior_is_the_mean_relevance(prior: float, dim: int) -> None:
    world = make_world(users=300, items=200, prior=prior, dim=dim, interactions=50)
    assert world.relevance(np.arange(300)).mean(dtype=np.float64) == pytest.approx(prior, rel=1e-4)


def test_the_prior_of_a_world_that_is_fitted_on_a_sample() -> None:
    world = make_world(users=3000, items=1500, prior=0.05, interactions=1000)
    assert calibration.PAIRS < 3000 * 1500
    assert world.relevance(np.arange(3000)).mean(dtype=np.float64) == pytest.approx(0.05, rel=0.015)


def test_labels_follow_the_relevance(world: World) -> None:
    """Among pairs with about the same rho, a share of rho is relevant: a chi-square over deciles."""
    rho, truth = world.relevance(EVERYONE).ravel().astype(float), world.truth(EVERYONE).ravel()
    order = np.argsort(rho)
    chi = 0.0
    for group in np.array_split(order, 10):
        expected, variance = rho[group].sum(), (rho[group] * (1 - rho[group])).sum()
        chi += (truth[group].sum() - expected) ** 2 / variance
    assert stats.chi2.sf(chi, 10) > 1e-3


def test_relevance_is_the_formula(world: World) -> None:
    logit = world.user_factors.astype(float) @ world.item_factors.astype(float).T + world.item_bias
    np.testing.assert_allclose(world.relevance(EVERYONE), 1 / (1 + np.exp(-logit)), rtol=1e-4, atol=1e-7)
    personal = world.user_factors.astype(float) @ world.item_factors.astype(float).T
    assert personal.std() == pytest.approx(world.settings.affinity, rel=0.15)


def test_the_truth_does_not_depend_on_how_it_is_asked_for(world: World) -> None:
    whole = world.truth(EVERYONE)
    for user in (0, 7, 399):
        np.testing.assert_array_equal(world.truth(user)[0], whole[user])
    np.testing.assert_array_equal(world.truth([9, 3, 9]), whole[[9, 3, 9]])
    assert world.truth(np.zeros(0, np.int64)).shape == (0, 300)


# ---------------------------------------------------------------------- exposure and the log


def test_observed_is_relevant_and_exposed(world: World) -> None:
    np.testing.assert_array_equal(observed_matrix(world), world.truth(EVERYONE) & world.exposed(EVERYONE))


def test_exposure_happens_as_often_as_it_says(world: World) -> None:
    """The jumps are exact: by item and by user, the number exposed matches the sum of the probabilities."""
    probability, exposed = world.exposure(EVERYONE).astype(float), world.exposed(EVERYONE)
    for axis in (0, 1):
        variance = (probability * (1 - probability)).sum(axis)
        z = (exposed.sum(axis) - probability.sum(axis)) / np.sqrt(variance)
        assert np.abs(z).max() < 5.0
        assert stats.chi2.sf((z**2).sum(), len(z)) > 1e-3
        assert stats.chi2.cdf((z**2).sum(), len(z)) > 1e-3


def test_exposures_of_neighbouring_ranks_are_independent() -> None:
    """A jump that is off by one would show as a correlation between items of adjacent rank."""
    world = make_world(users=4000, items=40, prior=0.3, exposure=0.5, interactions=10_000, activity=0.0, seed=2)
    by_rank = np.argsort(-world.item_weight)
    left = (world.exposed(np.arange(4000)) - world.exposure(np.arange(4000)))[:, by_rank]
    correlation = np.asarray(np.corrcoef(left.T))
    neighbours = np.diag(correlation, 1)
    assert np.abs(neighbours).max() < 4.5 / np.sqrt(4000)
    assert abs(neighbours.mean()) < 4.5 / np.sqrt(4000 * 39)


def test_exposure_is_independent_of_relevance_given_the_factors(world: World) -> None:
    """The residuals of the two are uncorrelated, overall and within every decile."""
    rho, e = world.relevance(EVERYONE).astype(float), world.exposure(EVERYONE).astype(float)
    left = (world.truth(EVERYONE) - rho) * (world.exposed(EVERYONE) - e)
    variance = rho * (1 - rho) * e * (1 - e)
    assert abs(left.sum()) / np.sqrt(variance.sum()) < 4.0
    for group in np.array_split(np.argsort(rho, axis=None), 10):
        assert abs(left.ravel()[group].sum()) / np.sqrt(variance.ravel()[group].sum()) < 4.5
    # Nor does an item's weight depend on its relevance.
    assert stats.spearmanr(world.item_weight, rho.mean(0)).pvalue > 1e-3


def test_without_bias_every_relevant_item_is_as_likely_to_be_seen() -> None:
    world = make_world(users=2000, items=300, exposure=0.0, prior=0.1, interactions=10_000, activity=0.0)
    relevant = world.truth(np.arange(2000)).sum(0)
    seen = world.observed.pairs.item_counts
    expected = relevant * seen.sum() / relevant.sum()
    chi = ((seen - expected) ** 2 / (expected * (1 - seen.sum() / relevant.sum()))).sum()
    assert 1e-3 < stats.chi2.sf(chi, len(seen) - 1) < 1 - 1e-3
    assert np.ptp(world.item_weight) == 0.0


def test_more_bias_concentrates_the_log() -> None:
    found = [
        gini(make_world(users=2000, items=500, exposure=bias, interactions=10_000).observed.pairs.item_counts)
        for bias in (0.0, 0.5, 1.0, 1.5)
    ]
    assert np.all(np.diff(found) > 0.05)


def test_activity_differs_between_users() -> None:
    same, different = (
        make_world(users=1000, items=500, interactions=10_000, activity=activity, affinity=0.0)
        for activity in (0.0, 1.0)
    )
    assert same.observed.pairs.counts.std() < 4.0 < different.observed.pairs.counts.std()


@pytest.mark.parametrize(
    ("users", "items", "interactions", "exposure"),
    [(300, 200, 1000, 1.0), (300, 200, 2800, 2.0), (5000, 3000, 200_000, 1.0), (5000, 3000, 200_000, 0.0)],
)
def test_the_log_is_as_long_as_wanted(users: int, items: int, interactions: int, exposure: float) -> None:
    world = make_world(users=users, items=items, interactions=interactions, exposure=exposure)
    assert len(world.observed) == pytest.approx(interactions, rel=0.02, abs=5 * interactions**0.5)


def test_default_length() -> None:
    assert WorldSettings(users=1000, items=5000).expected == 20_000
    assert WorldSettings(users=1000, items=100, prior=0.1).expected == 5000  # half of what is relevant


def test_ids_are_indices_and_rows_are_sorted(world: World) -> None:
    log = world.observed
    assert log.shape == (400, 300)
    assert (log.users[7], log.items[299]) == (7, 299)
    key = log.user_idx.astype(np.int64) * 300 + log.item_idx
    assert np.all(np.diff(key) > 0)
    assert log.rating is None
    assert log.n_positives == len(log)


# ---------------------------------------------------------------------- determinism


def test_same_settings_same_bits() -> None:
    first, second = (make_world(users=500, items=300, seed=11) for _ in range(2))
    assert first.observed.fingerprint == second.observed.fingerprint
    np.testing.assert_array_equal(first.truth(range(500)), second.truth(range(500)))
    other = make_world(users=500, items=300, seed=12)
    assert other.observed.fingerprint != first.observed.fingerprint


def test_the_number_of_threads_does_not_matter() -> None:
    code = "import purerec as pr; print(pr.make_world(users=3000, items=1000).observed.fingerprint)"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert found == {make_world(users=3000, items=1000).observed.fingerprint + "\n"}


def test_a_small_buffer_gives_the_same_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that outgrows the estimate is made in pieces, which makes no difference to the result."""
    whole = make_world(users=500, items=50, prior=0.3, interactions=5000)
    monkeypatch.setattr(WorldSettings, "expected", property(lambda self: 10.0))
    _, indptr, items = world_module._observe(whole, np.arange(500), relevant_only=True)
    np.testing.assert_array_equal(indptr, whole.observed.pairs.indptr)
    np.testing.assert_array_equal(items, whole.observed.pairs.indices)


# ---------------------------------------------------------------------- evaluating by the truth


def test_hidden_is_what_is_relevant_and_unobserved(world: World) -> None:
    hidden = world.hidden(users=None)
    found = hidden.pairs.to_scipy().toarray() > 0
    np.testing.assert_array_equal(found, world.truth(EVERYONE) & ~observed_matrix(world))
    assert hidden.users is world.observed.users
    assert hidden.items is world.observed.items


def test_hidden_of_some_users(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "_BLOCK_CELLS", 3000)
    part = world.hidden(users=50, seed=1)
    chosen = np.unique(part.user_idx)
    assert len(chosen) <= 50
    whole = world.hidden(users=None)
    np.testing.assert_array_equal(part.item_idx, whole.item_idx[np.isin(whole.user_idx, chosen)])
    assert part.fingerprint == world.hidden(users=50, seed=1).fingerprint
    assert part.fingerprint != world.hidden(users=50, seed=2).fingerprint


def test_true_split(world: World) -> None:
    split = world.true_split(users=100)
    assert split.train is world.observed
    assert split.valid is None
    assert split.test.fingerprint == world.hidden(users=100).fingerprint
    assert "truth" in split.describe()


def test_the_truth_can_be_learned_from_the_log() -> None:
    """On what is hidden, the true relevance is far better than popularity; an item-item model is in between."""
    world = make_world(users=1500, items=400, exposure=0.5, interactions=30_000, seed=1, prior=0.1)
    seen = observed_matrix(world).astype(float)
    hidden = world.hidden(users=None).pairs.to_scipy().toarray() > 0

    def precision(scores: npt.NDArray[np.float64]) -> float:
        top = np.argsort(-np.where(seen > 0, -np.inf, scores), axis=1)[:, :10]
        return float(np.take_along_axis(hidden, top, 1).mean())

    inverse = np.linalg.inv(seen.T @ seen + 200.0 * np.eye(400))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    popularity = precision(np.tile(seen.sum(0), (1500, 1)))
    learned = precision(seen @ weights)
    best = precision(world.relevance(np.arange(1500)).astype(float))
    assert popularity + 0.05 < learned < best - 0.05


# ---------------------------------------------------------------------- bounds


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": 0}, "users must be a whole number of 1"),
        ({"items": 2.5}, "items must be a whole number"),
        ({"dim": True}, "dim must be a whole number"),
        ({"prior": 0.0}, "prior must be a number strictly between 0 and 1, not 0.0"),
        ({"prior": float("nan")}, "prior must be"),
        ({"prior": "0.1"}, "prior must be"),
        ({"exposure": -1.0}, "exposure must be a number from 0 to 4, not -1.0"),
        ({"affinity": float("inf")}, "affinity must be"),
        ({"interactions": 0}, "interactions must be"),
        (
            {"interactions": 25_000},
            "cannot be observed where about 25,000 pairs are relevant; ask for at most 23,750",
        ),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_settings_are_checked(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_world(**changes)  # type: ignore[arg-type]


def test_user_idx_is_checked(world: World) -> None:
    with pytest.raises(ConfigError, match="from 0 to 399, not 0 to 400"):
        world.truth([0, 400])
    with pytest.raises(ConfigError, match="whole numbers"):
        world.relevance([0.5])
    with pytest.raises(ConfigError, match="users must be"):
        world.hidden(users=0)


def test_frozen(world: World) -> None:
    with pytest.raises(ValueError, match="read-only"):
        world.user_factors[0, 0] = 1.0


@settings(max_examples=40, deadline=None)
@given(
    users=st.integers(1, 60),
    items=st.integers(1, 60),
    dim=st.integers(1, 9),
    prior=st.floats(0.01, 0.99),
    exposure=st.floats(0.0, 4.0),
    activity=st.floats(0.0, 4.0),
    affinity=st.floats(0.0, 20.0),
    quality=st.floats(0.0, 20.0),
    seed=st.integers(0, 2**32),
)
def test_any_world_keeps_its_word(
    users: int,
    items: int,
    dim: int,
    prior: float,
    exposure: float,
    activity: float,
    affinity: float,
    quality: float,
    seed: int,
) -> None:
    world = make_world(
        users=users,
        items=items,
        dim=dim,
        prior=prior,
        exposure=exposure,
        activity=activity,
        affinity=affinity,
        quality=quality,
        seed=seed,
    )
    everyone = np.arange(users)
    np.testing.assert_array_equal(observed_matrix(world), world.truth(everyone) & world.exposed(everyone))
    rho, e = world.relevance(everyone).astype(float), world.exposure(everyone).astype(float)
    assert rho.mean() == pytest.approx(prior, rel=1e-3)
    assert (rho * e).sum() == pytest.approx(world.settings.expected, rel=1e-3)
    assert len(world.hidden(users=None)) == world.truth(everyone).sum() - len(world.observed)


# ---------------------------------------------------------------------- scale


def test_a_million_interactions_take_seconds_and_no_matrix() -> None:
    make_world(users=10, items=10)  # compile
    tracemalloc.start()
    start = time.perf_counter()
    world = make_world(users=20_000, items=10_000, interactions=1_000_000)
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(world.observed) == pytest.approx(1_000_000, rel=0.02)
    assert seconds < 20.0  # a second on an idle machine
    assert peak < 120e6  # a matrix of bytes would be 200 MB; the calibration's million pairs are most of this
