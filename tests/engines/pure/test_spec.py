"""What both engines must have in common beyond a single batch: where they start, and how far they go."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from conftest import need

need("torch")

from engines.pure.sources import source_of
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import Engine, GameSettings, Params
from purerec.engines.pure.torch.engine import TorchEngine

N_USERS, N_ITEMS = 30, 20
ENGINES = {"cpu": CpuEngine, "torch": TorchEngine}
both_engines = pytest.mark.parametrize("name", ENGINES)


SEEN = np.random.default_rng(1).random((N_USERS, N_ITEMS)) < 0.3
N_POSITIVES = int(SEEN.sum())


def engine(name: str, seed: int = 0, params: Params | None = None, **settings: Any) -> Engine:
    indptr, indices = np.concatenate([[0], np.cumsum(SEEN.sum(1))]), np.nonzero(SEEN)[1].astype(np.int32)
    return ENGINES[name](source_of(indptr, indices, N_ITEMS), GameSettings(**settings), seed=seed, params=params)


@both_engines
@pytest.mark.parametrize("conditional", [False, True])
def test_generators_start_lecun_uniform(name: str, conditional: bool) -> None:
    """Uniform with a variance of 1 / fan-in, so within sqrt(3 / fan-in); biases at zero."""
    d_u, d_i, hidden = 24, 40, 200
    start = engine(
        name, scorer="bilinear", dim=d_u, item_dim=d_i, generators="both", hidden=hidden, conditional=conditional
    ).parameters()
    n_in = {side: d_u + d_i if conditional else own for side, own in (("item_gen", d_i), ("user_gen", d_u))}
    for side, width in (("item_gen", d_i), ("user_gen", d_u)):
        for layer, shape in (("w1", (hidden, n_in[side])), ("w2", (width, hidden))):
            weight = start[f"{side}.{layer}"]
            assert weight.shape == shape
            assert weight.std() == pytest.approx(1 / math.sqrt(shape[1]), rel=0.03)
            assert abs(weight.mean()) < 0.05 / math.sqrt(shape[1])
            assert 0.99 < np.abs(weight).max() / math.sqrt(3 / shape[1]) <= 1
        assert not start[f"{side}.b1"].any()
        assert not start[f"{side}.b2"].any()


@both_engines
def test_embeddings_start_normal_and_the_bias_at_the_prior(name: str) -> None:
    start = engine(name, scorer="gmf", dim=64, init_std=0.3, prior=1e-3).parameters()
    for side in ("user", "item"):
        assert start[side].std() == pytest.approx(0.3, rel=0.05)
        assert np.abs(start[side]).max() > 0.3 * math.sqrt(3) * 1.2  # normal, not uniform
    assert start["bias"][0] == pytest.approx(math.log(1e-3 / (1 - 1e-3)))
    assert (start["relation"] == 1).all()


def test_the_network_scorer_starts_lecun_uniform() -> None:
    start = engine("torch", scorer="mlp", dim=50, item_dim=14).parameters()
    for layer in ("mlp.0.weight", "mlp.2.weight"):
        fan_in = start[layer].shape[1]
        assert start[layer].std() == pytest.approx(1 / math.sqrt(fan_in), rel=0.06)
        assert np.abs(start[layer]).max() <= math.sqrt(3 / fan_in)


def constant_pull(**settings: Any) -> tuple[Params, dict[str, Any]]:
    """A game with the same pull on the fakes at every step: equal embeddings, no noise, and D near zero everywhere.

    Adam on a constant gradient moves by the learning rate per step, so the distance gives the number of steps.
    """
    params = {
        "user": np.full((N_USERS, 4), 0.5, np.float32),
        "item": np.full((N_ITEMS, 4), -0.5, np.float32),
        "bias": np.array([-40], np.float32),
    }
    return params, {"dim": 4, "scorer": "mf", "output": "linear", "noise": 0.0, "batch_size": 8, **settings}


@both_engines
@pytest.mark.parametrize("steps", [1, 7, 30])
def test_generators_take_as_many_steps_of_adam_as_they_are_told(name: str, steps: int) -> None:
    params, settings = constant_pull(generators="both")
    played = engine(name, params=params, **settings)
    start = played.parameters()
    stats = played.train_generators(learning_rate=0.01, steps=steps)
    end = played.parameters()
    np.testing.assert_allclose(end["item_gen.b2"], 0.01 * steps, rtol=1e-3)  # towards the users
    np.testing.assert_allclose(end["user_gen.b2"], -0.01 * steps, rtol=1e-3)  # towards the items
    assert stats.samples == 2 * 8 * steps
    for of_d in ("user", "item", "bias"):
        np.testing.assert_array_equal(end[of_d], start[of_d])
    played.train_generators(learning_rate=0.01, steps=2)  # and continues from there
    np.testing.assert_allclose(played.parameters()["item_gen.b2"], 0.01 * (steps + 2), rtol=1e-3)


@both_engines
def test_the_discriminator_takes_a_step_of_adam_for_every_batch(name: str) -> None:
    """Where D is near zero, positives pull at the bias with the same force, one, in every step."""
    params, settings = constant_pull(unlabeled_per_epoch=50)
    played = engine(name, params=params, **settings)
    n_batches = math.ceil(N_POSITIVES / 8)
    for epoch in (1, 2):
        played.train_discriminator(learning_rate=0.01)
        assert played.parameters()["bias"][0] + 40 == pytest.approx(0.01 * n_batches * epoch, rel=0.01)


@both_engines
@pytest.mark.parametrize(("generators", "sides"), [("none", 0), ("item", 1), ("user", 1), ("both", 2)])
def test_an_epoch_shows_positives_unlabeled_pairs_and_their_share_of_fakes(
    name: str, generators: str, sides: int
) -> None:
    settings = {"dim": 4, "generators": generators, "fake_ratio": 0.25, "unlabeled_per_epoch": 80}
    played = engine(name, batch_size=1000, **settings)
    assert played.train_discriminator(learning_rate=0.01).samples == N_POSITIVES + 80 + 20 * sides
    assert played.train_discriminator(learning_rate=0.01, use_fakes=False).samples == N_POSITIVES + 80


@both_engines
@pytest.mark.parametrize("saturating", [False, True])
def test_generators_raise_what_the_discriminator_says_of_their_fakes(name: str, saturating: bool) -> None:
    params, settings = constant_pull(
        generators="item", generator_loss="saturating" if saturating else "nonsaturating"
    )
    played = engine(name, params=params | {"bias": np.array([-1], np.float32)}, **settings)
    first = played.train_generators(learning_rate=0.05, steps=1)
    played.train_generators(learning_rate=0.05, steps=30)
    last = played.train_generators(learning_rate=0.05, steps=1)
    assert last.d_fake > first.d_fake + 0.1
    assert last.loss < first.loss


@both_engines
def test_an_epoch_of_the_discriminator_leaves_the_generators_alone(name: str) -> None:
    played = engine(name, dim=4, generators="both", unlabeled_per_epoch=100, batch_size=16)
    start = played.parameters()
    stats = played.train_discriminator(learning_rate=0.01)
    assert stats.fake_norm > 0
    end = played.parameters()
    for part in start:
        assert np.array_equal(start[part], end[part]) == ("_gen." in part), part


STILL = 1e-12
"""A learning rate at which nothing moves, so that two epochs differ only in what they draw."""


@both_engines
@pytest.mark.parametrize("side", ["item", "user"])
def test_noise_is_gaussian_of_its_deviation_and_never_repeats(name: str, side: str) -> None:
    """A generator that is the identity makes the noise visible: its mean length is deviation * sqrt(2 / pi), which
    a few repeated numbers would miss."""
    identity = {
        f"{side}_gen.w1": np.array([[1], [-1]], np.float32),
        f"{side}_gen.w2": np.array([[1, -1]], np.float32),
    }
    settings = {"dim": 1, "scorer": "mf", "hidden": 2, "generators": side, "output": "linear", "noise": 0.3}
    played = engine(name, params=identity, batch_size=8, unlabeled_per_epoch=math.ceil(N_POSITIVES / 8), **settings)
    expected = 0.3 * math.sqrt(2 / math.pi)
    of_steps = played.train_generators(learning_rate=STILL, steps=60).fake_norm
    of_calls = [played.train_generators(learning_rate=STILL, steps=1).fake_norm for _ in range(60)]
    of_epochs = [played.train_discriminator(learning_rate=STILL).fake_norm for _ in range(8)]
    assert of_steps == pytest.approx(expected, rel=0.12)
    assert np.mean(of_calls) == pytest.approx(expected, rel=0.12)
    # One fake per batch: means of two dozen. If all were the same, the epochs would differ by three quarters.
    assert np.std(of_epochs) < 0.4 * expected
    assert np.mean(of_epochs) == pytest.approx(expected, rel=0.2)


@both_engines
@pytest.mark.parametrize("unlabeled", ["per_user", "global", "popularity"])
def test_every_epoch_and_every_step_draws_other_pairs(name: str, unlabeled: str) -> None:
    """Seen in the mean of D over the drawn pairs, while nothing moves and generators make the same fake for all."""
    settings = {"dim": 4, "scorer": "mf", "init_std": 1.0, "generators": "item", "output": "linear", "noise": 0.0}
    one_fake = {"item_gen.b2": np.ones(4, np.float32)}
    options = {**settings, "unlabeled": unlabeled, "unlabeled_per_epoch": 150, "batch_size": 16}
    played = engine(name, params=one_fake, **options)
    epochs = [played.train_discriminator(learning_rate=STILL).d_unlabeled for _ in range(3)]
    assert len(set(np.round(epochs, 6))) == 3
    calls = [played.train_generators(learning_rate=STILL, steps=1).d_fake for _ in range(3)]
    assert len(set(np.round(calls, 6))) == 3
    counts = [
        engine(name, params=one_fake, **options).train_generators(learning_rate=STILL, steps=n).d_fake
        for n in (1, 2, 3)
    ]
    assert len(set(np.round(counts, 6))) == 3


@both_engines
def test_fakes_of_a_dead_generator_are_recoloured_to_the_real_mean(name: str) -> None:
    """They are all equal, so there is no covariance to divide by."""
    dead = {"item_gen.w1": np.zeros((16, 4), np.float32), "item_gen.w2": np.zeros((4, 16), np.float32)}
    played = engine(name, params=dead, dim=4, init_std=1.0, generators="item", constraint="recolour", batch_size=8)
    mean = SEEN.sum(0) / N_POSITIVES @ played.parameters()["item"]
    stats = played.train_generators(learning_rate=STILL, steps=2)
    assert stats.fake_norm == pytest.approx(np.linalg.norm(mean), rel=1e-4)
    assert math.isfinite(stats.loss)
