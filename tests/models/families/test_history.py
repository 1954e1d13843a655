"""The history's part of PURE's score: what it is, how its weight is chosen, and that all answers include it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import purerec as pr
from purerec.data import memory
from purerec.data.pairs import Csr
from purerec.engines.closed_form import fit_item_weights, mean_diagonal
from purerec.errors import DataError
from purerec.models.families.game import DiscriminatorGame
from purerec.models.families.held_out import DEFAULT_WEIGHT, hold_out
from purerec.models.families.history import default_weight, scaled
from purerec.ranking.scorers import Factors
from purerec.rng import named_rng
from purerec.training.run import Run

QUICK = {"epochs": 8, "pretrain_epochs": 6, "dim": 4}


@pytest.fixture(scope="module")
def world():
    return pr.make_world(users=600, items=80, prior=0.2, interactions=9000, seed=1).observed


@pytest.fixture(scope="module")
def model(world):
    return pr.PURE(**QUICK).fit(world, seed=0)


def own_scores(model):
    return model.score(np.arange(len(model.users)))


# ---------------------------------------------------------------------- the score


def test_the_score_is_the_embeddings_part_and_the_sum_of_weights_from_own_items(world):
    both = pr.PURE(**QUICK, history_weight=0.5).fit(world, seed=0)
    free = pr.PURE(**QUICK, users="free").fit(world, seed=0)
    x = world.positives.to_scipy().toarray()
    expected = x @ np.stack([both.learned.item_weights.row(item) for item in range(world.n_items)])
    np.testing.assert_allclose(own_scores(both) - own_scores(free), expected, atol=2e-5)
    assert free.factors() is not None
    assert both.factors() is None


def test_the_weights_between_items_are_the_closed_form_up_to_their_scale(world):
    model = pr.PURE(**QUICK, history_weight=0.5, history_regularization=3, item_power=0.3).fit(world, seed=0)
    x, scale = world.positives.to_scipy().toarray().astype(float), world.positives.item_counts**-0.3
    gram = (x * scale).T @ (x * scale)
    inverse = np.linalg.inv(gram + 3 * np.diag(gram).mean() * np.eye(world.n_items))
    closed = -inverse / np.diag(inverse)
    np.fill_diagonal(closed, 0)
    closed = scale[:, None] * closed / scale
    found = np.stack([model.learned.item_weights.row(item) for item in range(world.n_items)])
    ratio = found.std() / closed.std()
    np.testing.assert_allclose(found, ratio * closed, atol=1e-3 * found.std())


@pytest.mark.parametrize("weight", [0.1, 1.0])
def test_the_weight_is_how_far_the_part_spreads_beside_the_other(world, weight):
    model = pr.PURE(**QUICK, history_weight=weight).fit(world, seed=0)
    some = np.flatnonzero(world.positives.counts)
    of_history = model.learned.item_weights.scores(world.positives, some)
    of_embeddings = own_scores(model)[some] - of_history
    assert of_history.std(axis=1).mean() == pytest.approx(weight * of_embeddings.std(axis=1).mean(), rel=0.1)


def test_few_neighbors_leave_most_weights_zero(world):
    model = pr.PURE(**QUICK, neighbors=3, history_weight=0.5).fit(world, seed=0)
    columns = np.stack([model.learned.item_weights.row(item) for item in range(world.n_items)]).T
    assert (np.count_nonzero(columns, axis=1) <= 3).all()
    assert np.count_nonzero(columns) > world.n_items


def test_a_network_or_the_papers_form_has_no_history(world):
    pytest.importorskip("torch")
    assert pr.PURE(epochs=1, pretrain_epochs=0, dim=2, scorer="mlp").fit(world).learned.item_weights is None
    paper = pr.PURE.paper("ml-100k", epochs=2, pretrain_epochs=1).fit(world)
    assert paper.learned.item_weights is None
    assert paper.factors() is not None


# ---------------------------------------------------------------------- new people, reasons, neighbours


def test_a_new_person_is_scored_by_both_parts(world, model):
    own = world.positives.row(int(np.argmax(world.positives.counts)))
    parts = model._vector_part()
    expected = parts.items @ model.fold_in(own) + parts.item_bias + model.learned.item_weights.of_history(own)
    np.testing.assert_allclose(model.score_history(own), expected, rtol=1e-4, atol=1e-4)
    # Lists of known people mostly agree with those from their histories as strangers.
    listed = [set(model.top_for_users(np.array([u]), 10).items[0].tolist()) for u in range(50)]
    folded = [set(model.top_for_history(world.positives.row(u), 10).items[0].tolist()) for u in range(50)]
    shared = [len(a & b) for a, b in zip(listed, folded, strict=True) if a]
    assert np.mean(shared) > 7


def test_similar_items_are_those_of_the_vectors(model):
    vectors = model._vector_part().items
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    liked = model.popularity()
    near = vectors @ vectors[3] * liked / (liked + 50)
    near[3] = -np.inf
    assert set(model.top_similar(3, 5).items[0].tolist()) == set(np.argsort(-near)[:5].tolist())


# ---------------------------------------------------------------------- storing, growing, resuming


def test_a_folder_keeps_the_history_and_its_weight(model, tmp_path):
    loaded = pr.load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(own_scores(loaded), own_scores(model))
    assert loaded.learned.weight == pytest.approx(model.learned.weight)
    facts = json.loads((tmp_path / "m" / "manifest.json").read_text())["fitted_on"]
    assert facts["resolved"]["history_weight"] == model.learned.weight
    assert facts["resolved"]["neighbors"] == len(model.items)


def test_sparse_weights_come_back_too(world, tmp_path):
    model = pr.PURE(**QUICK, neighbors=5, history_weight=0.5).fit(world, seed=0)
    loaded = pr.load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(own_scores(loaded), own_scores(model))


def test_settings_of_an_earlier_version_mean_free_embeddings_and_the_printed_risk():
    old = {"dim": 4, "prior": 1e-4}
    assert pr.PURE._upgraded(old) == {"users": "free", "stratified": False, **old}
    assert pr.PUGMF._upgraded(old) == {"stratified": False, **old}
    assert pr.GMF._upgraded(old) == old
    new = pr.PURE(**QUICK).config.model_dump()
    assert pr.PURE._upgraded(new) == new


def test_an_update_keeps_the_weight_and_learns_the_new_history(world, model, tmp_path):
    loaded = pr.load_model(model.save(tmp_path / "m"))
    user = int(np.argmin(world.positives.counts))
    new = np.setdiff1d(np.arange(world.n_items), world.positives.row(user))[:10]
    ids = world.items.take(new.astype(np.int32))
    loaded.update(pr.Interactions.from_columns([world.users[user]] * len(new), ids), seed=0)
    assert loaded.learned.weight == pytest.approx(model.learned.weight)
    size = mean_diagonal(loaded.seen, 0.0, 0.2)
    by = model.fitted_on.resolved["history_regularization"]
    whole = fit_item_weights(loaded.seen, [by * size], item_power=0.2, memory_mb=100)[0]
    found, expected = loaded.learned.item_weights.row(5), whole.row(5)
    np.testing.assert_allclose(found / found.std(), expected / expected.std(), atol=1e-3)


@pytest.mark.parametrize("stop", [3, 7, 8, None])
def test_a_fit_goes_on_to_the_same_bits_before_and_after_the_weight_is_chosen(world, model, stop, tmp_path):
    """The last checkpoint is one epoch before it stops: after the second, the sixth, the seventh, and the last."""
    run = Run(checkpoint=tmp_path / "c", checkpoint_epochs=1, stop_after=stop)
    pr.PURE(**QUICK).fit(world, seed=0, run=run)
    assert model.learned.weight != DEFAULT_WEIGHT  # otherwise nothing would show that it was kept
    resumed = pr.PURE(**QUICK).fit(world, seed=0, run=Run(checkpoint=tmp_path / "c", resume=True))
    assert resumed.learned.weight == model.learned.weight
    np.testing.assert_array_equal(own_scores(resumed), own_scores(model))


# ---------------------------------------------------------------------- its weight


def test_too_few_people_to_choose_by():
    few = pr.make_world(users=60, items=40, prior=0.4, interactions=700, seed=0).observed
    assert hold_out(few.positives, named_rng(0, "held out")) is None
    assert pr.PURE(**QUICK).fit(few, seed=0).learned.weight == default_weight(few.positives) == 0.8


@pytest.mark.parametrize(
    ("people", "each", "weight"), [(500, 10, 0.1), (497, 20, 0.8), (1000, 4, 0.1), (600, 3, 0.8), (1000, 2, 0.8)]
)
def test_the_weight_where_none_is_chosen_is_larger_on_small_logs(people, each, weight):
    """Few people, few pairs, or nobody with pairs to spare."""
    users = np.repeat(np.arange(people), each)
    positives = Csr.of(users, np.arange(people * each) % 50, (people, 50))
    assert default_weight(positives) == weight
    assert (hold_out(positives, named_rng(0, "held out")) is None) == (weight == 0.8)


def test_scaled_weights_of_a_person_who_differs_in_nothing():
    """No spread at all: nothing to scale."""
    empty = Csr.of([0, 1], [0, 1], (3, 4))
    history = fit_item_weights(empty, [1.0], memory_mb=100)[0]
    flat = Factors(np.zeros((3, 2), np.float32), np.ones((4, 2), np.float32))
    assert np.isfinite(scaled(history, flat, empty, 0.5).row(0)).all()


def test_the_weight_is_only_chosen_where_there_is_pre_training(world):
    start = pr.PUGMF(epochs=2, dim=4).fit(world)
    for model in (
        pr.PURE(epochs=4, pretrain_epochs=0, dim=4).fit(world),
        pr.PURE(**QUICK).fit(world, pretrained=start),
    ):
        assert model.learned.weight == DEFAULT_WEIGHT
    assert pr.PURE(**QUICK, history_weight=0.7).fit(world).learned.weight == 0.7


def test_the_scale_does_not_depend_on_how_often_it_was_looked_at(world):
    """Validation scales the history repeatedly; embeddings that have learned nothing yet must not wipe it out."""
    parts = pr.split(world, "ratio", seed=0)
    often = pr.PURE(**QUICK, history_weight=0.5, validate_every=1).fit(parts.train, valid=parts.valid, seed=0)
    never = pr.PURE(**QUICK, history_weight=0.5).fit(parts.train, seed=0)
    np.testing.assert_array_equal(own_scores(often), own_scores(never))
    silent = pr.PURE(**QUICK, history_weight=0.5)
    game = silent._fitting(parts.train, 0)
    for users in (np.zeros, np.ones):
        table = {"user": users((world.n_users, 4), dtype=np.float32), "bias": np.zeros(1, np.float32)}
        table["item"] = np.arange(4 * world.n_items, dtype=np.float32).reshape(-1, 4)
        table |= {"user_bias": np.zeros(world.n_users, np.float32), "item_bias": np.zeros(world.n_items, np.float32)}
        game.parameters = lambda table=table: table
        found = silent._extract(game, parts.train.positives)
    assert np.abs(found.item_weights.row(0)).max() > 0


def test_too_little_memory_is_found_out_before_the_epochs(world, monkeypatch):
    monkeypatch.setattr(memory, "available_mb", lambda: 0.1)
    monkeypatch.setattr(DiscriminatorGame, "epoch", None)
    with pytest.raises(DataError, match=r"pure needs 1 MB for 80 items, and 0 MB of memory are free here: make room"):
        pr.PURE(**QUICK).fit(world)
