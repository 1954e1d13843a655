"""CFGAN: its objectives by finite differences and by hand, its variants, and the network without torch."""

import sys

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard, need
from purerec.errors import MissingExtraError
from purerec.models.cfgan import CFGAN, CFGANGame
from purerec.training import Run

need("torch")
import torch  # noqa: E402

QUICK = {"hidden": 16, "discriminator_hidden": 8, "batch_size": 8}


def small(**settings):
    data = pr.Interactions.from_columns([0, 0, 1, 2, 2, 3], [0, 1, 1, 0, 2, 3])
    model = CFGAN(hidden=3, discriminator_hidden=2, **settings)
    engine = CFGANGame(model, data.positives, seed=1).engine
    engine.generator.double()
    engine.discriminator.double()
    return engine, torch.from_numpy(engine.matrix.toarray()).double()


def by_hand(engine, bought, zeros, seen):
    """Both objectives, in numpy."""
    g = [p.detach().numpy() for p in engine.generator.parameters()]
    d = [p.detach().numpy() for p in engine.discriminator.parameters()]
    r, z, k = (x.numpy() for x in (bought, zeros, seen))
    made = 1 / (1 + np.exp(-(np.tanh(r @ g[0].T + g[1]) @ g[2].T + g[3])))

    def judge(x):
        return (np.tanh(np.hstack([x, r]) @ d[0].T + d[1]) @ d[2].T + d[3])[:, 0]

    fake = judge(made * (r + k))
    d_loss = np.logaddexp(0, -judge(r)).mean() + np.logaddexp(0, fake).mean()
    g_loss = np.logaddexp(0, -fake).mean() + engine.settings.zero_weight * ((made * z) ** 2).sum(1).mean()
    return d_loss, g_loss


@pytest.mark.parametrize("variant", ["zr", "pm", "zp"])
def test_objectives_and_their_slopes(variant):
    engine, bought = small(variant=variant, zero_weight=0.7, zero_reconstruction=0.5, partial_masking=0.5)
    zeros, seen = (mask.double() for mask in engine._masks(bought, torch.Generator().manual_seed(0)))
    assert bool(zeros.any()) == (variant != "pm")
    assert bool(seen.any()) == (variant != "zr")
    losses = [engine.discriminator_loss(bought, zeros, seen), engine.generator_loss(bought, zeros, seen)]
    assert [float(loss.detach()) for loss in losses] == pytest.approx(by_hand(engine, bought, zeros, seen))
    for which, network in enumerate((engine.discriminator, engine.generator)):
        slopes = torch.autograd.grad(losses[which], list(network.parameters()))
        for parameter, slope in zip(network.parameters(), slopes, strict=True):
            flat, k = parameter.data.view(-1), parameter.numel() // 2
            around = []
            for step in (1e-6, -1e-6):
                flat[k] += step
                around.append(by_hand(engine, bought, zeros, seen)[which])
                flat[k] -= step
            assert float(slope.view(-1)[k]) == pytest.approx((around[0] - around[1]) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_masks_hold_a_share_of_what_is_unobserved(share):
    engine, _ = small(variant="zp", zero_reconstruction=share, partial_masking=1 - share)
    bought = (torch.rand(200, 300) < 0.1).float()
    zeros, seen = engine._masks(bought, torch.Generator().manual_seed(3))
    assert not (zeros * bought).any()
    assert not (seen * bought).any()
    free = (1 - bought).sum()
    assert float(zeros.sum() / free) == pytest.approx(share, abs=0.01)
    assert float(seen.sum() / free) == pytest.approx(1 - share, abs=0.01)


@pytest.mark.parametrize("based", ["user", "item"])
@pytest.mark.parametrize("variant", ["zr", "zp"])
def test_every_variant_learns(based, variant):
    found = CFGAN(based=based, variant=variant).fit(checkerboard(), seed=0).recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9


@pytest.mark.parametrize("based", ["user", "item"])
def test_scores_are_the_generators_outputs(based):
    model = CFGAN(based=based, epochs=3, **QUICK)
    data = checkerboard()
    game = CFGANGame(model, data.positives, seed=0)
    game.epoch(0)
    model.fit(data, seed=0)
    model._params = game.parameters()
    with torch.no_grad():
        out = game.engine.generator(torch.from_numpy(game.engine.matrix.toarray())).numpy()
    np.testing.assert_allclose(model.score(np.arange(20)), out if based == "user" else out.T, atol=1e-5)


def test_a_known_history_is_scored_like_its_user():
    model = CFGAN(based="user", epochs=5, **QUICK).fit(checkerboard(), seed=0)
    np.testing.assert_allclose(model.score_history(model.seen.row(3)), model.score([3])[0], atol=1e-5)


@pytest.mark.parametrize("based", ["user", "item"])
def test_a_resumed_run_ends_in_the_same_bits(based, tmp_path):
    data = checkerboard()
    make = lambda: CFGAN(epochs=9, based=based, **QUICK)  # noqa: E731
    whole = make().fit(data, seed=2)
    make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=4, stop_after=6))
    resumed = make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", resume=True))
    np.testing.assert_array_equal(resumed.score(np.arange(20)), whole.score(np.arange(20)))


def test_validation_and_early_stopping():
    parts = pr.split(checkerboard(), "ratio")
    model = CFGAN(epochs=40, patience=2, validate_every=2, **QUICK).fit(parts.train, valid=parts.valid)
    assert model.history.curve("P@5")


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "purerec.engines.cfgan_engine", raising=False)
    with pytest.raises(MissingExtraError, match=r"cfgan needs torch.*purerec\[torch\]"):
        CFGAN().fit(checkerboard())
