"""SlopeOne, CoClustering, SVD, PMF and NMF: what they share, and a comparison with Surprise."""

import time

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard, need
from purerec.errors import ConfigError, DataError, DivergedError, NotFittedError
from purerec.models.families.ratings import binary_targets, unlabeled_weight
from purerec.models.registry import load_model, make_model
from purerec.training.run import Run

NAMES = ["slopeone", "coclustering", "svd", "pmf", "nmf"]
EPOCHS = ["svd", "pmf", "nmf", "ials"]
every_model = pytest.mark.parametrize("name", NAMES)


def ratings(seed=0, n=600, users=30, items=20):
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, users, n), rng.integers(0, items, n)
    taste = 3 + rng.normal(0, 1, users)[user] * rng.normal(0, 1, items)[item] + rng.normal(0, 0.3, n)
    return pr.Interactions.from_columns(
        user, item, rating=np.clip(np.round(taste), 1, 5), positive_rating=4
    ).deduplicate()


@every_model
def test_ratings_are_predicted_better_than_by_their_mean(name):
    data = ratings()
    # Without a mean to start from, twenty passes over a few hundred ratings are too few.
    model = make_model(name, target="rating", **({"epochs": 200} if name == "pmf" else {})).fit(data)
    found = model.predict(data.user_idx, data.item_idx)
    assert found.shape == (len(data),)
    assert found.dtype == np.float32
    assert found.min() >= 1
    assert found.max() <= 5
    assert np.mean((found - data.rating) ** 2) < 0.95 * np.var(data.rating)


@every_model
@pytest.mark.parametrize("target", ["binary", "rating"])
def test_predictions_are_the_scores_within_their_range(name, target):
    data = ratings()
    model = make_model(name, target=target).fit(data)
    low, high = (0, 1) if target == "binary" else (1, 5)
    every = model.score(np.arange(data.n_users))
    found = model.predict(data.user_idx, data.item_idx)
    np.testing.assert_allclose(found, np.clip(every[data.user_idx, data.item_idx], low, high), rtol=1e-4, atol=1e-5)


@every_model
def test_misuse_is_refused_in_words(name):
    data = ratings()
    with pytest.raises(NotFittedError, match="fit"):
        make_model(name).predict([0], [0])
    with pytest.raises(ConfigError, match="target='stars'"):
        make_model(name, target="stars")
    with pytest.raises(DataError, match="use target='binary'"):
        make_model(name, target="rating").fit(checkerboard())
    model = make_model(name).fit(data)
    with pytest.raises(DataError, match="item indices must be from 0 to 19"):
        model.predict([0], [20])
    with pytest.raises(DataError, match="predict takes pairs"):
        model.predict([0, 1], [3])
    nothing = pr.Interactions.from_columns([0, 1], [0, 1], rating=[1, 2], positive_rating=4)
    with pytest.raises(DataError, match="no positives"):
        make_model(name).fit(nothing)


@every_model
def test_all_rows_teach_ratings_and_only_positives_teach_relevance(name):
    data = ratings()
    changed = pr.Interactions.from_columns(
        data.user_idx, data.item_idx, rating=np.where(data.rating < 4, 1, data.rating), positive_rating=4
    )
    everybody = np.arange(data.n_users)

    def scores(log, target):
        return make_model(name, target=target).fit(log, seed=0).score(everybody)

    np.testing.assert_array_equal(scores(data, "binary"), scores(changed, "binary"))
    assert np.abs(scores(data, "rating") - scores(changed, "rating")).max() > 0.1


@every_model
def test_ratings_have_their_own_defaults(name, tmp_path):
    config = make_model(name, target="rating").config
    own = type(config).for_ratings
    assert own
    assert all(getattr(config, setting) == value for setting, value in own.items())
    assert make_model(name).config == type(config)()
    setting, value = next(iter(own.items()))
    assert getattr(make_model(name, target="rating", **{setting: value + 1}).config, setting) == value + 1
    model = make_model(name, target="rating").fit(ratings())
    again = load_model(model.save(tmp_path / "m"))
    assert again.config == model.config
    np.testing.assert_array_equal(again.predict([0, 1], [2, 3]), model.predict([0, 1], [2, 3]))


@every_model
def test_who_or_what_was_never_rated_gets_something_sensible(name):
    data = ratings()
    rows = (data.user_idx != 3) & (data.item_idx != 5)
    model = make_model(name, target="rating").fit(data.subset(rows))
    found = model.predict([3, 0, 3], [0, 5, 5])
    assert np.isfinite(found).all()
    assert np.abs(found - data.rating.mean()).max() < 1.5


@every_model
def test_a_repeated_pair_has_its_last_rating(name):
    data = ratings()
    twice = pr.Interactions.from_columns(
        np.concatenate([data.user_idx, data.user_idx]),
        np.concatenate([data.item_idx, data.item_idx]),
        rating=np.concatenate([6 - data.rating, data.rating]),
    )
    found = [make_model(name, target="rating").fit(log).predict([1, 2], [3, 4]) for log in (data, twice)]
    np.testing.assert_array_equal(found[0], found[1])


@every_model
@pytest.mark.parametrize("target", ["binary", "rating"])
def test_a_new_person_is_treated_like_an_old_one(name, target):
    """A person with the history of a group gets the group's other items."""
    board = checkerboard()
    data = pr.Interactions.from_columns(
        *zip(*((u, i) for u in range(20) for i in range(20) if u != i), strict=True),
        rating=[5 if (u + i) % 2 == 0 else 1 for u in range(20) for i in range(20) if u != i],
        positive_rating=4,
    )
    model = make_model(name, target=target).fit(data if target == "rating" else board)
    if name == "slopeone" and target == "rating":
        # Half of the people rate i above j and half below: all differences are zero, and nothing is learned.
        return
    assert all(item % 2 == 1 for item in model.recommend_for([1, 3, 5, 7], k=4)["item"])


# ---------------------------------------------------------------------- the draw


def test_zeros_are_unlabeled_pairs_of_those_who_have_positives():
    data = ratings()
    positives = data.positives
    drawn = binary_targets(positives, 1.5, seed=0)
    zeros = drawn.value == 0
    pairs = set(zip(positives.users.tolist(), positives.indices.tolist(), strict=True))
    assert not pairs & set(zip(drawn.user_idx[zeros].tolist(), drawn.item_idx[zeros].tolist(), strict=True))
    assert np.sum(~zeros) == len(positives)
    assert 0.5 * len(positives) < zeros.sum() <= round(1.5 * len(positives))


def test_the_weight_of_an_unlabeled_pair_is_how_often_it_is_drawn():
    weight = unlabeled_weight([2, 5, 10], 10, 3.0)
    np.testing.assert_allclose(weight[:2], [3 * 2 / 8, 3 * 5 / 5])
    assert np.isfinite(weight).all()


# ---------------------------------------------------------------------- fitting in epochs


@pytest.mark.parametrize("name", EPOCHS)
def test_a_resumed_fit_ends_in_the_same_bits(name, tmp_path):
    data = ratings()
    whole = make_model(name, epochs=6).fit(data, seed=2)
    folder = tmp_path / "c"
    make_model(name, epochs=6).fit(data, seed=2, run=Run(checkpoint=folder, checkpoint_epochs=2, stop_after=3))
    resumed = make_model(name, epochs=6).fit(data, seed=2, run=Run(checkpoint=folder, resume=True))
    everybody = np.arange(data.n_users)
    np.testing.assert_array_equal(resumed.score(everybody), whole.score(everybody))


@pytest.mark.parametrize("name", EPOCHS)
def test_validation_stops_a_fit_and_goes_back_to_the_best(name):
    parts = pr.split(ratings(n=1500, users=60, items=40), "ratio", seed=1)
    settings = {"validate_every": 1, "patience": 2, "epochs": 200}
    model = make_model(name, **settings).fit(parts.train, valid=parts.valid)
    assert len(model.history.records) < 200
    best = pr.evaluate(model, parts, on="valid", metrics=["P@5"]).metrics["P@5"]
    assert best == pytest.approx(model.history.best_metric)


@pytest.mark.parametrize("name", ["svd", "pmf"])
def test_a_fit_that_runs_away_is_told(name):
    with pytest.raises(DivergedError, match="lower learning_rate"):
        make_model(name, target="rating", learning_rate=5, schedule="constant").fit(ratings())


# ---------------------------------------------------------------------- Surprise


@pytest.fixture(scope="module")
def some_of_u1(ml_100k):
    """Every second rating to learn from, and every fourth to predict: Surprise is slow."""
    parts = pr.split(ml_100k, "u1", valid=False)
    return [log.subset(np.arange(len(log)) % step == 0) for log, step in ((parts.train, 2), (parts.test, 4))]


PEERS = {
    "slopeone": ("SlopeOne", {}, {}),
    "coclustering": ("CoClustering", {}, {"restarts": 1}),
    "svd": ("SVD", {}, {"dim": 100}),
    "pmf": ("SVD", {"biased": False}, {"dim": 100, "penalty": "per_pair", "regularization": 0.02}),
    "nmf": ("NMF", {}, {"dim": 15}),
}
"""The name in Surprise, and the settings there and here: its defaults, but one start of co-clustering, not five."""


@pytest.mark.slow
@every_model
def test_ratings_agree_with_surprise_and_are_had_sooner(name, some_of_u1):
    need("surprise")
    import pandas
    import surprise

    peer, theirs, ours = PEERS[name]
    train, test = some_of_u1
    table = pandas.DataFrame({"user": train.user_idx, "item": train.item_idx, "rating": train.rating})
    known = surprise.Dataset.load_from_df(table, surprise.Reader(rating_scale=(1, 5))).build_full_trainset()
    pairs = list(zip(test.user_idx.tolist(), test.item_idx.tolist(), test.rating.tolist(), strict=True))
    make_model(name, target="rating", **ours).fit(ratings())  # compiled before the clock starts
    errors, seconds = {"theirs": [], "ours": []}, {"theirs": [], "ours": []}
    for seed in range(1 if name == "slopeone" else 3):
        start = time.perf_counter()
        model = getattr(surprise, peer)(**theirs, **({} if name == "slopeone" else {"random_state": seed}))
        found = np.array([guess.est for guess in model.fit(known).test(pairs)])
        seconds["theirs"].append(time.perf_counter() - start)
        errors["theirs"].append(np.sqrt(np.mean((found - test.rating) ** 2)))
        start = time.perf_counter()
        found = make_model(name, target="rating", **ours).fit(train, seed=seed).predict(test.user_idx, test.item_idx)
        seconds["ours"].append(time.perf_counter() - start)
        errors["ours"].append(np.sqrt(np.mean((found - test.rating) ** 2)))
    assert np.mean(errors["ours"]) == pytest.approx(np.mean(errors["theirs"]), rel=0.01)
    assert min(seconds["ours"]) < min(seconds["theirs"])
