"""The generators' step against gradients by differences; their noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.pure.cpu.reference import (
    FULL_GAME,
    doubles,
    engine,
    generator_loss,
    gradients_of_step,
    numeric_gradient,
    random_batch,
    settings_of,
)


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
@pytest.mark.parametrize("constraint", ["none", "norm", "recolour"])
@pytest.mark.parametrize("generator_loss_name", ["nonsaturating", "saturating"])
@pytest.mark.parametrize(("output", "conditional"), [("relu", False), ("linear", True)])
def test_generator_gradients(
    scorer: str, constraint: str, generator_loss_name: str, output: str, conditional: bool
) -> None:
    changes = {"constraint": constraint, "generator_loss": generator_loss_name, "output": output}
    s = settings_of(scorer, generators="both", conditional=conditional, **changes)
    params = engine(s).parameters()
    for name in params:  # away from zero, where relu has a kink that breaks finite differences
        if name.endswith((".b1", ".b2")):
            params[name] = np.random.default_rng(2).normal(0.2, 0.4, params[name].shape).astype(np.float32)
    e, b = engine(s, params=params), random_batch(s, 5, n_unl=16, n_fakes=14)
    before = e.parameters()
    p = doubles(before)
    own = [name for name in p if "gen" in name]
    expected = numeric_gradient(generator_loss, p, own, s, b)
    loss = e.step_generators(b, learning_rate=0.01)
    assert loss == pytest.approx(generator_loss(p, s, b, {}), rel=1e-5, abs=1e-6)
    found = gradients_of_step(before, e.state(), s.beta1)
    for name in own:
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-3 * scale + 1e-6, err_msg=name)
    for name in set(p) - set(own):
        assert np.array_equal(e.parameters()[name], before[name])


def test_one_fake_is_only_shifted_to_the_real_mean() -> None:
    s = settings_of("gmf", generators="item", constraint="recolour")
    e, b = engine(s), random_batch(s, 5, n_fakes=1)
    assert np.isfinite(e.step_discriminator(b, learning_rate=0.1))
    assert np.isfinite(e.step_generators(b, learning_rate=0.1))
    assert all(np.isfinite(value).all() for value in e.parameters().values())


def test_generators_learn_to_please_the_discriminator() -> None:
    s = replace(FULL_GAME, constraint="none", unlabeled_per_epoch=400)
    e = engine(s)
    for _ in range(5):
        e.train_discriminator(learning_rate=0.02, use_fakes=False)
    first = e.train_generators(learning_rate=0.01, steps=20)
    last = e.train_generators(learning_rate=0.01, steps=200)
    assert last.loss < first.loss
    assert last.d_fake > first.d_fake
    assert first.samples == 2 * 20 * s.batch_size


def test_the_noise_is_gaussian() -> None:
    from purerec.engines.pure.cpu.generators import fill_noise

    s = settings_of("gmf", dim=13, generators="item", noise=2.0)
    e = engine(s)
    e._memory.make_room(8, 8, 4000)
    side = e._memory.sides["item"]
    after = fill_noise(side, 4000, np.uint64(5), np.uint64(0))
    rows = side.noise[: 4000 * 16].reshape(-1, 16)
    assert after >= 4000 * 16 // 2
    assert not rows[:, 13:].any()
    x = rows[:, :13].ravel().astype(np.float64) / 2.0
    assert abs(x.mean()) < 0.015
    assert x.std() == pytest.approx(1.0, abs=0.01)
    assert np.mean(x**4) == pytest.approx(3.0, abs=0.12)
    assert np.abs(x).max() > 3.7
    assert np.abs(np.corrcoef(rows[:, :13].T) - np.eye(13)).max() < 0.08
    ordered = np.sort(x)[:: x.size // 9][1:9]
    np.testing.assert_allclose(ordered, [-1.22, -0.76, -0.43, -0.14, 0.14, 0.43, 0.76, 1.22], atol=0.03)
