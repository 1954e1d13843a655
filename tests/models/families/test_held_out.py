"""Pairs held out of the first epochs: which ones, what is chosen on them, and that they come back."""

from __future__ import annotations

import numpy as np
import pytest

import purerec as pr
from purerec.data.pairs import Csr
from purerec.engines.closed_form import fit_item_weights
from purerec.models.families import held_out
from purerec.models.families.game import DiscriminatorGame
from purerec.models.families.held_out import DEFAULT_WEIGHT, WEIGHTS, WIDTHS, HeldOutPairs, hold_out
from purerec.ranking.scorers import Factors
from purerec.rng import named_rng
from purerec.training.run import Run

QUICK = {"epochs": 8, "pretrain_epochs": 6}


@pytest.fixture(scope="module")
def world():
    return pr.make_world(users=600, items=80, prior=0.2, interactions=9000, seed=1).observed


def test_what_is_held_out(monkeypatch):
    monkeypatch.setattr(held_out, "_FEWEST_PEOPLE", 50)
    world = pr.make_world(users=400, items=80, prior=0.2, interactions=6000, seed=1).observed
    kept, asked = hold_out(world.positives, named_rng(3, "held out"))
    assert kept.overlap(asked) == 0
    assert len(kept) + len(asked) == len(world.positives)
    people = np.flatnonzero(asked.counts)
    assert (world.positives.counts[people] >= 5).all()
    assert len(people) == round(0.2 * np.count_nonzero(world.positives.counts >= 5))
    wanted = np.maximum(1, np.round(0.1 * world.positives.counts[people]))
    assert asked.counts[people].tolist() == wanted.tolist()
    again, _ = hold_out(world.positives, named_rng(3, "held out"))
    other, _ = hold_out(world.positives, named_rng(4, "held out"))
    np.testing.assert_array_equal(kept.indices, again.indices)
    assert not np.array_equal(kept.indices, other.indices)


def test_the_weight_goes_to_the_part_that_ranks_better(monkeypatch):
    """Items in pairs that are liked together, and people who differ in no other way."""
    monkeypatch.setattr(held_out, "_FEWEST_PEOPLE", 50)
    rng = np.random.default_rng(0)
    users, items = 400, 120
    first = np.array([rng.choice(items // 2, 8, replace=False) for _ in range(users)])
    liked = np.sort(np.concatenate([2 * first, 2 * first + 1], axis=1), axis=1)
    positives = Csr.of(np.repeat(np.arange(users), 16), liked.ravel(), (users, items))
    kept, asked = hold_out(positives, named_rng(0, "held out"))
    choice = HeldOutPairs(kept, asked)
    history = fit_item_weights(kept, [20.0], memory_mb=100)[0]
    noise = rng.normal(size=(users + items, 6)).astype(np.float32)
    random = Factors(noise[:users], noise[users:])
    strong = fit_item_weights(kept, [1e5], memory_mb=100)[0]
    assert choice.best(random, {10.0: history}, narrow=False).weight == max(WEIGHTS)
    assert choice.best(random, {2.5: history, 10.0: strong}, narrow=False).regularization == 2.5
    assert choice.best(random, {2.5: history, 10.0: history}, narrow=False).regularization == 10.0  # usual
    # Embeddings that know the pairs, and weights that know nothing.
    knowing = np.repeat(np.eye(items // 2, dtype=np.float32), 2, axis=0)
    people = np.zeros((users, items // 2), dtype=np.float32)
    np.put_along_axis(people, first, 1, axis=1)
    shuffled = Csr.of(positives.users, rng.permutation(items)[kept_items(positives, rng)], (users, items))
    useless = fit_item_weights(shuffled, [1.0], memory_mb=100)[0]
    assert choice.best(Factors(people, knowing), {10.0: useless}, narrow=False).weight <= DEFAULT_WEIGHT


def kept_items(positives, rng):
    return rng.permutation(positives.indices)


# ---------------------------------------------------------------------- the width


def with_noise(users, items, dim, noise, seed=0):
    """Positives by taste in `dim` dimensions, and embeddings that know it, with `noise` meaningless dimensions."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(users, dim)), rng.normal(size=(items, dim))
    liked = np.argsort(-(u @ v.T), axis=1)[:, :12]
    positives = Csr.of(np.repeat(np.arange(users), 12), np.sort(liked, axis=1).ravel(), (users, items))
    nothing = [0.6 * rng.normal(size=(n, noise)) for n in (users, items)]
    turn = np.linalg.qr(rng.normal(size=(dim + noise, dim + noise)))[0]  # no dimension is pure noise
    parts = (np.column_stack(part) @ turn for part in zip((u, v), nothing, strict=True))
    return positives, Factors(*(part.astype(np.float32) for part in parts))


def test_dimensions_of_noise_are_dropped(monkeypatch):
    monkeypatch.setattr(held_out, "_FEWEST_PEOPLE", 50)
    positives, embeddings = with_noise(800, 150, 8, 40)
    choice = HeldOutPairs(*hold_out(positives, named_rng(0, "held out")))
    assert choice.best(embeddings, {}, narrow=True).width == 8
    assert choice.best(embeddings, {}, narrow=False).width == 48


def test_dimensions_that_are_all_needed_are_kept(monkeypatch):
    monkeypatch.setattr(held_out, "_FEWEST_PEOPLE", 50)
    positives, embeddings = with_noise(800, 150, 16, 0)
    choice = HeldOutPairs(*hold_out(positives, named_rng(0, "held out")))
    assert choice.best(embeddings, {}, narrow=True).width == 16


def test_empty_dimensions_are_no_choice(monkeypatch):
    """Embeddings that are zero throughout, as with a strong L2."""
    monkeypatch.setattr(held_out, "_FEWEST_PEOPLE", 50)
    positives, _ = with_noise(800, 150, 4, 0)
    choice = HeldOutPairs(*hold_out(positives, named_rng(0, "held out")))
    zero = Factors(np.zeros((800, 16), np.float32), np.zeros((150, 16), np.float32), np.arange(150, dtype=np.float32))
    assert choice.best(zero, {}, narrow=True).width == 16


def few_tastes():
    """Four dimensions of taste: of 32, most learn noise, whatever the seed of the fit."""
    return pr.make_world(users=3000, items=500, dim=4, prior=0.06, interactions=36_000, seed=3).observed


@pytest.mark.parametrize("name", ["gmf", "pugmf", "pure"])
def test_a_fit_narrows_its_embeddings_and_says_so(name):
    log = few_tastes()
    model = pr.make_model(name).fit(log, seed=1)
    width = model._vector_part().items.shape[1] if name == "pure" else model.factors().items.shape[1]
    assert width in WIDTHS
    assert width < 32
    assert model.fitted_on.resolved["dim"] == width


@pytest.mark.parametrize("settings", [{"dim": 16}, {"scorer": "gmf"}, {"scorer": "bilinear"}])
def test_a_given_width_is_kept_and_a_relation_too(world, settings):
    model = pr.GMF(epochs=4, **settings).fit(world, seed=0)
    assert model.factors().items.shape[1] == 16


def test_the_printed_risk_and_fakes_by_relu_keep_the_width(world):
    assert pr.PUGMF(epochs=4, stratified=False).fit(world, seed=0).factors().items.shape[1] == 16
    assert pr.PURE(**QUICK, output="relu").fit(world, seed=0)._vector_part().items.shape[1] == 16


def test_without_epochs_before_the_choice_there_is_none(world):
    assert pr.GMF(epochs=1).fit(world, seed=0).factors().items.shape[1] == 16


@pytest.mark.parametrize("name", ["gmf", "pure"])
def test_a_narrowed_model_is_stored_updated_and_answers_strangers(name, tmp_path):
    log = few_tastes()
    model = pr.make_model(name).fit(log, seed=1)
    loaded = pr.load_model(model.save(tmp_path / "m"))
    everybody = np.arange(len(model.users))
    np.testing.assert_array_equal(loaded.score(everybody), model.score(everybody))
    # As a stranger, a person gets much the same list: the vectors of both sides are in proportion.
    listed = [set(model.top_for_users(np.array([u]), 10).items[0].tolist()) for u in range(60)]
    folded = [set(model.top_for_history(log.positives.row(u), 10).items[0].tolist()) for u in range(60)]
    shared = [len(a & b) for a, b in zip(listed, folded, strict=True) if len(a) == 10]
    assert np.mean(shared) > 6
    width = model.fitted_on.resolved["dim"]
    assert width < 32
    loaded.update(pr.Interactions.from_columns([log.users[0], 10_000], [log.items[5], log.items[6]]), seed=0)
    assert loaded.fitted_on.resolved["dim"] == width
    assert np.isfinite(loaded.score(np.array([0, len(loaded.users) - 1]))).all()


@pytest.mark.parametrize("stop", [4, 7, 8])
def test_a_fit_goes_on_to_the_same_bits_before_and_after_the_width_is_chosen(stop, tmp_path):
    log = pr.make_world(users=1200, items=300, prior=0.1, interactions=14_000, seed=3).observed
    run = Run(checkpoint=tmp_path / "c", checkpoint_epochs=1, stop_after=stop)
    whole = pr.GMF(epochs=8).fit(log, seed=0)
    assert whole.fitted_on.resolved["dim"] < 16  # otherwise nothing would show that it was kept
    pr.GMF(epochs=8).fit(log, seed=0, run=run)
    resumed = pr.GMF(epochs=8).fit(log, seed=0, run=Run(checkpoint=tmp_path / "c", resume=True))
    everybody = np.arange(len(log.users))
    np.testing.assert_array_equal(resumed.score(everybody), whole.score(everybody))


# ---------------------------------------------------------------------- the pairs


def test_the_held_out_pairs_come_back_for_the_game(world, monkeypatch):
    seen = []
    real = DiscriminatorGame.train_on_all

    def watched(self, form):
        before = len(self.positives)
        real(self, form)
        seen.append((before, len(self.positives)))

    monkeypatch.setattr(DiscriminatorGame, "train_on_all", watched)
    pr.PURE(**QUICK, dim=4).fit(world, seed=0)
    kept, _ = hold_out(world.positives, named_rng(0, "held out"))
    assert seen == [(len(kept), len(world.positives))]
