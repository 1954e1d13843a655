"""Whole epochs: reproducible bits, the requested steps, and learning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.pure.cpu.reference import (
    FULL_GAME,
    N_USERS,
    doubles,
    engine,
    play,
    positives,
    score,
    settings_of,
)
from engines.pure.sources import source_of
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import Batch, GameSettings


@pytest.mark.parametrize("unlabeled", ["per_user", "global", "popularity", "shared"])
def test_the_same_seed_gives_the_same_bits(unlabeled: str) -> None:
    s = replace(FULL_GAME, unlabeled=unlabeled)
    first, second, other = engine(s), engine(s), engine(s, seed=2)
    assert play(first, 3) == play(second, 3)
    for name, value in first.state().items():
        assert np.array_equal(value, second.state()[name]), name
    assert play(other, 3) != play(engine(s), 3)


@pytest.mark.parametrize("unlabeled", ["per_user", "shared"])
@pytest.mark.parametrize("memory_mb", [256.0, 0.0])
def test_a_resumed_run_gives_the_same_bits(memory_mb: float, unlabeled: str) -> None:
    game = replace(FULL_GAME, unlabeled=unlabeled)
    whole, part = engine(game), engine(game, memory_mb=memory_mb)
    play(part, 2)
    state = part.state()
    play(part, 1)  # what the old engine does afterwards must not change the state
    resumed = engine(game, seed=99)
    resumed.restore(state)
    whole_losses = play(whole, 4)
    resumed_losses = [resumed.train_discriminator(learning_rate=0.02).loss]
    resumed_losses.append(resumed.train_generators(learning_rate=0.01, steps=3).loss)
    resumed_losses.append(resumed.train_discriminator(learning_rate=0.02).loss)
    resumed_losses.append(resumed.train_generators(learning_rate=0.01, steps=3).loss)
    assert resumed_losses == whole_losses[4:]
    for name, value in whole.state().items():
        assert np.array_equal(value, resumed.state()[name]), name


def test_epochs_take_the_same_steps_as_explicit_batches() -> None:
    """An epoch on one batch of all positives equals one explicit step on the pairs that it drew."""
    indptr, indices = positives()
    s = settings_of("gmf", batch_size=1000, unlabeled_per_epoch=50)
    stats = engine(s).train_discriminator(learning_rate=0.01)
    assert stats.samples == indices.size + 50
    assert np.isnan(stats.d_fake)
    assert 0 < stats.d_unlabeled < 1
    assert 0 < stats.d_positive < 1
    users = np.repeat(np.arange(N_USERS), np.diff(indptr)).astype(np.int32)
    nothing = np.zeros((0, 5), np.float32)
    e = engine(replace(s, regularization=0.0))
    only_positives = Batch(users, indices, users[:0], indices[:0], nothing, nothing)
    loss = e.step_discriminator(only_positives, learning_rate=0.01)
    p = doubles(engine(s).parameters())
    assert loss == pytest.approx(-score(p, s, p["user"][users], p["item"][indices]).mean(), rel=1e-5)


def test_padding_stays_zero() -> None:
    e = engine(FULL_GAME)
    play(e, 3)
    for name, width in (("user", e._memory.widths["user"]), ("item", e._memory.widths["item"])):
        table = getattr(e._memory.model, name).reshape(-1, 3, width)
        assert not table[:, :, FULL_GAME.dim :].any()
    for side in e._memory.sides.values():
        w1, b1, w2, b2 = e._memory.layers(side, 0)
        assert not b1[FULL_GAME.hidden :].any()
        assert not w1[:, FULL_GAME.hidden :].any()
        assert not w1[FULL_GAME.dim : e._memory.widths["item"]].any()
        assert not w2[:, FULL_GAME.dim :].any()
        assert not b2[FULL_GAME.dim :].any()
    assert np.all(e._memory.work.slot_of_user == -1)
    assert not e._memory.work.user_grads.any()
    assert not e._memory.work.item_grads.any()
    assert not e._memory.work.user_counts.any()


def test_full_users_are_skipped() -> None:
    observed = np.random.default_rng(0).random((6, 9)) < 0.4
    observed[2] = True
    indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(observed)[1].astype(np.int32)
    s = GameSettings(dim=4, batch_size=7, unlabeled_per_epoch=200)
    stats = CpuEngine(source_of(indptr, indices, 9), s, seed=0).train_discriminator(learning_rate=0.01)
    assert indices.size < stats.samples < indices.size + 200
    everywhere = CpuEngine(source_of(indptr, indices, 9), replace(s, unlabeled="global"), seed=0)
    assert everywhere.train_discriminator(learning_rate=0.01).samples == indices.size + 200


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
@pytest.mark.parametrize("risk", ["pu", "nnpu", "pn"])
def test_it_learns_the_checkerboard(scorer: str, risk: str) -> None:
    """Even users like even items. What was held out of the log must still rank above the odd items."""
    rng = np.random.default_rng(0)
    likes = (np.arange(30)[:, None] + np.arange(40)[None, :]) % 2 == 0
    observed = likes & (rng.random((30, 40)) < 0.7)
    indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(observed)[1].astype(np.int32)
    base = GameSettings(dim=4, prior=0.3, batch_size=32, unlabeled_per_epoch=2 * indices.size)
    s = replace(base, scorer=scorer, risk=risk)
    e = CpuEngine(source_of(indptr, indices, 40), s, seed=0)
    losses = [e.train_discriminator(learning_rate=0.02).loss for _ in range(25)]
    assert losses[-1] < losses[0]
    p = doubles(e.parameters())
    relation = p.get("relation", np.ones(4))
    scores = p["user"] @ relation @ p["item"].T if scorer == "bilinear" else (p["user"] * relation) @ p["item"].T
    if scorer == "fm":
        scores += p["item_bias"]
    hidden = scores[likes & ~observed]
    assert np.mean(hidden[:, None] > scores[~likes][None, :]) > 0.95
