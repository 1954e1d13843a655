"""What every registered model promises."""

import contextlib
import threading
import warnings
from copy import copy

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard
from purerec.errors import ConfigError, DataError, NotFittedError, StoreError, UnknownIdError
from purerec.models.contract.fitted_on import FittedOn
from purerec.models.registry import REGISTRY, load_model, make_model, model_class
from purerec.storage.manifests import manifest_digest
from purerec.training.run import Run

QUICK: dict[str, dict[str, object]] = {"multvae": {"epochs": 25}, "cfgan": {"epochs": 25}}
"""Settings that make a model fast on the tiny data here; empty for most."""

every_model = pytest.mark.parametrize("name", REGISTRY)


def make(name):
    return make_model(name, **QUICK.get(name, {}))


@pytest.fixture(scope="module")
def board():
    return checkerboard()


@pytest.fixture(scope="module")
def fitted(board):
    cache = {}

    def get(name):
        if name not in cache:
            cache[name] = make(name).fit(board, seed=0)
        return cache[name]

    return get


def scores(model):
    return model.score(np.arange(len(model.users)))


@every_model
def test_scores_are_finite_float32_of_the_right_shape(name, fitted, board):
    found = scores(fitted(name))
    assert found.shape == board.shape
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


@every_model
def test_same_seed_same_scores(name, fitted, board):
    np.testing.assert_array_equal(scores(make(name).fit(board, seed=0)), scores(fitted(name)))


@every_model
def test_save_and_load_give_identical_scores(name, fitted, tmp_path):
    model = fitted(name)
    again = load_model(model.save(tmp_path / "m", metrics={"P@5": 0.5}))
    np.testing.assert_array_equal(scores(again), scores(model))
    assert again.config == model.config
    assert again.fitted_on == model.fitted_on
    assert again.recommend([3], k=4).equals(model.recommend([3], k=4))


@every_model
def test_structure_of_a_checkerboard_is_learned(name, fitted):
    model = fitted(name)
    if not model.personalised:
        pytest.skip("not personalised")
    found = model.recommend(k=1)
    # The one remaining item of a user's own colour.
    right = (found["user"] == found["item"]).mean()
    assert right >= 0.9


@every_model
def test_factors_are_the_scores(name, fitted):
    model = fitted(name)
    parts = model.factors()
    if parts is None:
        pytest.skip("not a dot-product model")
    product = parts.users @ parts.items.T
    if parts.item_bias is not None:
        product = product + parts.item_bias
    found = scores(model)
    # Scores may differ from the product by a constant per user, which ranks nothing.
    shift = (found - product).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, product + shift, rtol=1e-4, atol=1e-4)


@every_model
def test_what_is_not_fitted_says_so(name, board):
    """Also after a change of settings, which must not leave the old fit's answers behind."""
    before, changed = make(name), make(name).fit(board, seed=0)
    assert changed.recommend(k=1).height
    changed.set_params(**changed.get_params())
    for model in (before, changed):
        assert not model.is_fitted
        for ask in (
            lambda model: model.score([0]),
            lambda model: model.learned,
            lambda model: model.fitted_on,
            lambda model: model.popularity(),
            lambda model: model.fold_in([0]),
            lambda model: model.update(board),
            lambda model: model.save("not written"),
        ):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                ask(model)


@every_model
def test_a_copy_does_not_follow_what_it_was_copied_from(name, board):
    model = make(name).fit(board, seed=0)
    before = model.recommend(k=3), model.popularity(), model.recommend_for([board.items[0]], k=3)
    copied = copy(model)
    model.fit(pr.Interactions.from_columns(board.user_idx[:90], board.item_idx[:90] // 2), seed=1)
    after = copied.recommend(k=3), copied.popularity(), copied.recommend_for([board.items[0]], k=3)
    assert before[0].equals(after[0])
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2].equals(after[2])


@every_model
def test_refit_forgets(name, fitted, board):
    model = make(name).fit(board.subset(np.arange(50)), seed=0)
    np.testing.assert_array_equal(scores(model.fit(board, seed=0)), scores(fitted(name)))


def promised(model):
    """What a model answers with, and what it would save."""
    return {"scores": scores(model), "users": model.users.ids.to_numpy(), **model._state()}


@every_model
@pytest.mark.parametrize("when", ["in an epoch", "after a validation", "at the end"])
def test_a_fit_that_is_not_completed_changes_nothing(name, when, board, tmp_path, monkeypatch):
    if when != "at the end" and "validate_every" not in make(name).config_class.model_fields:
        pytest.skip("not fitted in epochs")
    model = make(name).fit(board, seed=0)
    before, facts, listed = promised(model), model.fitted_on, model.recommend([3], k=4)
    other, valid, stop = checkerboard(24), None, {}

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    if when == "at the end":
        monkeypatch.setattr(FittedOn, "of", interrupt)
    else:
        stop = {"run": Run(callbacks=(interrupt,))}
        if when == "after a validation":
            other, valid = other.subset(np.arange(20, len(other))), other.subset(np.arange(20))
            model.config = model.config.model_copy(update={"validate_every": 1})
    with pytest.raises(KeyboardInterrupt):
        model.fit(other, valid=valid, seed=1, **stop)
    for same in (model, load_model(model.save(tmp_path / "m"))):
        found = promised(same)
        assert found.keys() == before.keys()
        for part, array in found.items():
            np.testing.assert_array_equal(array, before[part])
        assert same.fitted_on == facts
        assert same.recommend([3], k=4).equals(listed)


@every_model
@pytest.mark.parametrize(
    ("user", "item"),
    [
        ([1, 1, 1], [1, 2, 3]),
        ([1, 2, 3], [1, 1, 1]),
        ([1], [1]),
    ],
    ids=["single user", "single item", "single pair"],
)
def test_degenerate_data_is_fitted_or_refused_in_words(name, user, item):
    data = pr.Interactions.from_columns(user, item)
    with contextlib.suppress(DataError):
        assert np.isfinite(scores(make(name).fit(data, seed=0))).all()


@every_model
def test_a_user_without_positives_gets_a_list(name):
    data = pr.Interactions.from_columns(
        np.repeat(np.arange(6), 3), (np.arange(18) * 5) % 7, rating=[5] * 15 + [1] * 3, positive_rating=4
    )
    found = make(name).fit(data, seed=0).recommend([5], k=3)
    assert len(found) == 3
    assert np.isfinite(found["score"].to_numpy()).all()


@every_model
def test_input_is_not_changed(name, board):
    before = board.fingerprint, board.positives.indices.copy()
    make(name).fit(board, seed=1)
    del board.__dict__["fingerprint"]
    assert board.fingerprint == before[0]
    np.testing.assert_array_equal(board.positives.indices, before[1])


@every_model
def test_recommendations_leave_out_what_is_seen(name, fitted, board):
    found = fitted(name).recommend(k=5)
    seen = set(
        zip(board.users.take(board.user_idx).to_list(), board.items.take(board.item_idx).to_list(), strict=True)
    )
    assert not seen & set(zip(found["user"].to_list(), found["item"].to_list(), strict=True))
    assert found["rank"].to_list()[:5] == [1, 2, 3, 4, 5]
    assert fitted(name).recommend([0], k=100)["item"].n_unique() == 20 - board.positives.counts[0]


@every_model
def test_unknown_and_misused(name, fitted):
    with pytest.raises(UnknownIdError, match="recommend_for"):
        fitted(name).recommend(["nobody"])
    with pytest.raises(NotFittedError, match="fit"):
        make(name).score([0])
    with pytest.raises(ConfigError, match="no setting 'colour'"):
        make_model(name, colour=3)
    with pytest.raises(ConfigError, match="k must be"):
        fitted(name).recommend([0], k=0)
    with pytest.raises(DataError, match="user indices"):
        fitted(name).score([10**6])


@every_model
def test_score_is_thread_safe(name, fitted):
    model, expected = fitted(name), scores(fitted(name))
    wrong = []

    def work():
        wrong.extend(not np.array_equal(scores(model), expected) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(wrong)


@every_model
def test_a_person_who_was_not_there(name, fitted):
    model = fitted(name)
    try:
        found = model.recommend_for([0, 2, 4, 6], k=6)
    except ConfigError:
        pytest.skip("cannot recommend for new people yet")
    assert not set(found["item"].to_list()) & {0, 2, 4, 6}
    if model.personalised:
        assert all(item % 2 == 0 for item in found["item"].to_list()[:4])
    with pytest.warns(UserWarning, match="ignoring history items not in training: 'Alien'$"):
        model.recommend_for(["Alien", 2])
    with pytest.warns(UserWarning, match="'Alien'; none are left, so popular items are listed$"):
        model.recommend_for(["Alien"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(model.recommend_for([], k=3)) == 3


@every_model
def test_every_setting_is_documented_and_bounded(name):
    for setting, field in model_class(name).config_class.model_fields.items():
        assert field.description, f"{name}.{setting} has no docstring"


def test_a_model_of_another_version_is_refused(fitted, tmp_path):
    import json

    folder = fitted("itempop").save(tmp_path / "m")
    manifest = json.loads((folder / "manifest.json").read_text())

    def write(**changes):
        changed = {**manifest, **changes}
        (folder / "manifest.json").write_text(json.dumps({**changed, "manifest_sha256": manifest_digest(changed)}))

    write(model="oracle")
    with pytest.raises(StoreError, match="does not know"):
        load_model(folder)
    write(config={"magic": 1})
    with pytest.raises(StoreError, match="does not fit this version"):
        load_model(folder)
