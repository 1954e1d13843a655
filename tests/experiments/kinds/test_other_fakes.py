"""Fakes of other kinds: each matches its name, and takes part in a fit."""

import numpy as np
import pytest

import purerec as pr

torch = pytest.importorskip("torch")

from purerec.engines.pure.spec import Batch  # noqa: E402
from purerec.experiments.kinds import other_fakes  # noqa: E402

QUICK = {
    "users": "free",
    "engine": "torch",
    "generators": "item",
    "epochs": 4,
    "pretrain_epochs": 2,
    "dim": 4,
    "fake_ratio": 0.5,
    "generator_epochs": 0.0,
}


@pytest.fixture(scope="module")
def world():
    return pr.make_world(users=60, items=40, prior=0.4, interactions=700, seed=0).observed


def engine_of(cls, world):
    return cls(**QUICK)._fitting(world, 0).engine


def step_of(engine, n_fakes):
    rng = np.random.default_rng(0)
    pos_user, pos_item, unl_item = (rng.integers(0, 40, 20).astype(np.int32) for _ in range(3))
    noise = rng.normal(0, engine.settings.noise, (n_fakes, 4)).astype(np.float32)
    batch = Batch(pos_user, pos_item, pos_user, unl_item, noise, np.empty((0, 4), np.float32))
    unlabeled = engine.discriminator.pairs(torch.tensor(pos_user).long(), torch.tensor(unl_item).long())
    return batch, unlabeled


def test_mixed_fakes_lie_between_an_item_touched_and_one_drawn(world):
    engine = engine_of(other_fakes.MixedFakes, world)
    batch, unlabeled = step_of(engine, 20)
    engine._touched = engine.discriminator.item[torch.tensor(batch.pos_item).long()]
    (fakes,) = engine._fakes(batch, unlabeled, {})
    a, b = engine._touched.detach().numpy(), unlabeled.e_i.detach().numpy()
    found = fakes.e_i.detach().numpy()
    np.testing.assert_allclose(
        np.linalg.norm(found - a, axis=1) + np.linalg.norm(found - b, axis=1),
        np.linalg.norm(a - b, axis=1),
        atol=1e-5,
    )
    assert fakes.item_idx is None


def test_hard_fakes_are_real_draws_with_high_scores(world):
    engine = engine_of(other_fakes.HardFakes, world)
    with torch.no_grad():
        engine.discriminator.user *= 30  # scores far apart
        engine.discriminator.item *= 30
    batch, unlabeled = step_of(engine, 20)
    (fakes,) = engine._fakes(batch, unlabeled, {})
    assert set(fakes.item_idx.tolist()) <= set(batch.unl_item.tolist())
    assert engine.discriminator(fakes).mean() > engine.discriminator(unlabeled).mean() + 1


def test_noise_has_the_moments_of_the_real_items(world):
    engine = engine_of(other_fakes.NoiseFakes, world)
    real = engine._real_sides()["item"]
    noise = np.random.default_rng(0).normal(0, engine.settings.noise, (50_000, 4)).astype(np.float32)
    fakes = engine._generate("item", noise, None, {"item": real}).double()
    np.testing.assert_allclose(fakes.mean(0), real.mean, atol=3e-3)
    np.testing.assert_allclose(torch.cov(fakes.T), real.factor @ real.factor.T, atol=3e-3)


def test_inputs_are_dropped_in_training_only(world):
    engine = engine_of(other_fakes.DroppedInputs, world)
    _, pairs = step_of(engine, 0)
    phi = engine.discriminator
    assert not torch.equal(phi.train()(pairs), phi.train()(pairs))
    assert torch.equal(phi.eval()(pairs), phi.eval()(pairs))


@pytest.mark.parametrize("name", ["MixedFakes", "HardFakes", "NoiseFakes", "DroppedInputs"])
def test_each_takes_part_in_a_fit(world, name):
    plain = pr.PURE(**QUICK, fake_weight=0.0).fit(world, seed=0)
    other = pr.make_model(f"purerec.experiments.kinds.other_fakes:{name}", **QUICK, fake_weight=0.5)
    scores = other.fit(world, seed=0).score(range(5))
    assert np.isfinite(scores).all()
    assert not np.array_equal(scores, plain.score(range(5)))
