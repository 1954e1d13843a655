"""The softmax loss: the small-prior risk with a prior per user that is profiled out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from conftest import need
from purerec.errors import DataError
from purerec.paper import risks


def numbers(low: int, high: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, st.integers(low, high), elements=st.floats(-8, 8))


@settings(max_examples=30)
@given(numbers(1, 1), numbers(1, 12), st.floats(0, 0.5))
def test_softmax_is_the_small_prior_risk_with_the_prior_profiled_out(
    phi_p: np.ndarray, phi_u: np.ndarray, observed: float
) -> None:
    """One positive and its draws: the least value over a bias b that is added to all logits of the user."""
    found = risks.SoftmaxRisk(observed).value(phi_p, phi_u) + 1

    def with_bias(b: float) -> float:
        stratum = observed * math.exp(phi_p[0] + b) + (1 - observed) * float(np.mean(np.exp(phi_u + b)))
        return -phi_p[0] - b + stratum

    best = -math.log(observed * math.exp(phi_p[0]) + (1 - observed) * float(np.mean(np.exp(phi_u))))
    assert found == pytest.approx(with_bias(best), rel=1e-9, abs=1e-9)
    assert all(found <= with_bias(best + step) for step in (-2.0, -0.1, 0.1, 2.0))
    if observed == 0:
        assert with_bias(0.7) == pytest.approx(risks.small_prior_risk(phi_p + 0.7, phi_u + 0.7), rel=1e-9)
        assert found == pytest.approx(risks.profiled_prior_risk(phi_p, phi_u), rel=1e-9, abs=1e-9)


def test_the_profiled_pu_risk_of_a_small_prior_comes_to_the_softmax_loss() -> None:
    """Eq. (PUrisk) itself, over the prior, with the bias that makes it least, as the prior falls."""
    rng = np.random.default_rng(0)
    phi_p, phi_u = rng.normal(1, 1, 3), rng.normal(-1, 1, 40)
    gaps = []
    for prior in (1e-2, 1e-4, 1e-6):
        biases = math.log(prior) + np.linspace(-3, 3, 6001)
        least = min(risks.pu_risk(phi_p + b, phi_u + b, prior) / prior for b in biases) + math.log(prior)
        gaps.append(abs(least - risks.profiled_prior_risk(phi_p, phi_u)))
    assert gaps[0] < 0.05
    assert gaps[1] < 5e-4
    assert gaps[2] < 5e-6


@settings(max_examples=30)
@given(numbers(1, 5), st.integers(0, 12), st.floats(0, 0.5), st.floats(0.1, 5))
def test_softmax_gradients_agree_with_autograd(phi_p: np.ndarray, more: int, own: float, temperature: float) -> None:
    need("torch")
    import torch

    rng = np.random.default_rng(more)
    phi_u = rng.normal(0, 2, phi_p.size + more)
    form = risks.SoftmaxRisk(own, temperature)
    leaves = [torch.tensor(phi, requires_grad=True) for phi in (phi_p, phi_u)]
    losses = []
    for k in range(phi_p.size):  # the loss of a positive and of its draws, as in the docstring
        drawn = leaves[1][k :: phi_p.size] / temperature
        inside = own * torch.exp(leaves[0][k] / temperature) + (1 - own) * torch.exp(drawn).mean()
        losses.append(-leaves[0][k] / temperature + torch.log(inside))
    loss = torch.stack(losses).mean()
    loss.backward()
    assert form.value(phi_p, phi_u) == pytest.approx(loss.item(), rel=1e-9, abs=1e-9)
    for leaf, slope in zip(leaves, form.slopes(phi_p, phi_u), strict=True):
        np.testing.assert_allclose(slope, leaf.grad.numpy(), rtol=1e-7, atol=1e-10)


def test_shares_of_a_positive_and_its_draws_add_up_to_one() -> None:
    rng = np.random.default_rng(1)
    own, drawn = risks.SoftmaxRisk(0.1, 0.5).shares(rng.normal(0, 300, 3), rng.normal(0, 300, 8))
    for k in range(3):
        assert own[k] + drawn[k::3].sum() == pytest.approx(1)


def test_few_draws_underestimate_the_softmax_loss() -> None:
    """The logarithm of a mean of few draws is below that of the mean of all; less so with more draws."""
    rng = np.random.default_rng(2)
    catalogue = rng.normal(0, 2, 2000)
    form, phi_p = risks.SoftmaxRisk(0.0), np.array([1.0])
    exact = form.value(phi_p, catalogue)
    means = [np.mean([form.value(phi_p, rng.choice(catalogue, n)) for _ in range(2000)]) for n in (2, 8, 64)]
    assert means[0] < means[1] - 0.3 < means[2] - 0.4 < exact


def test_a_positive_without_a_draw_is_refused() -> None:
    with pytest.raises(DataError, match="at least one"):
        risks.SoftmaxRisk(0.1).value(np.zeros(3), np.zeros(2))
