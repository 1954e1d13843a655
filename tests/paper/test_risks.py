"""The objectives against brute force on D itself, their limits, and autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from conftest import need
from purerec.errors import DataError
from purerec.paper import risks

LOG2 = math.log(2.0)
moderate = arrays(np.float64, st.integers(1, 12), elements=st.floats(-15, 15))
extreme = arrays(np.float32, st.integers(1, 12), elements=st.floats(-1e4, 1e4, width=32))
priors = st.floats(1e-6, 0.9)


def discriminator(phi: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-phi))


# --- softplus and sigmoid


def test_softplus_and_sigmoid_known_answers() -> None:
    phi = np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(risks.softplus(phi), [math.log1p(math.exp(-1)), LOG2, math.log1p(math.e)])
    np.testing.assert_allclose(risks.sigmoid(phi), [1 / (1 + math.e), 0.5, math.e / (1 + math.e)])


def test_softplus_and_sigmoid_at_the_ends_of_float32() -> None:
    phi = np.array([-1e4, 1e4, -50.0, 50.0], dtype=np.float32)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        plus, d = risks.softplus(phi), risks.sigmoid(phi)
    assert plus.dtype == d.dtype == np.float32
    np.testing.assert_allclose(plus, [0.0, 1e4, math.exp(-50), 50.0], rtol=1e-6)
    np.testing.assert_allclose(d, [0.0, 1.0, math.exp(-50), 1.0], rtol=1e-6)


@given(extreme)
def test_softplus_is_odd_plus_identity_and_sigmoid_sums_to_one(phi: np.ndarray) -> None:
    np.testing.assert_allclose(risks.softplus(phi) - risks.softplus(-phi), phi, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(risks.sigmoid(phi) + risks.sigmoid(-phi), 1.0, rtol=1e-6)


# --- the equations, term by term, on D itself


@given(moderate, moderate, priors)
def test_pn_risk_is_its_equation(phi_p: np.ndarray, phi_n: np.ndarray, prior: float) -> None:
    d_p, d_n = discriminator(phi_p), discriminator(phi_n)
    brute = prior * np.mean(-np.log(d_p)) + (1 - prior) * np.mean(-np.log(1 - d_n))
    assert risks.pn_risk(phi_p, phi_n, prior) == pytest.approx(brute, rel=1e-6, abs=1e-9)


@given(moderate, moderate, priors)
def test_pu_risk_is_its_equation(phi_p: np.ndarray, phi_u: np.ndarray, prior: float) -> None:
    d_p, d_u = discriminator(phi_p), discriminator(phi_u)
    r_p_plus, r_p_minus, r_u_minus = -np.log(d_p).mean(), -np.log(1 - d_p).mean(), -np.log(1 - d_u).mean()
    brute = prior * r_p_plus - prior * r_p_minus + r_u_minus
    assert risks.pu_risk(phi_p, phi_u, prior) == pytest.approx(brute, rel=1e-6, abs=1e-8)
    assert risks.negative_risk(phi_p, phi_u, prior) == pytest.approx(
        r_u_minus - prior * r_p_minus, rel=1e-6, abs=1e-8
    )


@given(moderate, moderate, moderate, moderate, priors)
def test_v_d1_and_v_d2_are_their_equations(
    phi_p: np.ndarray, phi_u: np.ndarray, fake_item: np.ndarray, fake_user: np.ndarray, prior: float
) -> None:
    d = discriminator(phi_p)
    assert risks.v_d1(phi_p, prior) == pytest.approx(
        np.sum(prior * np.log(d) - prior * np.log(1 - d)), rel=1e-6, abs=1e-8
    )
    brute = sum(np.log(1 - discriminator(phi)).sum() for phi in (phi_u, fake_item, fake_user))
    assert risks.v_d2(phi_u, fake_item, fake_user) == pytest.approx(brute, rel=1e-6, abs=1e-8)
    # Per sample, maximising V(D)_1 + V(D)_2 without fakes is minimising the PU risk.
    assert risks.pu_risk(phi_p, phi_u, prior) == pytest.approx(
        -risks.v_d1(phi_p, prior) / phi_p.size - risks.v_d2(phi_u) / phi_u.size, abs=1e-9
    )


@given(moderate)
def test_generator_objective_is_its_equation(phi: np.ndarray) -> None:
    d = discriminator(phi)
    assert risks.generator_objective(phi) == pytest.approx(-np.log(d).mean(), rel=1e-6, abs=1e-9)
    assert risks.generator_objective(phi, kind="saturating") == pytest.approx(
        np.log(1 - d).mean(), rel=1e-6, abs=1e-9
    )


def test_known_answers() -> None:
    zero = np.zeros(3)
    assert risks.pn_risk(zero, zero, 0.3) == pytest.approx(LOG2)
    assert risks.pu_risk(zero, zero, 0.3) == pytest.approx(LOG2)
    assert risks.pu_risk(np.array([2.0, 4.0]), zero, 0.5) == pytest.approx(-1.5 + LOG2)
    assert risks.v_d1(np.array([2.0, 4.0]), 0.5) == 3.0
    assert risks.v_d2(zero) == pytest.approx(-3 * LOG2)
    assert risks.generator_objective(zero) == pytest.approx(LOG2)
    assert risks.generator_objective(zero, kind="saturating") == pytest.approx(-LOG2)


def test_pu_risk_is_unbiased_for_the_pn_risk() -> None:
    """On whole populations (not samples) the two risks are equal."""
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(1, 1, 300), rng.normal(-1, 1, 700)
    unlabeled = np.concatenate([positive, negative])
    assert risks.pu_risk(positive, unlabeled, 0.3) == pytest.approx(risks.pn_risk(positive, negative, 0.3))


@pytest.mark.parametrize(
    "risk", [risks.pn_risk, risks.pu_risk, risks.nnpu_risk, risks.nnpu_step_objective, risks.negative_risk]
)
@pytest.mark.parametrize("sign_p", [-1, 1])
@pytest.mark.parametrize("sign_u", [-1, 1])
def test_risks_are_finite_at_the_ends(risk: Callable[..., float], sign_p: int, sign_u: int) -> None:
    phi_p = np.full(1000, sign_p * 1e4, dtype=np.float32)
    phi_u = np.full(1000, sign_u * 1e4, dtype=np.float32)
    in_float64 = risk(phi_p.astype(np.float64), phi_u.astype(np.float64), 1e-4)
    assert math.isfinite(in_float64)
    assert risk(phi_p, phi_u, 1e-4) == pytest.approx(in_float64, rel=1e-6)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(DataError, match="no samples"):
        risks.pu_risk(np.zeros(0), np.zeros(2), 0.1)


@given(moderate, moderate, priors)
def test_perfect_fakes_weighted_by_the_prior_undo_the_correction(
    phi_p: np.ndarray, phi_u: np.ndarray, prior: float
) -> None:
    """With p_g = p_p and the prior as the fake weight, what remains is the class-weighted PN loss."""
    with_fakes = risks.pu_risk(phi_p, phi_u, prior) + prior * float(np.mean(risks.softplus(phi_p)))
    plain = prior * float(np.mean(risks.softplus(-phi_p))) + float(np.mean(risks.softplus(phi_u)))
    assert with_fakes == pytest.approx(plain, rel=1e-9, abs=1e-9)


# --- the non-negative correction


@given(moderate, moderate, priors)
def test_nnpu_equals_pu_while_the_negative_part_is_sound(phi_p: np.ndarray, phi_u: np.ndarray, prior: float) -> None:
    negative = risks.negative_risk(phi_p, phi_u, prior)
    value, step = risks.nnpu_risk(phi_p, phi_u, prior), risks.nnpu_step_objective(phi_p, phi_u, prior)
    pu = risks.pu_risk(phi_p, phi_u, prior)
    assert value >= 0
    if negative >= 0:
        assert value == pytest.approx(pu, rel=1e-9, abs=1e-9)
        assert step == pu
    else:
        assert value == pytest.approx(pu - negative, rel=1e-9, abs=1e-9)
        assert step == -negative > 0


def test_nnpu_clamps_an_overfitted_model_and_climbs_back() -> None:
    phi_p, phi_u, prior = np.array([8.0]), np.array([-8.0]), 0.5
    assert risks.pu_risk(phi_p, phi_u, prior) < 0
    assert risks.nnpu_risk(phi_p, phi_u, prior) == pytest.approx(0.5 * math.log1p(math.exp(-8)))
    grad_p, grad_u = risks.nnpu_gradient(phi_p, phi_u, prior)
    assert grad_p[0] > 0 > grad_u[0]  # positives down, unlabeled up: the opposite of a PU step
    before = risks.negative_risk(phi_p, phi_u, prior)
    assert risks.negative_risk(phi_p - 0.1 * grad_p, phi_u - 0.1 * grad_u, prior) > before


def test_nnpu_boundary_counts_as_sound() -> None:
    phi = np.array([0.0])  # R_u^- = log 2, and prior R_p^- = log 2 with a prior of 1
    assert risks.negative_risk(phi, phi, 1.0) == 0.0
    assert risks.nnpu_step_objective(phi, phi, 1.0) == risks.pu_risk(phi, phi, 1.0)
    assert risks.nnpu_gradient(phi, phi, 1.0) == risks.pu_gradient(phi, phi, 1.0)


# --- the limit of a small prior


@given(
    arrays(np.float64, st.integers(1, 12), elements=st.floats(-3, 3)),
    arrays(np.float64, st.integers(1, 12), elements=st.floats(-3, 3)),
)
def test_small_prior_limit(phi_p: np.ndarray, phi_u: np.ndarray) -> None:
    limit = risks.small_prior_risk(phi_p, phi_u)
    gaps = []
    for prior in (1e-2, 1e-4, 1e-6):
        log_prior = math.log(prior)
        gaps.append(risks.pu_risk(phi_p + log_prior, phi_u + log_prior, prior) / prior + log_prior - limit)
    # To first order the error is mean exp(2 phi') * prior / 2: a hundredth of the prior, a hundredth of it.
    bound = math.exp(6)
    assert all(abs(gap) <= bound * prior for gap, prior in zip(gaps, (1e-2, 1e-4, 1e-6), strict=True))


def test_small_prior_risk_is_a_density_ratio_fit() -> None:
    """Over one cell with p_p = a, p_u = b, the minimum is at phi' = log(a / b)."""
    a, b, grid = 0.3, 0.05, np.linspace(-3, 5, 80001)
    objective = [-a * phi + b * math.exp(phi) for phi in grid]
    assert grid[int(np.argmin(objective))] == pytest.approx(math.log(a / b), abs=2e-4)
    assert risks.small_prior_risk(np.array([1.0]), np.array([0.0])) == 0.0


# --- derivatives

PAIRS = [
    (risks.pn_risk, risks.pn_gradient),
    (risks.pu_risk, risks.pu_gradient),
    (risks.nnpu_step_objective, risks.nnpu_gradient),
]


@pytest.mark.parametrize(("risk", "gradient"), PAIRS)
@pytest.mark.parametrize("prior", [1e-4, 0.1, 0.9])
def test_gradients_agree_with_finite_differences(
    risk: Callable[..., float], gradient: Callable[..., tuple[np.ndarray, np.ndarray]], prior: float
) -> None:
    rng = np.random.default_rng(3)
    both = [rng.normal(0, 2, 4), rng.normal(0, 2, 7)]
    for side, grad in enumerate(gradient(*both, prior)):
        for k in range(both[side].size):
            up, down = [b.copy() for b in both], [b.copy() for b in both]
            up[side][k] += 1e-5
            down[side][k] -= 1e-5
            numeric = (risk(*up, prior) - risk(*down, prior)) / 2e-5
            assert grad[k] == pytest.approx(numeric, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("prior", [1e-4, 0.1, 0.95])
def test_gradients_agree_with_autograd(prior: float) -> None:
    need("torch")
    import torch

    plus = torch.nn.functional.softplus
    rng = np.random.default_rng(4)
    phi_p, phi_u = rng.normal(2, 2, 5), rng.normal(-2, 2, 9)

    def check(objective: Callable[..., Any], value: float, gradients: tuple[np.ndarray, ...]) -> None:
        leaves = [torch.tensor(phi, requires_grad=True) for phi in (phi_p, phi_u)][: len(gradients)]
        loss = objective(*leaves)
        loss.backward()
        assert float(loss.detach()) == pytest.approx(value, rel=1e-7)
        for leaf, gradient in zip(leaves, gradients, strict=True):
            np.testing.assert_allclose(leaf.grad.numpy(), gradient, rtol=1e-6, atol=1e-12)

    args = (phi_p, phi_u, prior)
    check(
        lambda p, n: prior * plus(-p).mean() + (1 - prior) * plus(n).mean(),
        risks.pn_risk(*args),
        risks.pn_gradient(*args),
    )
    # The PU risk as the paper writes it, three terms, against the linear form used here.
    check(
        lambda p, u: prior * plus(-p).mean() - prior * plus(p).mean() + plus(u).mean(),
        risks.pu_risk(*args),
        risks.pu_gradient(*args),
    )
    check(lambda f: plus(-f).mean(), risks.generator_objective(phi_p), (risks.generator_gradient(phi_p),))
    check(
        lambda f: -plus(f).mean(),
        risks.generator_objective(phi_p, "saturating"),
        (risks.generator_gradient(phi_p, "saturating"),),
    )
    if risks.negative_risk(*args) < 0:
        check(
            lambda p, u: prior * plus(p).mean() - plus(u).mean(),
            risks.nnpu_step_objective(*args),
            risks.nnpu_gradient(*args),
        )
    else:
        assert prior < 0.9  # the largest prior above does reach the corrected branch


@given(extreme)
def test_gradients_are_finite_and_bounded_at_the_ends(phi: np.ndarray) -> None:
    for gradient in (risks.pn_gradient, risks.pu_gradient, risks.nnpu_gradient):
        for side in gradient(phi, phi, 1e-4):
            assert side.dtype == np.float32
            assert np.all(np.abs(side) <= 1.0)
    assert np.all(risks.generator_gradient(phi) <= 0)


# --- the three risks as one form, and the stratum of observed pairs


@given(moderate, moderate, priors)
def test_the_one_form_is_each_risk_over_the_prior(phi_p: np.ndarray, phi_u: np.ndarray, prior: float) -> None:
    of = risks.LogisticRisk.of
    expected = {
        "pn": risks.pn_risk(phi_p, phi_u, prior),
        "pu": risks.pu_risk(phi_p, phi_u, prior),
        "nnpu": risks.nnpu_step_objective(phi_p, phi_u, prior),
    }
    gradients = {"pn": risks.pn_gradient, "pu": risks.pu_gradient, "nnpu": risks.nnpu_gradient}
    for kind in ("pn", "pu", "nnpu"):
        form = of(kind, prior)
        assert prior * form.value(phi_p, phi_u) == pytest.approx(expected[kind], rel=1e-9, abs=1e-9)
        for found, right in zip(form.slopes(phi_p, phi_u), gradients[kind](phi_p, phi_u, prior), strict=True):
            np.testing.assert_allclose(prior * found, right, rtol=1e-9, atol=1e-12)


@given(moderate, moderate, st.floats(1e-4, 0.9), st.floats(0, 1))
def test_the_stratified_form_is_its_equation(phi_p: np.ndarray, phi_u: np.ndarray, prior: float, part: float) -> None:
    observed = part * prior
    form = risks.LogisticRisk.of("pu", prior, observed)
    assert prior * form.value(phi_p, phi_u) == pytest.approx(
        risks.stratified_pu_risk(phi_p, phi_u, prior, observed), rel=1e-9, abs=1e-9
    )


@given(moderate, moderate, priors)
def test_with_the_prior_at_the_observed_share_it_is_the_pn_risk(
    phi_p: np.ndarray, phi_u: np.ndarray, prior: float
) -> None:
    """What GMF minimises: value and gradients."""
    stratified, pn = risks.LogisticRisk.of("pu", prior, prior), risks.LogisticRisk.of("pn", prior)
    assert stratified == pn


def test_the_stratified_estimator_has_the_mean_of_the_marginal_one_and_less_variance() -> None:
    """Over draws from a finite set of pairs: 40 of 500 are observed, and 120 are relevant."""
    rng = np.random.default_rng(0)
    phi = rng.normal(-1, 1.5, 500)
    phi[:40] += 2
    observed, prior, n_draws = 40 / 500, 120 / 500, 60
    marginal, stratified = [], []
    for _ in range(4000):
        everywhere = phi[rng.integers(500, size=n_draws)]
        unobserved = phi[40 + rng.integers(460, size=n_draws)]
        marginal.append(risks.pu_risk(phi[:40], everywhere, prior))
        stratified.append(risks.stratified_pu_risk(phi[:40], unobserved, prior, observed))
    exact = risks.pu_risk(phi[:40], phi, prior)
    error = np.std(marginal) / math.sqrt(len(marginal))
    assert np.mean(marginal) == pytest.approx(exact, abs=4 * error)
    assert np.mean(stratified) == pytest.approx(exact, abs=4 * error)
    assert np.var(stratified) < 0.7 * np.var(marginal)
    # As printed, with draws from the unobserved only, the estimate is different.
    printed = [risks.pu_risk(phi[:40], phi[40 + rng.integers(460, size=n_draws)], prior) for _ in range(4000)]
    assert abs(np.mean(printed) - exact) > 20 * error
