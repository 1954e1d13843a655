"""IRGAN: its policy gradient against finite differences, its draws by chi-square, its discriminator by autograd."""

import numpy as np
import pytest
from scipy.stats import chisquare

from conftest import checkerboard, need
from purerec.data.pairs import Csr
from purerec.engines.bpr import pack, unpack
from purerec.errors import ConfigError
from purerec.models.irgan import IRGAN, IRGANGame
from purerec.training.run import Run

N_ITEMS = 6


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def game(positives, *, user=None, item=None, bias=None, d_bias=None, **settings):
    """A game with the generator, and the bias of the discriminator, set by hand."""
    made = IRGANGame(IRGAN(dim=2, game_regularization=0.0, **settings), positives, seed=1)
    g = made.engine.state()
    given = {"user": user, "item": item, "item_bias": bias}
    made.engine.restore(g | {k: np.asarray(v, np.float32) for k, v in given.items() if v is not None})
    if d_bias is not None:
        d = unpack(made.discriminator, 2)
        made.discriminator = pack(d["user"] * 0, d["item"], np.asarray(d_bias, np.float32))
    return made


@pytest.mark.parametrize("mode", ["pointwise", "pairwise"])
@pytest.mark.parametrize("positive_share", [0.0, 0.3])
def test_the_policy_gradient_climbs_the_expected_reward(mode, positive_share):
    rng = np.random.default_rng(3)
    positives = Csr.of([0, 0], [1, 4], (1, N_ITEMS))
    start = {"user": rng.normal(size=(1, 2)), "item": rng.normal(size=(N_ITEMS, 2)), "bias": rng.normal(size=N_ITEMS)}
    d = rng.normal(size=N_ITEMS)
    rate, temperature = 1.0, 0.8
    made = game(
        positives, **start, d_bias=d, mode=mode, temperature=temperature, samples=40_000,
        positive_share=positive_share, generator_rate=rate,
    )  # fmt: skip
    against = np.zeros(1) if mode == "pointwise" else d[[1, 4]]
    reward = (2 * sigmoid(d[:, None] - against) - 1).mean(1)

    def expected(**changed):
        p = start | changed
        g = (p["item"] @ p["user"][0] + p["bias"]) / temperature
        share = np.exp(g - g.max())
        return share @ reward / share.sum()

    sums = np.zeros(2)
    made.play("generator", "test", made.config.generator_rate, sums)
    after = made.engine.state()
    assert sums[0] == pytest.approx(expected(), abs=0.01)
    for name, key in (("user", "user"), ("item", "item"), ("bias", "item_bias")):
        climbed = (after[key] - start[name].astype(np.float32)) / rate
        for k in np.ndindex(start[name].shape):
            step = np.zeros_like(start[name])
            step[k] = 1e-5
            slope = (expected(**{name: start[name] + step}) - expected(**{name: start[name] - step})) / 2e-5
            assert climbed[k] == pytest.approx(slope, abs=0.01)


def test_fakes_are_drawn_from_the_softmax():
    n_users, bias = 20_000, np.array([0.5, -1.0, 0.0, 1.2, 0.3, -0.2])
    positives = Csr.of(np.arange(n_users), np.zeros(n_users, int), (n_users, N_ITEMS))
    made = game(
        positives, user=np.zeros((n_users, 2)), bias=bias, d_bias=np.zeros(N_ITEMS), temperature=0.7,
        discriminator_rate=1e-7,
    )  # fmt: skip
    made.play("discriminator", "test", made.config.discriminator_rate, np.zeros(3))
    # D is 1/2 everywhere, so each positive moves its bias up by half the rate, each fake down by as much.
    moved = unpack(made.discriminator, 2)["item_bias"].astype(float) / 0.5e-7
    counts = -moved + np.array([n_users, 0, 0, 0, 0, 0])
    shares = np.exp(bias / 0.7)
    assert chisquare(counts, counts.sum() * shares / shares.sum()).pvalue > 1e-3


@pytest.mark.parametrize("mode", ["pointwise", "pairwise"])
def test_the_discriminator_follows_autograd(mode):
    need("torch")
    import torch

    # The generator is certain of item 0, so the one fake for the one positive, item 1, is known.
    made = game(Csr.of([0], [1], (1, 3)), bias=[200.0, 0, 0], mode=mode, discriminator_rate=0.3)
    start = unpack(made.discriminator, 2)
    made.play("discriminator", "test", made.config.discriminator_rate, np.zeros(3))
    p = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in start.items()}

    def d(item):
        return p["user"][0] @ p["item"][item] + p["item_bias"][item]

    def descend(loss):
        for parameter, slope in zip(p.values(), torch.autograd.grad(loss, list(p.values())), strict=True):
            parameter.data -= 0.3 * slope

    if mode == "pairwise":
        descend(torch.nn.functional.softplus(d(0) - d(1)))
    else:
        descend(torch.nn.functional.softplus(-d(1)))
        descend(torch.nn.functional.softplus(d(0)))
    for name, value in unpack(made.discriminator, 2).items():
        np.testing.assert_allclose(value, p[name].detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("mode", ["pointwise", "pairwise"])
@pytest.mark.parametrize("start", ["random", "pretrained"])
def test_every_form_learns(mode, start):
    model = IRGAN(mode=mode, start=start, dim=4).fit(checkerboard(), seed=0)
    found = model.recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9
    assert {record.phase for record in model.history.records} == {"pre-training", "game"}


def test_the_generator_learns_without_pre_training():
    model = IRGAN(epochs=150, pretrain_epochs=0, generator_rate=0.5, discriminator_rate=0.1, dim=4).fit(
        checkerboard()
    )
    shown = model.recommend(k=3, exclude_seen=False)
    assert ((shown["user"] - shown["item"]) % 2 == 0).mean() > 0.8


def test_the_discriminator_can_rank():
    settings = {"epochs": 12, "pretrain_epochs": 5}
    generator, discriminator = (
        IRGAN(output=output, **settings).fit(checkerboard(), seed=1).score([0])
        for output in ("generator", "discriminator")
    )
    assert not np.array_equal(generator, discriminator)


@pytest.mark.parametrize("stop", [4, 8, 10])
def test_a_resumed_run_ends_in_the_same_bits(stop, tmp_path):
    data = checkerboard()
    make = lambda: IRGAN(epochs=12, pretrain_epochs=8, start="pretrained")  # noqa: E731
    whole = make().fit(data, seed=2)
    make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=2, stop_after=stop))
    resumed = make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", resume=True))
    np.testing.assert_array_equal(resumed.score(np.arange(20)), whole.score(np.arange(20)))


def test_more_pre_training_than_epochs_is_refused():
    with pytest.raises(ConfigError, match="pretrain_epochs=9 is more than epochs=5"):
        IRGAN(epochs=5, pretrain_epochs=9)
