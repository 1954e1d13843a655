"""Mult-VAE: its bound by hand and by finite differences, its scores without torch, its rising beta."""

import sys

import numpy as np
import pytest
import scipy.special

import purerec as pr
from conftest import checkerboard, need
from purerec.errors import MissingExtraError
from purerec.models.multvae import MultVAE, MultVAEConfig, MultVAEFitting
from purerec.training import Run

need("torch")
import torch  # noqa: E402

QUICK = {"hidden": 16, "latent": 4, "epochs": 9}


@pytest.fixture
def engine():
    data = pr.Interactions.from_columns([0, 0, 1, 2, 2, 2, 3], [0, 1, 1, 0, 2, 3, 3])
    made = MultVAEFitting(MultVAEConfig(hidden=3, latent=2), data.positives, seed=1).engine
    for weight in made.weights.values():
        weight.data = weight.data.double() + 0.1
    return made


def in_double(people):
    return people._replace(weights=people.weights.double(), bought=people.bought.double())


def by_hand(engine, people, inputs, noise, beta):
    """The bound in numpy, from the dense inputs."""
    w = {name: weight.detach().numpy() for name, weight in engine.weights.items()}
    code = np.tanh(inputs @ w["in_weight"] + w["in_bias"]) @ w["code_weight"].T + w["code_bias"]
    mean, log_variance = np.split(code, 2, axis=1)
    z = mean + noise * np.exp(log_variance / 2)
    logits = np.tanh(z @ w["decode_weight"].T + w["decode_bias"]) @ w["out_weight"].T + w["out_bias"]
    fit = -(people.bought.numpy() * scipy.special.log_softmax(logits, axis=1)).sum(1)
    divergence = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum(1)
    return (fit + beta * divergence).mean()


def test_the_bound_and_its_slopes(engine):
    people = in_double(engine.people(np.array([0, 2, 3])))
    inputs = people.bought.numpy() / np.sqrt([[2], [3], [1]])
    noise = np.random.default_rng(0).standard_normal((3, 2))
    loss = engine.loss(people, torch.from_numpy(noise), beta=0.3)
    assert float(loss.detach()) == pytest.approx(by_hand(engine, people, inputs, noise, 0.3))
    slopes = torch.autograd.grad(loss, list(engine.weights.values()))
    for weight, slope in zip(engine.weights.values(), slopes, strict=True):
        flat, k = weight.data.view(-1), weight.numel() // 2
        around = []
        for step in (1e-6, -1e-6):
            flat[k] += step
            around.append(by_hand(engine, people, inputs, noise, 0.3))
            flat[k] -= step
        assert float(slope.reshape(-1)[k]) == pytest.approx((around[0] - around[1]) / 2e-6, abs=1e-7)


def test_scores_are_the_networks_at_the_mean_code():
    model = MultVAE(**QUICK).fit(checkerboard(), seed=0)
    fitting = MultVAEFitting(model.config, model.seen, seed=5)
    fitting.engine.restore(fitting.engine.state() | {k: v for k, v in model._params.items() if k != "hidden"})
    with torch.no_grad():
        mean, _ = fitting.engine.code(fitting.engine.people(np.arange(20)))
        logits = fitting.engine.logits(mean).numpy()
    np.testing.assert_allclose(model.score(np.arange(20)), logits, atol=1e-5)


def test_a_known_history_is_scored_like_its_user():
    model = MultVAE(**QUICK).fit(checkerboard(), seed=0)
    np.testing.assert_allclose(model.score_history(model.seen.row(3)), model.score([3])[0], atol=1e-5)


def test_without_structure_the_shares_are_those_of_the_items():
    """Everybody owns item 0 and one of the others at random: nothing to tell people apart by."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(300), 2)
    item = np.column_stack([np.zeros(300, int), rng.choice([1, 2, 3], 300, p=[0.6, 0.3, 0.1])]).ravel()
    model = MultVAE(hidden=8, latent=2, beta=1).fit(pr.Interactions.from_columns(user, item), seed=0)
    shares = scipy.special.softmax(model.score_history(np.array([0], np.int32)))
    np.testing.assert_allclose(shares, np.bincount(item) / len(item), atol=0.05)


@pytest.mark.parametrize(("anneal", "expected"), [(0.5, [0, 0.1, 0.2, 0.2]), (0.0, [0.2, 0.2, 0.2, 0.2])])
def test_beta_rises(anneal, expected):
    config = MultVAEConfig(hidden=4, latent=2, epochs=4, anneal=anneal)
    fitting = MultVAEFitting(config, checkerboard().positives, seed=0)
    assert [fitting.epoch(number)["beta"] for number in range(4)] == pytest.approx(expected)


def test_a_resumed_run_ends_in_the_same_bits(tmp_path):
    data = checkerboard()
    whole = MultVAE(**QUICK).fit(data, seed=2)
    MultVAE(**QUICK).fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=4, stop_after=6))
    resumed = MultVAE(**QUICK).fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", resume=True))
    np.testing.assert_array_equal(resumed.score(np.arange(20)), whole.score(np.arange(20)))


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "purerec.engines.multvae_engine", raising=False)
    with pytest.raises(MissingExtraError, match=r"multvae needs torch.*purerec\[torch\]"):
        MultVAE().fit(checkerboard())
