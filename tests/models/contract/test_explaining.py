"""Reasons: shares that add up to the score, for every model."""

import numpy as np
import pytest

import purerec as pr
from purerec.errors import ConfigError, DataError
from purerec.models.registry import REGISTRY, make_model

every_model = pytest.mark.parametrize("name", REGISTRY)
WITHOUT_PARTS = {"coclustering"}
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
        assert found.method == ("none" if name in WITHOUT_PARTS else "exact")
        assert found.item == model.items[item]
        assert found.text
        assert found.reason
        assert (found.rest is None) == (found.method == "none")
        if found.rest is not None:
            assert sorted(found.shares["item"].to_list()) == model.items.take(own).to_list()
            assert found.shares["share"].sum() + found.rest == pytest.approx(found.score, rel=1e-4, abs=1e-4)
            assert found.shares["lift"].is_sorted(descending=True)
        assert found.because["item"].to_list() == model.items.take(found.item_idx).to_list()
        assert found.because.is_empty() == (found.kind != "liked")
        assert (found.because["share"] > 0).all()
        assert (found.because["lift"] > 0).all()
    few = model.explain(model.users[user], model.items[item], k=1)
    assert few.kind == known.kind
    assert len(few.because) == (few.kind == "liked")


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in WITHOUT_PARTS | BETWEEN_ITEMS])
def test_shares_of_models_of_factors_are_parts_of_the_vector_times_the_item(name, fitted):
    """tests/models/contract/test_foldin.py checks the parts. The rest is the score without them; if the history adds
    to the score, so do its shares."""
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
            zip(own.tolist(), parts if history is None else parts + history.shares(own, [item])[:, 0], strict=True)
        )
        scale = float(np.abs(list(expected.values())).max())
        assert scale > 0
        for own_item, share in found.shares.select("item", "share").rows():
            assert share == pytest.approx(expected[model.items.index(own_item)], rel=1e-3, abs=1e-4 * scale)
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
    for own_item, share in found.shares.select("item", "share").rows():
        less = model.score_history(own[own != model.items.index(own_item)])[item]
        assert found.score - less == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("name", ["pugmf", "gmf", "ials"])
def test_items_of_the_own_taste_carry_the_score(name):
    """Two groups of people and items: an item is explained by the person's items of its own group."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero((np.add.outer(np.arange(60), np.arange(40)) % 2 == 0) & (rng.random((60, 40)) < 0.6))
    model = make_model(name, dim=4).fit(pr.Interactions.from_columns(user, item), seed=0)
    found = model.explain_for([0, 2, 4, 6, 1], 10, k=5)
    assert found.kind == "liked"
    assert found.shares["item"].to_list()[-1] == 1
    assert 1 not in found.because["item"]
    assert found.reason.startswith("because you liked ")
    # Items of the other taste are not a reason.
    assert model.explain_for([0, 2, 4, 6], 11).kind != "liked"


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
    assert (found.kind, found.reason, found.lift) == ("popular", "popular", 0)
    assert "same for everybody" in found.text


@every_model
def test_somebody_in_training_without_positives(name):
    log = pr.Interactions.from_columns(
        np.repeat(np.arange(6), 3), (np.arange(18) * 5) % 7, rating=[5] * 15 + [1] * 3, positive_rating=4
    )
    model = make_model(name).fit(log, seed=0)
    listed = model.recommend([0, 5], k=3, explain=2).filter(user=5)
    assert listed["reason"].to_list() == ["popular"] * 3
    found = model.explain(5, listed["item"][0])
    assert (found.kind, found.method, found.lift, found.rest) == ("popular", "exact", 0, found.score)
    assert found.shares.is_empty()
    assert "same for everybody" in found.text


def test_labels_are_there(world):
    labelled = world.with_labels({str(world.items[i]): f"Title {i}" for i in range(world.n_items)})
    model = make_model("ials").fit(labelled, seed=0)
    user, _ = somebody(model)
    listed = model.recommend(model.users[user], k=10, explain=2)
    assert listed.columns == ["user", "item", "label", "score", "rank", "reason"]
    found = [model.explain(model.users[user], item) for item in listed["item"]]
    for why in found:
        assert why.because.columns == ["item", "label", "share", "lift"]
        assert why.because["label"].to_list() == [f"Title {i}" for i in why.item_idx]
    liked = next(why for why in found if why.kind == "liked")
    assert liked.because["label"][0] in liked.reason


def test_a_network_names_no_items():
    pytest.importorskip("torch")
    data = pr.Interactions.from_columns(np.repeat(np.arange(8), 4), (np.arange(32) * 3) % 10)
    model = make_model("pugmf", dim=2, epochs=1, scorer="mlp").fit(data, seed=0)
    found = model.explain(0, 1)
    assert found.method == "none"
    assert found.because.is_empty()


# ---------------------------------------------------------------------- lists


def two_tastes():
    """Everybody likes `hit`; half of the people like even items, the others odd ones."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero((np.add.outer(np.arange(80), np.arange(30)) % 2 == 0) & (rng.random((80, 30)) < 0.6))
    ids = [f"i{i}" for i in item] + ["hit"] * 70
    return pr.Interactions.from_columns([*user.tolist(), *range(70)], ids)


@pytest.mark.parametrize("name", ["ease", "ials", "pugmf", "itemknn"])
def test_what_everybody_likes_is_popular_and_the_own_taste_a_reason(name):
    model = make_model(name, **({"dim": 4} if name in ("ials", "pugmf") else {})).fit(two_tastes(), seed=0)
    history = ["i0", "i2", "i4", "i6"]
    assert model.explain_for(history, "hit").kind == "popular"
    kinds = [model.explain_for(history, f"i{i}").kind for i in (8, 10, 12, 14, 16)]
    assert kinds.count("liked") >= 4


def test_a_list_does_not_name_the_same_again_and_again():
    model = make_model("ease").fit(two_tastes(), seed=0)
    history = model.items.indices([f"i{i}" for i in range(0, 12, 2)])
    targets = model.items.indices([f"i{i}" for i in range(12, 30, 2)])
    together = model.reasons_for_history(history, targets, 1)
    alone = [model.reasons_for_history(history, t, 1)[0] for t in targets]
    named = [why.because["item"][0] for why in together if why.kind == "liked"]
    assert [why.kind for why in together] == [why.kind for why in alone]
    most = max(named.count(item) for item in named)
    assert most <= max(2, len(named) // 2)
    strongest = {why.item: why.because["lift"][0] for why in alone if why.kind == "liked"}
    for why in together:  # no substitute that contributes much less
        if why.kind == "liked":
            assert why.because["lift"][0] >= 0.5 * strongest[why.item] - 1e-9


@every_model
def test_lists_with_reasons(name, fitted):
    model = fitted(name)
    user, _ = somebody(model)
    known = model.recommend(model.users[user], k=5, explain=2)
    new = model.recommend_for(model.items.take(model.seen.row(user)).to_list(), k=5, explain=2)
    for listed in (known, new):
        assert len(listed) == 5
        assert listed["reason"].str.contains("^(because you liked .+|popular|popular with people like you)$").all()
    if not model.personalised:
        assert set(known["reason"]) == {"popular"}
    with pytest.raises(ConfigError, match="explain"):
        model.recommend(model.users[user], explain=-1)


def test_lifts_of_parts_sum_to_that_of_the_score(fitted):
    model = fitted("pugmf")
    level = model.derived.level
    rng = np.random.default_rng(0)
    targets = np.arange(5)
    at, base = rng.normal(size=(3, 5)), rng.normal(size=(3, len(level.items)))
    whole = level.lift(at.sum(0), base.sum(0), targets)
    np.testing.assert_allclose(level.lift(at, base, targets).sum(0), whole, atol=1e-9)
    # Scores that only follow popularity have no lift.
    np.testing.assert_allclose(
        level.lift(3 + 2 * level.of_all[targets], 3 + 2 * level.of_all[level.items], targets), 0, atol=1e-9
    )
