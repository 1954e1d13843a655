"""Mult-VAE: its bound by hand and by finite differences, its scores without torch, its rising beta."""

import sys

import numpy as np
import pytest
import scipy.sparse
import scipy.special

import purerec as pr
from conftest import checkerboard, need
from purerec.engines.columns import choose_columns
from purerec.errors import MissingExtraError
from purerec.models.multvae import MultVAE, MultVAEConfig, MultVAEFitting
from purerec.training.run import Run

need("torch")
import torch  # noqa: E402

from purerec.engines.multvae import MultVAEEngine, MultVAESettings  # noqa: E402

QUICK = {"hidden": 16, "latent": 4, "epochs": 9}


@pytest.fixture
def engine():
    data = pr.Interactions.from_columns([0, 0, 1, 2, 2, 2, 3], [0, 1, 1, 0, 2, 3, 3])
    made = MultVAEFitting(MultVAEConfig(hidden=3, latent=2), data.positives, seed=1).engine
    made.network.weights = {name: weight.double() + 0.1 for name, weight in made.network.weights.items()}
    return made


def people_of(engine, rows, most=100):
    found = engine.people(choose_columns(engine.matrix[rows], most, np.random.default_rng(0)))
    return found._replace(**{name: getattr(found, name).double() for name in ("weights", "bought", "stands_for")})


def by_hand(engine, people, inputs, noise, beta):
    """The bound in numpy, from the dense inputs."""
    w = {name: weight.numpy() for name, weight in engine.network.weights.items()}
    code = np.tanh(inputs @ w["in_weight"] + w["in_bias"]) @ w["code_weight"].T + w["code_bias"]
    mean, log_variance = np.split(code, 2, axis=1)
    z = mean + noise * np.exp(log_variance / 2)
    logits = np.tanh(z @ w["decode_weight"].T + w["decode_bias"]) @ w["out_weight"].T + w["out_bias"]
    fit = -(people.bought.numpy() * scipy.special.log_softmax(logits, axis=1)).sum(1)
    divergence = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum(1)
    return (fit + beta * divergence).mean()


def test_the_bound_and_its_slopes(engine):
    people = people_of(engine, [0, 2, 3])
    inputs = people.bought.numpy() / np.sqrt([[2], [3], [1]])
    noise = np.random.default_rng(0).standard_normal((3, 2))
    taken = engine.network.take()
    loss = engine.loss(taken, people, torch.from_numpy(noise), beta=0.3)
    assert float(loss.detach()) == pytest.approx(by_hand(engine, people, inputs, noise, 0.3))
    slopes = torch.autograd.grad(loss, list(taken.values()))
    for weight, slope in zip(taken.values(), slopes, strict=True):
        flat, k = weight.data.view(-1), weight.numel() // 2  # the engine's own memory
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
    engine = fitting.engine
    weights, everybody = engine.network.weights, choose_columns(engine.matrix, 100, np.random.default_rng(0))
    mean, _ = engine.code(weights, engine.people(everybody))
    logits = engine.logits(weights, mean).numpy()
    np.testing.assert_allclose(model.score(np.arange(20)), logits, atol=1e-5)


def test_a_few_items_that_stand_for_all_have_the_same_sum_under_the_softmax_in_the_mean():
    rng = np.random.default_rng(0)
    rows = scipy.sparse.csr_array((rng.random((20, 2000)) < 0.01).astype(np.float32))
    settings = MultVAESettings(8, 2, 0.0, 1000, 20, 0.0)
    engine = MultVAEEngine(rows, settings, np.random.default_rng(1))
    noise = torch.zeros(20, 2)

    def loss(most):
        people = engine.people(choose_columns(rows, most, rng))
        return float(engine.loss(engine.network.take(people.columns), people, noise, 0.3).detach())

    assert np.mean([loss(400) for _ in range(20)]) == pytest.approx(loss(2000), rel=0.005)


def test_with_few_of_the_items_in_each_step_it_learns_as_well():
    found = MultVAE(hidden=16, latent=4, sampled_columns=3).fit(checkerboard(), seed=0).recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9


def test_a_known_history_is_scored_like_its_user():
    model = MultVAE(**QUICK).fit(checkerboard(), seed=0)
    np.testing.assert_allclose(model.score_history(model.seen.row(3)), model.score([3])[0], atol=1e-5)


def test_without_structure_the_shares_are_those_of_the_items():
    """Everybody owns item 0 and one of the others at random: nothing distinguishes people."""
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
    monkeypatch.delitem(sys.modules, "purerec.engines.multvae", raising=False)
    with pytest.raises(MissingExtraError, match=r"multvae needs torch.*purerec\[torch\]"):
        MultVAE().fit(checkerboard())
