"""Reasons: shares that add up to the score, of every model."""

import numpy as np
import pytest

import purerec as pr
from purerec.errors import DataError
from purerec.models.registry import REGISTRY, make_model

every_model = pytest.mark.parametrize("name", REGISTRY)
BY_SIMILARITY = {"coclustering"}
BETWEEN_ITEMS = {"itempop", "slopeone", "ease", "itemknn"}


@pytest.fixture(scope="module")
def world():
    return pr.make_world(users=200, items=60, prior=0.3, interactions=2500, seed=1).observed


@pytest.fixture(scope="module")
def fitted(world):
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = make_model(name).fit(world, seed=0)
        return cache[name]

    return get


def somebody(model, at_least=8):
    user = int(np.flatnonzero(model.seen.counts >= at_least)[0])
    other = int(np.setdiff1d(np.arange(len(model.items)), model.seen.row(user))[3])
    return user, other


@every_model
def test_shares_and_rest_are_the_score(name, fitted):
    model = fitted(name)
    user, item = somebody(model)
    own = model.seen.row(user)
    known = model.explain(model.users[user], model.items[item], k=1000)
    listed = model.recommend(model.users[user], k=1000, items=[model.items[item]])
    assert known.score == pytest.approx(listed["score"][0], rel=1e-4, abs=1e-4)
    new = model.explain_for([model.items[int(i)] for i in own], model.items[item], k=1000)
    assert new.score == pytest.approx(float(model.score_history(own)[item]), rel=1e-4, abs=1e-4)
    for found in (known, new):
        assert found.method == ("similarity" if name in BY_SIMILARITY else "exact")
        assert found.item == model.items[item]
        assert found.text
        assert sorted(found.item_idx.tolist()) == own.tolist()
        assert found.because["item"].to_list() == model.items.take(found.item_idx).to_list()
        assert (np.diff(found.shares) <= 0).all()
        assert np.isfinite(found.shares).all()
        assert (found.rest is None) == (found.method == "similarity")
    few = model.explain(model.users[user], model.items[item], k=3)
    assert len(few.because) == 3
    if few.rest is not None:  # of all own items, shown or not
        assert few.rest == pytest.approx(known.rest)


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in BY_SIMILARITY | BETWEEN_ITEMS])
def test_shares_of_models_of_factors_are_parts_of_the_vector_times_the_item(name, fitted):
    """What the parts are: tests/models/contract/test_foldin.py. The rest is the score without them; where the history
    adds to the score, so do its shares."""
    model = fitted(name)
    folding = model._folding()
    user, item = somebody(model)
    own, vectors, history = model.seen.row(user), model._vector_part(), model._history_part()
    assert (history is not None) == (name == "pure")
    for person, found in (
        (vectors.users[user], model.explain(model.users[user], model.items[item], k=1000)),
        (model.fold_in(own), model.explain_for(model.items.take(own).to_list(), model.items[item], k=1000)),
    ):
        parts = folding.parts(own, person) @ vectors.items[item]
        expected = dict(
            zip(own.tolist(), parts if history is None else parts + history.shares(own, item), strict=True)
        )
        scale = float(np.abs(list(expected.values())).max())
        assert scale > 0
        for idx, share in zip(found.item_idx.tolist(), found.shares, strict=True):
            assert share == pytest.approx(expected[idx], rel=1e-3, abs=1e-4 * scale)
        score = found.score
        if history is None:
            score = person @ vectors.items[item] + (0 if vectors.item_bias is None else vectors.item_bias[item])
        assert found.rest == pytest.approx(score - sum(expected.values()), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", ["ials", "ease", "itemknn", "pmf", "nmf"])
def test_nothing_is_left_over(name, fitted):
    """Without biases the whole score of a new person comes from their items."""
    model = fitted(name)
    user, item = somebody(model)
    found = model.explain_for(model.items.take(model.seen.row(user)).to_list(), model.items[item], k=1000)
    assert found.rest == pytest.approx(0, abs=2e-3 * max(1, abs(found.score)))


@pytest.mark.parametrize("name", ["bpr", "lambdafm"])
def test_only_the_bias_is_left_over(name, fitted):
    model = fitted(name)
    user, item = somebody(model)
    found = model.explain_for(model.items.take(model.seen.row(user)).to_list(), model.items[item], k=1000)
    assert found.rest == pytest.approx(model.factors().item_bias[item], abs=0.02)


@pytest.mark.parametrize("name", ["ease", "itemknn"])
def test_shares_of_linear_models_are_what_leaving_an_item_out_costs(name, fitted):
    model = fitted(name)
    user, item = somebody(model)
    own = model.seen.row(user)
    found = model.explain(model.users[user], model.items[item], k=1000)
    for idx, share in zip(found.item_idx, found.shares, strict=True):
        less = model.score_history(own[own != idx])[item]
        assert found.score - less == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("name", ["pugmf", "gmf", "ials"])
def test_items_of_the_own_taste_carry_the_score(name):
    """Two groups of people and items: an item is explained by the person's items of its own group."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero((np.add.outer(np.arange(60), np.arange(40)) % 2 == 0) & (rng.random((60, 40)) < 0.6))
    model = make_model(name, dim=4).fit(pr.Interactions.from_columns(user, item), seed=0)
    found = model.explain_for([0, 2, 4, 6, 1], 10, k=5)
    assert found.because["item"].to_list()[-1] == 1
    assert found.shares[0] > found.shares[-1]


def test_who_and_what_is_unknown_is_named(fitted):
    model = fitted("pugmf")
    with pytest.raises(DataError, match="'ghost'"):
        model.explain("ghost", model.items[0])
    with pytest.raises(DataError, match="'nothing'"):
        model.explain(model.users[0], "nothing")
    with pytest.raises(DataError, match="'nothing'"):
        model.explain_for([model.items[1]], "nothing")


@every_model
def test_nobody_and_nothing(name, fitted):
    model = fitted(name)
    found = model.explain_for([], model.items[3])
    assert found.because.is_empty()
    assert found.score == model.popularity()[3]
    assert "same for everybody" in found.text


def test_labels_are_there(world):
    labelled = world.with_labels({str(world.items[i]): f"Title {i}" for i in range(world.n_items)})
    model = make_model("ials").fit(labelled, seed=0)
    user, item = somebody(model)
    found = model.explain(model.users[user], model.items[item], k=2)
    assert found.because.columns == ["item", "label", "share"]
    assert found.because["label"].to_list() == [f"Title {i}" for i in found.item_idx]


def test_a_network_is_explained_by_similarity():
    pytest.importorskip("torch")
    data = pr.Interactions.from_columns(np.repeat(np.arange(8), 4), (np.arange(32) * 3) % 10)
    model = make_model("pugmf", dim=2, epochs=1, scorer="mlp").fit(data, seed=0)
    found = model.explain(0, 1)
    assert found.method == "similarity"
    assert "similar" in found.text
