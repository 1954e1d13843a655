"""More data for a fitted model: what every model promises about `update`, and the command."""

import json
from copy import deepcopy
from functools import cache

import numpy as np
import polars as pl
import pytest

from conftest import checkerboard, need, purerec
from purerec.data.interactions import Interactions
from purerec.errors import ConfigError, DataError, NotFittedError
from purerec.experiments.cells.work import finish
from purerec.experiments.plans import Plan
from purerec.experiments.updating import Outgrown, cells_of, cut, later
from purerec.models.contract.iterative import EpochModel
from purerec.models.contract.updating import unite
from purerec.models.registry import REGISTRY, load_model, make_model
from purerec.training.run import Run

every_model = pytest.mark.parametrize("name", REGISTRY)
REFITTED = ("itempop", "slopeone", "coclustering", "ease", "itemknn", "nmf")


@pytest.fixture(scope="module")
def board():
    return checkerboard()


@pytest.fixture(scope="module")
def old(board):
    """Without the last four users and the last three items."""
    return board.subset((board.user_idx < 16) & (board.item_idx < 17)).compact()


@pytest.fixture(scope="module")
def new(board):
    """The rest, and user 15 once more."""
    return board.subset((board.user_idx >= 15) | (board.item_idx >= 17)).compact()


def scores(model):
    return model.score(np.arange(len(model.users)))


@pytest.fixture(scope="module")
def fitted(old):
    """A model of the old log, fitted once; each test gets a copy to update."""

    @cache
    def fit(name):
        if name in ("cfgan", "multvae"):
            need("torch")
        return make_model(name).fit(old, seed=0)

    return lambda name: deepcopy(fit(name))


@pytest.fixture(scope="module")
def grown(fitted, new):
    """The same after an update, made once; read-only."""
    return cache(lambda name: fitted(name).update(new))


def no_rows(data):
    return data.subset(np.zeros(len(data), dtype=bool))


@every_model
def test_new_people_and_items_are_recommended(name, board, grown):
    model = grown(name)
    assert np.isfinite(scores(model)).all()
    assert scores(model).shape == board.shape
    found = model.recommend([16, 17, 18, 19], k=1)
    assert found["user"].to_list() == [16, 17, 18, 19]
    if model.personalised:
        everyone = model.recommend(k=1)
        assert (everyone["user"] == everyone["item"]).mean() >= 0.8  # the one remaining item of their own colour


@every_model
def test_old_ids_keep_their_index(name, fitted, new):
    before = fitted(name)
    users, items = before.users.ids.to_list(), before.items.ids.to_list()
    before.update(new)
    assert before.users.ids.to_list() == [*users, 16, 17, 18, 19]
    assert before.items.ids.to_list() == [*items, 17, 18, 19]


@every_model
def test_all_positives_are_remembered(name, board, grown):
    model = grown(name)
    pairs = set(zip(model.users.take(model.seen.users), model.items.take(model.seen.indices), strict=True))
    everything = zip(board.users.take(board.user_idx), board.items.take(board.item_idx), strict=True)
    assert pairs == set(everything)
    assert model.fitted_on.positives == len(board)


@every_model
def test_an_empty_or_known_log_changes_nothing(name, old, fitted):
    model = fitted(name)
    before, facts = scores(model), model.fitted_on
    for nothing in (no_rows(old), old, old.subset(np.arange(7)).compact()):
        assert model.update(nothing) is model
        np.testing.assert_array_equal(scores(model), before)
        assert model.fitted_on == facts


@every_model
def test_same_seed_same_scores(name, fitted, new):
    np.testing.assert_array_equal(*(scores(fitted(name).update(new, seed=3)) for _ in range(2)))


@every_model
def test_saved_and_loaded_after_an_update(name, old, new, grown, tmp_path):
    model = grown(name)
    again = load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(scores(again), scores(model))
    assert again.config == model.config == make_model(name).config
    assert again.fitted_on == model.fitted_on
    facts = again.fitted_on.updated
    assert (facts.times, facts.new_users, facts.new_items) == (1, 4, 3)
    assert facts.fingerprint == new.fingerprint
    assert again.fitted_on.interactions == len(old) + len(new)


@every_model
def test_a_loaded_model_can_be_updated_to_the_same_bits(name, new, fitted, grown, tmp_path):
    again = load_model(fitted(name).save(tmp_path / "m"))
    np.testing.assert_array_equal(scores(again.update(new)), scores(grown(name)))


@pytest.mark.parametrize("name", REFITTED)
def test_models_without_epochs_are_fitted_anew(name, old, new, fitted):
    model = fitted(name).update(new)
    fresh = make_model(name).fit(unite(make_model(name).fit(old), new).united, seed=0)
    np.testing.assert_array_equal(scores(model), scores(fresh))
    with pytest.raises(ConfigError, match="fitted from scratch by an update"):
        model.update(checkerboard(22), epochs=3)


@pytest.mark.parametrize("name", ["itempop", "ease", "itemknn"])
def test_exact_models_do_not_depend_on_the_order_of_ids(name, old, new, board):
    model, fresh = (make_model(name).fit(log, seed=0) for log in (new, board))
    model.update(old)
    users, items = fresh.users.indices(model.users.ids.to_list()), fresh.items.indices(model.items.ids.to_list())
    np.testing.assert_allclose(scores(model), scores(fresh)[np.ix_(users, items)], rtol=1e-4, atol=1e-5)


def test_the_list_of_models_that_are_fitted_anew_is_complete():
    models = [make_model(name) for name in REGISTRY]
    assert tuple(m.name for m in models if not (isinstance(m, EpochModel) and m.continues)) == tuple(
        name for name in REGISTRY if name in REFITTED
    )


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in REFITTED and name != "cfgan"])
def test_a_short_update_stays_near_what_was_known(name, old, fitted):
    """One new pair is no reason to forget the rest: the update continues and does not start over."""
    model = fitted(name)
    before = scores(model)
    one = Interactions.from_columns([0], [1])
    after = scores(model.update(one, epochs=1, seed=5))
    far = scores(make_model(name).fit(old, seed=9))

    def centred(found):
        return found - found.mean(axis=1, keepdims=True)

    assert np.abs(centred(after) - centred(before)).mean() < 0.5 * np.abs(centred(before)).mean()
    if name != "ials":  # all of its starts end in about the same place
        assert np.abs(centred(after) - centred(before)).mean() < np.abs(centred(far) - centred(before)).mean() * 2


@pytest.mark.parametrize("settings", [{"scorer": "gmf"}, {"scorer": "bilinear"}, {"dim": 3}, {"neighbors": 4}])
def test_every_form_grows(settings, old, new):
    model = make_model("pure", **settings).fit(old, seed=0)
    width = model._params["user"].shape[1]
    model.update(new)
    assert model._params["user"].shape == (20, width)
    assert model._history_part().row(19).shape == (20,)


@pytest.mark.parametrize("output", ["generator", "discriminator"])
def test_either_player_of_irgan_continues(output, old, new):
    model = make_model("irgan", output=output).fit(old, seed=0)
    before = model.factors().users
    after = model.update(new).factors().users[:16]
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.9


def test_the_width_of_vectors_does_not_follow_the_number_of_users(old):
    rng = np.random.default_rng(0)
    many = Interactions.from_columns(np.repeat(np.arange(100, 2_200), 2), rng.integers(0, 17, 4_200))
    model = make_model("bpr").fit(old, seed=0).update(many, epochs=1)
    assert model.factors().users.shape == (16 + 2_100, 5)


def test_an_interruption_changes_nothing(old, new):
    model = make_model("pugmf").fit(old, seed=0)
    before, facts, config = scores(model), model.fitted_on, model.config

    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.update(new, run=Run(callbacks=(stop,)))
    np.testing.assert_array_equal(scores(model), before)
    assert (model.fitted_on, model.config, len(model.users)) == (facts, config, 16)


def test_two_updates_count(old, new):
    model = make_model("bpr").fit(old, seed=0).update(new).update(Interactions.from_columns([77], [3]))
    assert model.fitted_on.updated.times == 2
    assert model.fitted_on.updated.new_users == 1
    assert model.users.find(77) == 20


def test_what_is_no_log_is_refused(old):
    with pytest.raises(DataError, match=r"update\(\) takes a log from pr\.read, not a list"):
        make_model("itempop").fit(old).update([("ann", "tea")])


def test_ids_of_another_kind_are_refused(old):
    model = make_model("itempop").fit(old)
    with pytest.raises(DataError, match=r"user ids are integers \(such as 0\), those of the new data are text"):
        model.update(Interactions.from_columns(["ann"], [3]))
    with pytest.raises(DataError, match=r"text \(such as 'ann'\)"):  # not '1', which looks like one of the model's
        model.update(Interactions.from_columns(["1", "ann"], [3, 3]))
    with pytest.raises(DataError, match=r"item ids are integers .* text \(such as 'x'\)"):
        model.update(Interactions.from_columns([3], ["x"]))
    text = make_model("itempop").fit(Interactions.from_columns(["ann"], ["x"]))
    with pytest.raises(DataError, match=r"ids are text .* integers"):
        text.update(Interactions.from_columns([3], ["y"]))


@pytest.mark.parametrize("name", ["svd", "pmf", "nmf", "slopeone", "coclustering"])
def test_models_of_ratings_say_to_fit_again(name):
    data = Interactions.from_columns([1, 1, 2, 2, 3], [1, 2, 1, 3, 3], rating=[5, 3, 4, 1, 2])
    model = make_model(name, target="rating").fit(data, seed=0)
    with pytest.raises(ConfigError, match="fit again with all ratings"):
        model.update(Interactions.from_columns([4], [1], rating=[5]))


def test_an_unfitted_model_has_nothing_to_update(new):
    with pytest.raises(NotFittedError):
        make_model("bpr").update(new)


def test_epochs_must_be_some(old, new):
    with pytest.raises(ConfigError, match="at least 1"):
        make_model("bpr").fit(old).update(new, epochs=0)


def test_labels_are_kept_and_added():
    first = Interactions.from_columns([1, 2], [10, 20]).with_labels({"10": "ten"})
    more = Interactions.from_columns([1, 3], [20, 30]).with_labels({"20": "twenty", "30": "thirty"})
    model = make_model("itempop").fit(first).update(more)
    assert model.labels.to_list() == ["ten", "twenty", "thirty"]
    bare = make_model("itempop").fit(Interactions.from_columns([1], [10])).update(more)
    assert bare.labels.to_list() == [None, "twenty", "thirty"]
    kept = make_model("itempop").fit(first).update(Interactions.from_columns([1], [40]))
    assert kept.labels.to_list() == ["ten", None, None]
    assert (
        make_model("itempop")
        .fit(Interactions.from_columns([1], [10]))
        .update(Interactions.from_columns([1], [40]))
        .labels
        is None
    )


def test_ratings_count_as_in_the_first_fit():
    first = Interactions.from_columns([1, 1, 2], [1, 2, 1], rating=[5, 2, 4], positive_rating=4)
    model = make_model("itempop").fit(first)
    model.update(Interactions.from_columns([3, 3], [1, 2], rating=[5, 1]))
    assert model.fitted_on.positives == 3
    assert len(model.users) == 3  # user 3 is there, with the one item that they liked


# ---------------------------------------------------------------------- quality


def test_a_log_is_cut_in_time():
    data = Interactions.from_columns(
        np.arange(10), np.arange(10) % 3, timestamp=[9, 8, 7, 6, 5, 4, 3, 2, 1, 0], name="ten"
    )
    times = cut(data, (0.6, 0.8, 1.0))
    assert [len(part) for part in (times.first, times.new, times.test)] == [6, 2, 2]
    assert times.test.timestamp.min() > times.new.timestamp.max() > times.first.timestamp.max()
    with pytest.raises(DataError, match="no times"):
        cut(checkerboard(), (0.8, 0.9, 1.0))


def test_only_what_can_be_known_is_asked_for():
    data = Interactions.from_columns([1, 2, 1, 3, 1, 4, 3], [1, 2, 2, 1, 3, 1, 2], timestamp=np.arange(7))
    times = cut(data, (2 / 7, 4 / 7, 1.0))
    model = make_model("itempop").fit(times.first)
    united = unite(model, times.new).united
    test = later(times, united).test
    asked = list(zip(test.users.take(test.user_idx), test.items.take(test.item_idx), strict=True))
    assert asked == [(3, 2)]  # item 3 and user 4 first occur in the test part


def test_an_outgrown_model_gives_popularity_to_strangers(old, new):
    model = make_model("bpr").fit(old, seed=0)
    scorer = Outgrown(model, 20)
    found = scorer.score(np.array([0, 18]))
    np.testing.assert_array_equal(found[0, :17], model.score([0])[0])
    np.testing.assert_array_equal(found[1, :17], model.popularity())
    assert (found[:, 17:] < found[:, :17].min(axis=1, keepdims=True)).all()


def test_the_three_ways_are_judged_alike():
    rng = np.random.default_rng(0)
    data = Interactions.from_columns(
        rng.integers(0, 60, 3_000), rng.integers(0, 40, 3_000), timestamp=np.arange(3_000)
    ).deduplicate()
    plan = Plan("bpr", "bpr", {"epochs": 3})
    ways = cells_of(cut(data, (0.8, 0.9, 1.0)), [plan], 1, "NDCG@10")["bpr"]
    assert list(ways) == ["old", "updated", "refitted"]
    found = finish([cell for own in ways.values() for cell in own], None)
    assert len({run.evaluation.fingerprint for run in found.values()}) == 1
    assert len({run.evaluation.metrics["NDCG@10"] for run in found.values()}) == 3


# ---------------------------------------------------------------------- the command


@pytest.fixture
def shop(tmp_path):
    """A fitted model of text ids, and the next day."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 30, 300), rng.integers(0, 20, 300)
    day = pl.DataFrame({"user": [f"u{u}" for u in users], "item": [f"i{i}" for i in items]}).unique(
        maintain_order=True
    )
    day.write_csv(tmp_path / "monday.csv")
    pl.DataFrame({"user": ["u1", "newcomer"], "item": ["i99", "i3"]}).write_csv(tmp_path / "tuesday.csv")
    done = purerec("fit", tmp_path / "monday.csv", "--model", "bpr", "--set", "epochs=5", "--out", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_a_table_of_the_new_items_alone(shop):
    (shop / "items.csv").write_text("item,genre\ni99,new\n")
    purerec("update", shop / "m", "--items", shop / "items.csv", "--out", shop / "n", check=2)  # not its items
    purerec("update", shop / "m", shop / "tuesday.csv", "--items", shop / "items.csv", "--out", shop / "n", check=0)
    said = purerec("recommend", shop / "n", "--user", "u2", "--where", "genre=new", "--json", "-", check=0).stdout
    assert [row["item"] for row in json.loads(said)] == ["i99"]


@pytest.mark.slow
def test_update_in_place_and_elsewhere(shop):
    done = purerec("update", shop / "m", shop / "tuesday.csv", "--out", shop / "m2")
    assert done.returncode == 0, done.stderr
    assert "2 new positives, 1 new user and 1 new item" in done.stdout.replace("\n", " ")
    assert load_model(shop / "m").users.find("newcomer") is None
    assert load_model(shop / "m2").users.find("newcomer") is not None
    done = purerec("update", shop / "m", shop / "tuesday.csv", "--out", shop / "m")
    assert done.returncode == 0, done.stderr
    assert purerec("recommend", shop / "m", "--user", "newcomer").returncode == 0
    again = purerec("update", shop / "m", shop / "tuesday.csv", "--out", shop / "m")
    assert again.returncode == 0
    assert "nothing" in again.stdout
    assert json.loads((shop / "m" / "manifest.json").read_text())["fitted_on"]["updated"]["times"] == 1


@pytest.mark.slow
def test_update_with_bad_input_is_one_line(shop):
    (shop / "odd.csv").write_text("user,item\nu1\n")
    for args in (
        (shop / "nowhere", shop / "tuesday.csv"),
        (shop / "m", shop / "nowhere.csv"),
        (shop / "m", shop / "odd.csv"),
        (shop / "m", shop / "tuesday.csv", "--epochs", "0"),
    ):
        done = purerec("update", *args, "--out", shop / "out")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert not (shop / "out").exists()


@pytest.mark.slow
def test_a_file_of_digits_is_text_for_a_model_of_text(shop):
    (shop / "digits.csv").write_text("user,item\n17,i3\n")
    done = purerec("update", shop / "m", shop / "digits.csv", "--out", shop / "m3")
    assert done.returncode == 0, done.stderr
    assert load_model(shop / "m3").users.find("17") is not None
