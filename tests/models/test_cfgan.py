"""CFGAN: its objectives by finite differences and by hand, its variants, and the network without torch."""

import sys

import numpy as np
import pytest
import scipy.sparse

import purerec as pr
from conftest import checkerboard, need
from purerec.engines.columns import choose_columns
from purerec.errors import MissingExtraError
from purerec.models.cfgan import CFGAN, CFGANGame
from purerec.models.contract.trained import Trained
from purerec.training.run import Run

need("torch")
import torch  # noqa: E402

QUICK = {"hidden": 16, "discriminator_hidden": 8, "batch_size": 8}


def small(**settings):
    """An engine in double precision, and its whole matrix on all columns."""
    data = pr.Interactions.from_columns([0, 0, 1, 2, 2, 3], [0, 1, 1, 0, 2, 3])
    model = CFGAN(hidden=3, discriminator_hidden=2, **settings)
    engine = CFGANGame(model, data.positives, seed=1).engine
    for player in (engine.generator, engine.discriminator):
        player.weights = {name: weight.double() for name, weight in player.weights.items()}
    columns = choose_columns(engine.matrix, 10, np.random.default_rng(0))
    vectors = engine.vectors(columns, torch.Generator().manual_seed(0))
    return engine, vectors._replace(**{name: getattr(vectors, name).double() for name in ("bought", "pull", "seen")})


def by_hand(engine, vectors):
    """Both objectives, in numpy."""
    g, d = (
        {name: weight.numpy() for name, weight in player.weights.items()}
        for player in (engine.generator, engine.discriminator)
    )
    r, z, k = (x.numpy() for x in (vectors.bought, vectors.pull, vectors.seen))
    logits = np.tanh(r @ g["in_weight"] + g["in_bias"]) @ g["out_weight"].T + g["out_bias"]
    made = 1 / (1 + np.exp(-logits))

    def judge(x):
        both = np.hstack([x, r]) @ np.vstack([d["made_weight"], d["bought_weight"]])
        return np.tanh(both + d["bias"]) @ d["last_weight"] + d["last_bias"]

    fake = judge(made * (r + k))
    d_loss = np.logaddexp(0, -judge(r)).mean() + np.logaddexp(0, fake).mean()
    g_loss = np.logaddexp(0, -fake).mean() + engine.settings.zero_weight * (made**2 * z).sum(1).mean()
    return d_loss, g_loss


@pytest.mark.parametrize("variant", ["zr", "pm", "zp"])
def test_objectives_and_their_slopes(variant):
    engine, vectors = small(variant=variant, zero_weight=0.7, zero_reconstruction=0.5, partial_masking=0.5)
    assert bool(vectors.pull.any()) == (variant != "pm")
    assert bool(vectors.seen.any()) == (variant != "zr")
    g, d = engine.generator.take(), engine.discriminator.take()
    losses = [engine.discriminator_loss(g, d, vectors), engine.generator_loss(g, d, vectors)]
    assert [float(loss.detach()) for loss in losses] == pytest.approx(by_hand(engine, vectors))
    for which, taken in enumerate((d, g)):
        slopes = torch.autograd.grad(losses[which], list(taken.values()))
        for weight, slope in zip(taken.values(), slopes, strict=True):
            flat, k = weight.data.view(-1), weight.numel() // 2  # the engine's own memory
            around = []
            for step in (1e-6, -1e-6):
                flat[k] += step
                around.append(by_hand(engine, vectors)[which])
                flat[k] -= step
            assert float(slope.reshape(-1)[k]) == pytest.approx((around[0] - around[1]) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("share", [0.2, 0.7])
@pytest.mark.parametrize("most", [60, 1000])
def test_masks_hold_a_share_of_what_is_unobserved(share, most):
    """On average also if a few columns represent all: then the pull is stronger instead."""
    engine, _ = small(variant="zp", zero_reconstruction=share, partial_masking=1 - share)
    rng = np.random.default_rng(0)
    filled = (rng.random((200, 300)) < 0.1) & (np.arange(300) < 150)
    rows = scipy.sparse.csr_array(filled.astype(np.float32))
    vectors = engine.vectors(choose_columns(rows, most, rng), torch.Generator().manual_seed(3))
    assert vectors.bought.shape[1] == (150 + most if most < 150 else 300)
    assert int(vectors.bought.sum()) == filled.sum()
    assert not (vectors.pull * vectors.bought).any()
    assert not (vectors.seen * vectors.bought).any()
    free = (~filled).sum()
    assert float(vectors.pull.sum() / free) == pytest.approx(share, abs=0.01)
    assert set(np.unique(vectors.seen)) == {0, 1}
    if most > 150:
        assert float(vectors.seen.sum() / free) == pytest.approx(1 - share, abs=0.01)


@pytest.mark.parametrize("variant", ["zr", "zp"])
def test_a_few_columns_that_stand_for_all_teach_as_much(variant):
    data = checkerboard()
    found = CFGAN(variant=variant, sampled_columns=3).fit(data, seed=0).recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9


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
    model._commit(Trained(game.parameters()), model.known, model.fitted_on)
    engine = game.engine
    vectors = engine.vectors(choose_columns(engine.matrix, 100, np.random.default_rng(0)), torch.Generator())
    out = engine.generate(engine.generator.weights, vectors).numpy()
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
    monkeypatch.delitem(sys.modules, "purerec.engines.cfgan", raising=False)
    with pytest.raises(MissingExtraError, match=r"cfgan needs torch.*purerec\[torch\]"):
        CFGAN().fit(checkerboard())
