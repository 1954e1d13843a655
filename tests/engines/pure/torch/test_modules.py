"""The losses and their gradients against the formulas; the constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from conftest import need

need("torch")

import torch

from engines.pure.torch.reference import (
    GAMES,
    batch_of,
    double,
    engine_of,
    interesting,
    name_of,
    numpy_d_loss,
    numpy_fake_phis,
    numpy_fakes,
    numpy_phi,
    settings_of,
)
from purerec.engines.pure.spec import GameSettings
from purerec.engines.pure.torch.modules import limit_norm, real_side, recolour
from purerec.errors import DivergedError
from purerec.paper import risks

Params = dict[str, np.ndarray]


def slopes(p: Params, name: str, loss: Callable[[Params], float]) -> Iterator[tuple[tuple[int, ...], float]]:
    """(index, slope of the loss) of each element of a parameter, by differences."""
    for at in np.ndindex(p[name].shape):
        up, down = p[name].copy(), p[name].copy()
        up[at] += 1e-6
        down[at] -= 1e-6
        yield at, (loss(p | {name: up}) - loss(p | {name: down})) / 2e-6


@pytest.mark.parametrize("settings", GAMES, ids=name_of)
def test_discriminator_loss_and_gradient(settings: GameSettings) -> None:
    """Loss and, by finite differences with the fakes held fixed, the gradient of every parameter of D."""
    start = interesting(settings)
    engine, batch, p = engine_of(settings, params=start), batch_of(settings), double(start)
    fakes = numpy_fakes(p, batch, settings)
    loss = engine.step_discriminator(batch, learning_rate=1e-3)
    assert loss == pytest.approx(numpy_d_loss(p, batch, settings, fakes), rel=2e-5)
    state, after = engine.state(), engine.parameters()
    for name in p:
        if "_gen." in name:
            np.testing.assert_array_equal(after[name], start[name])
            assert not state[f"{name}/m"].any()
            continue
        gradient = state[f"{name}/m"] / (1 - settings.beta1)
        for at, slope in slopes(p, name, lambda p: numpy_d_loss(p, batch, settings, fakes)):
            assert gradient[at] == pytest.approx(slope, rel=1e-3, abs=2e-4), (name, at)


@pytest.mark.parametrize("settings", [s for s in GAMES if s.generators != "none"], ids=name_of)
@pytest.mark.parametrize("kind", ["nonsaturating", "saturating"])
def test_generator_loss_and_gradient(settings: GameSettings, kind: str) -> None:
    """The constraint's map is held constant: differences are taken of the raw fakes through a frozen map."""
    settings = replace(settings, generator_loss=kind)  # type: ignore[arg-type]
    start = interesting(settings)
    engine, batch, p = engine_of(settings, params=start), batch_of(settings), double(start)

    def loss_of(fake_user: np.ndarray | None, fake_item: np.ndarray | None) -> float:
        phis = numpy_fake_phis(p, batch, fake_user, fake_item)
        return sum(risks.generator_objective(phi, kind) for phi in phis)  # type: ignore[arg-type]

    fake_user, fake_item = numpy_fakes(p, batch, settings)
    loss = engine.step_generators(batch, learning_rate=1e-3)
    assert loss == pytest.approx(loss_of(fake_user, fake_item), rel=2e-5)
    state, after = engine.state(), engine.parameters()
    free = replace(settings, constraint="none")
    raw_user, raw_item = numpy_fakes(p, batch, free)

    def frozen(
        raw_then: np.ndarray | None, fake_then: np.ndarray | None, raw: np.ndarray | None
    ) -> np.ndarray | None:
        """The map raw_then -> fake_then applied to raw: a scale per row (norm) or one affine map (recolour)."""
        if raw is None or raw_then is None or fake_then is None or settings.constraint == "none":
            return raw
        if settings.constraint == "norm":
            return raw * (np.linalg.norm(fake_then, axis=1) / np.linalg.norm(raw_then, axis=1))[:, None]
        colour = np.linalg.lstsq(raw_then - raw_then.mean(0), fake_then - fake_then.mean(0), rcond=None)[0]
        return fake_then.mean(0) + (raw - raw_then.mean(0)) @ colour

    def loss_with(p: Params) -> float:
        user, item = numpy_fakes(p, batch, free)
        return loss_of(frozen(raw_user, fake_user, user), frozen(raw_item, fake_item, item))

    checked = 0
    for name in p:
        if "_gen." not in name:
            np.testing.assert_array_equal(after[name], start[name])
            continue
        gradient = state[f"{name}/m"] / (1 - settings.beta1)
        for at, slope in slopes(p, name, loss_with):
            assert gradient[at] == pytest.approx(slope, rel=2e-3, abs=2e-4), (name, at)
            checked += slope != 0
    assert checked > 20


def test_the_corrected_nnpu_step_is_reached_above() -> None:
    settings = settings_of(risk="nnpu", prior=0.95)
    p, batch = double(interesting(settings)), batch_of(settings)
    phi_p, phi_u = (
        numpy_phi(p, batch.pos_user, batch.pos_item, None, None),
        numpy_phi(p, batch.unl_user, batch.unl_item, None, None),
    )
    assert risks.negative_risk(phi_p, phi_u, 0.95) < 0


def test_recolour_gives_the_real_moments() -> None:
    rng = np.random.default_rng(0)
    rows, weight = torch.tensor(rng.normal(1, 2, (40, 4))), torch.tensor(rng.integers(0, 9, 40).astype(float))
    raw = torch.tensor(rng.normal(-3, [0.5, 1, 2, 4], (30, 4)), dtype=torch.float32)
    fake = recolour(raw, real_side(rows, weight)).double().numpy()
    np.testing.assert_allclose(fake.mean(0), np.average(rows, axis=0, weights=weight), rtol=1e-4)
    real_covariance = np.cov(rows.numpy().T, aweights=weight.numpy(), bias=True)
    np.testing.assert_allclose(np.cov(fake.T, bias=True), real_covariance, rtol=1e-3, atol=1e-3)


def test_recolour_of_a_dead_generator_is_the_real_mean() -> None:
    rows, weight = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.ones(20).double()
    fake = recolour(torch.zeros(5, 3), real_side(rows, weight))
    torch.testing.assert_close(fake, rows.mean(0).expand(5, 3))


def test_recolour_of_a_single_fake_is_the_real_mean_with_a_plain_gradient() -> None:
    rows, raw = torch.tensor([[1.0, 2.0], [3.0, 6.0]]), torch.tensor([[9.0, 9.0]], requires_grad=True)
    fake = recolour(raw, real_side(rows, torch.ones(2).double()))
    torch.testing.assert_close(fake.detach(), torch.tensor([[2.0, 4.0]]))
    (fake * torch.tensor([5.0, 7.0])).sum().backward()
    torch.testing.assert_close(raw.grad, torch.tensor([[5.0, 7.0]]))


def test_limit_norm_shortens_only_the_long() -> None:
    rows, weight = torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.tensor([1.0, 3.0]).double()  # mean length 8.75
    raw = torch.tensor([[0.0, 0.0], [3.0, 4.0], [30.0, 40.0]])
    fake = limit_norm(raw, real_side(rows, weight))
    torch.testing.assert_close(fake, torch.tensor([[0.0, 0.0], [3.0, 4.0], [5.25, 7.0]]))


def test_recolour_says_when_training_ran_away() -> None:
    settings = settings_of(generators="item", constraint="recolour")
    engine = engine_of(settings)
    params = engine.parameters()
    params["item"][0] = np.inf
    with pytest.raises(DivergedError, match="learning_rate"):
        engine_of(settings, params=params).train_generators(learning_rate=0.1, steps=1)
