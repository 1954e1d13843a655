"""The propositions, checked numerically: a tabular discriminator trained on V ends where they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerec.errors import ConfigError, DataError
from purerec.paper import theory
from purerec.paper.risks import sigmoid, softplus

SHAPE = (4, 3)
"""Four users, three items, one logit for each pair."""


def world(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random p_p, p_n, p_g over the pairs, nonzero in every cell."""
    rng = np.random.default_rng(seed)
    p_p, p_n, p_g = (rng.dirichlet(np.full(12, 2.0)).reshape(SHAPE) for _ in range(3))
    return p_p, p_n, p_g


def mixture(p_p: np.ndarray, p_n: np.ndarray, prior: float) -> np.ndarray:
    return prior * p_p + (1 - prior) * p_n


def reachable_world(prior: float) -> tuple[np.ndarray, np.ndarray]:
    """p_p and p_n so similar that p_u <= 2 p_p everywhere: only then does an optimal generator exist."""
    rng = np.random.default_rng(5)
    p_p = rng.uniform(1.0, 1.4, SHAPE)
    p_n = rng.uniform(1.0, 1.4, SHAPE)
    p_p, p_n = p_p / p_p.sum(), p_n / p_n.sum()
    assert np.all(2 * p_p >= mixture(p_p, p_n, prior))
    return p_p, p_n


def value(phi: np.ndarray, p_p: np.ndarray, p_u: np.ndarray, p_g: np.ndarray, prior: float) -> float:
    """V(D, G) of Eq. (final_objective) in expectation, one logit per cell."""
    return float(np.sum(prior * p_p * phi - (p_u + p_g) * softplus(phi)))


def best_logits(p_p: np.ndarray, p_u: np.ndarray, p_g: np.ndarray, prior: float) -> np.ndarray:
    """Gradient ascent on V(D). V is concave in phi: a step of 1 over the largest curvature is safe."""
    phi = np.zeros(SHAPE)
    step = 4 / (p_u + p_g).max()
    for _ in range(100_000):
        gradient = prior * p_p - (p_u + p_g) * sigmoid(phi)
        phi += step * gradient
        if np.abs(gradient).max() < 1e-13:
            return phi
    raise AssertionError("the ascent did not converge")


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_proposition_1_trained_discriminator_is_the_optimal_one(prior: float, seed: int) -> None:
    p_p, p_n, p_g = world(seed)
    p_u = mixture(p_p, p_n, prior)
    phi = best_logits(p_p, p_u, p_g, prior)
    np.testing.assert_allclose(
        sigmoid(phi), theory.optimal_discriminator(p_p, p_u, p_g, prior), rtol=1e-7, atol=1e-10
    )


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_proposition_2_value_at_the_trained_discriminator(prior: float, seed: int) -> None:
    p_p, p_n, p_g = world(seed)
    p_u = mixture(p_p, p_n, prior)
    trained = value(best_logits(p_p, p_u, p_g, prior), p_p, p_u, p_g, prior)
    assert trained == pytest.approx(theory.generator_value(p_p, p_n, p_g, prior), rel=1e-10)


@pytest.mark.parametrize("prior", [0.05, 0.3, 0.8])
def test_theorem_2_optimal_generator_makes_a_constant_discriminator(prior: float) -> None:
    p_p, p_n = reachable_world(prior)
    p_u = mixture(p_p, p_n, prior)
    p_g = theory.equilibrium_generator(p_p, p_u)
    assert not np.allclose(p_g, p_p)  # the optimum is not a copy of the relevant pairs
    phi = best_logits(p_p, p_u, p_g, prior)
    np.testing.assert_allclose(sigmoid(phi), theory.equilibrium_discriminator(prior), rtol=1e-8)
    assert value(phi, p_p, p_u, p_g, prior) == pytest.approx(theory.equilibrium_value(prior), rel=1e-10)
    assert theory.generator_value(p_p, p_n, p_g, prior) == pytest.approx(theory.equilibrium_value(prior), rel=1e-12)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.95), st.floats(0.02, 1.0))
def test_theorem_2_any_other_generator_has_a_larger_value(seed: int, prior: float, share: float) -> None:
    p_p, p_n = reachable_world(prior)
    best = theory.equilibrium_generator(p_p, mixture(p_p, p_n, prior))
    other = np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(SHAPE)
    p_g = (1 - share) * best + share * other  # from close to the optimum to far away
    assert theory.generator_value(p_p, p_n, p_g, prior) > theory.equilibrium_value(prior)


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.95))
def test_the_value_is_never_below_the_equilibrium(seed: int, prior: float) -> None:
    p_p, p_n, p_g = world(seed)
    assert theory.generator_value(p_p, p_n, p_g, prior) >= theory.equilibrium_value(prior) - 1e-12


def test_a_small_share_of_fakes_leaves_the_ranking() -> None:
    """The note on ranking: with fakes of weight w, D* = prior p_p / (p_u + w p_g) goes to the PU optimum."""
    p_p, p_n = reachable_world(0.1)
    p_u = mixture(p_p, p_n, 0.1)
    p_g = theory.equilibrium_generator(p_p, p_u)
    assert np.ptp(0.1 * p_p / (p_u + 1.0 * p_g)) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(
        np.argsort(0.1 * p_p / (p_u + 0.01 * p_g), axis=None), np.argsort(0.1 * p_p / p_u, axis=None)
    )


def test_unreachable_equilibrium_is_an_error() -> None:
    p_p = np.array([0.9, 0.1, 0.0])
    p_u = np.array([0.2, 0.3, 0.5])
    with pytest.raises(DataError, match="2 of 3 cells"):
        theory.equilibrium_generator(p_p, p_u)


def test_equilibrium_value_known_answers() -> None:
    # prior -> 1: H(1/2) = log 2. prior -> 0: nothing left to distinguish.
    assert theory.equilibrium_value(1 - 1e-12) == pytest.approx(-2 * math.log(2))
    assert theory.equilibrium_value(1e-12) == pytest.approx(0.0, abs=1e-10)
    assert theory.equilibrium_value(0.5) == pytest.approx(2 * (0.25 * math.log(0.25) + 0.75 * math.log(0.75)))


def test_optimal_discriminator_in_an_empty_cell() -> None:
    p = np.array([0.5, 0.5, 0.0])
    np.testing.assert_allclose(theory.optimal_discriminator(p, p, p, 0.2), [0.1, 0.1, 0.0])


@pytest.mark.parametrize("bad", [np.array([0.5, 0.6]), np.array([1.5, -0.5]), np.array([math.nan, 1.0])])
def test_what_is_not_a_distribution_is_an_error(bad: np.ndarray) -> None:
    good = np.array([0.5, 0.5])
    with pytest.raises(DataError, match="sum to 1"):
        theory.generator_value(good, good, bad, 0.1)


def test_unlabeled_that_cannot_contain_the_positives_is_an_error() -> None:
    with pytest.raises(DataError, match="at least prior"):
        theory.optimal_discriminator(np.array([0.9, 0.1]), np.array([0.1, 0.9]), np.array([0.5, 0.5]), 0.5)


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, math.nan])
def test_prior_out_of_bounds_is_an_error(prior: float) -> None:
    with pytest.raises(ConfigError, match="prior"):
        theory.equilibrium_value(prior)


# --- Lemma 1 and the sampling bound


def test_estimation_error_terms_known_answer() -> None:
    terms = theory.estimation_error_terms(n_p=100, n_u=400, n_n=25, prior=0.2)
    assert terms == pytest.approx((0.2 / 10 + 1 / 20, 0.8 / 5))
    with pytest.raises(ConfigError, match="n_u"):
        theory.estimation_error_terms(n_p=1, n_u=0, n_n=1, prior=0.2)


@given(st.integers(1, 10**6), st.floats(1e-6, 0.3), st.sampled_from([0.25, 1.0, 4.0, 9.0]))
def test_theorem_1_is_lemma_1_solved_for_the_unlabeled(n_p: int, prior: float, ratio: float) -> None:
    """Just enough unlabeled pairs: the PU side is no larger. One per cent fewer: it is larger."""
    n_p *= 4  # so that n_n = C n_p is whole for every C above
    if (math.sqrt(ratio) + 1) * prior >= 0.95:
        return
    n_n = int(ratio * n_p)
    n_u = theory.unlabeled_needed(n_p, prior, ratio)
    enough = theory.estimation_error_terms(n_p, n_u, n_n, prior)
    assert enough.pu <= enough.pn * (1 + 1e-12)
    if n_u > 200:
        short = theory.estimation_error_terms(n_p, int(n_u * 0.99), n_n, prior)
        assert short.pu > short.pn


def test_theorem_1_as_printed_is_not_enough() -> None:
    """The printed sqrt(C) in the numerator leaves PU learning with the looser bound as soon as C > 1."""
    n_p, prior, ratio = 10_000, 0.1, 4.0
    printed = math.ceil(math.sqrt(ratio) * n_p / (1 - (math.sqrt(ratio) + 1) * prior) ** 2)
    terms = theory.estimation_error_terms(n_p, printed, int(ratio * n_p), prior)
    assert terms.pu > terms.pn
    assert printed < theory.unlabeled_needed(n_p, prior, ratio)


# --- a user as the sum of their items


def test_the_squared_pu_risk_of_summed_items_is_the_objective_of_ease() -> None:
    rng = np.random.default_rng(0)
    x, b = (rng.random((30, 7)) < 0.3).astype(float), rng.normal(size=(7, 7))
    assert theory.squared_pu_risk(x, b) == pytest.approx(np.sum((x - x @ b) ** 2))
    # ... which is Eq. (PUrisk) with the loss (t - phi)^2, over all pairs, at the observed share.
    phi, prior = x @ b, x.mean()
    p = phi[x > 0]
    risk = prior * np.mean((1 - p) ** 2) - prior * np.mean(p**2) + np.mean(phi**2)
    assert theory.squared_pu_risk(x, b) == pytest.approx(x.size * risk)


def test_white_fakes_with_target_zero_are_the_l2_of_ease() -> None:
    """The weights that minimise the risk with many white fakes are those of the closed form."""
    rng = np.random.default_rng(1)
    x, size, n = (rng.random((200, 6)) < 0.3).astype(float), 20.0, 200_000
    fakes = rng.normal(0, math.sqrt(size / n), (n, 6))
    both = np.concatenate([x, fakes])
    target = np.concatenate([x, np.zeros((n, 6))])
    found = np.zeros((6, 6))
    for item in range(6):  # least squares without the item itself: diag B = 0
        others = [j for j in range(6) if j != item]
        found[others, item] = np.linalg.lstsq(both[:, others], target[:, item], rcond=None)[0]
    inverse = np.linalg.inv(x.T @ x + size * np.eye(6))
    ease = -inverse / np.diag(inverse)
    np.fill_diagonal(ease, 0)
    np.testing.assert_allclose(found, ease, atol=2e-3)
    at = theory.squared_pu_risk(x, found, fakes)
    assert at == pytest.approx(np.sum((x - x @ found) ** 2) + size * np.sum(found**2), rel=1e-3)
    for _ in range(20):
        step = rng.normal(0, 0.01, (6, 6))
        np.fill_diagonal(step, 0)
        assert theory.squared_pu_risk(x, found + step, fakes) > at


def test_the_bound_on_unlabeled_pairs() -> None:
    assert theory.unlabeled_needed(64, 0.1) == 100  # 64 / 0.8^2
    assert theory.unlabeled_needed(1000, 1e-9) == 1001
    assert theory.unlabeled_needed(100, 0.1, ratio=4.0) == math.ceil(400 / 0.7**2)  # not 200 / 0.7^2, as printed
    assert theory.unlabeled_needed(0, 0.1) == 0


@given(n=st.integers(1, 10**6), prior=st.floats(1e-6, 0.3), ratio=st.floats(0.1, 5))
def test_the_bound_satisfies_the_inequality_it_comes_from(n: int, prior: float, ratio: float) -> None:
    if (math.sqrt(ratio) + 1) * prior >= 0.99:
        return
    n_u = theory.unlabeled_needed(n, prior, ratio)
    right = (1 - prior) / math.sqrt(ratio * n)
    assert prior / math.sqrt(n) + 1 / math.sqrt(n_u) <= right * (1 + 1e-9)
    if n_u > 1:
        assert prior / math.sqrt(n) + 1 / math.sqrt(n_u - 1) >= right * (1 - 1e-9)


@pytest.mark.parametrize(
    ("n", "prior", "ratio"),
    [(-1, 0.1, 1.0), (5, 0.0, 1.0), (5, 1.0, 1.0), (5, 0.5, 1.0), (5, 0.1, 0.0), (5, 0.3, 9.0)],
)
def test_no_bound_for_bad_inputs(n: int, prior: float, ratio: float) -> None:
    with pytest.raises(ConfigError):
        theory.unlabeled_needed(n, prior, ratio)
