"""What a model was fitted on: typed, checked when it is read, and the settings resolved from the data."""

import json
import time

import numba
import numpy as np
import pytest

import purerec as pr
from conftest import ROOT, checkerboard, need
from purerec.data.interactions import Interactions
from purerec.errors import DataError, StoreError
from purerec.jit.compiling import COMPILING
from purerec.models.contract.fitted_on import FittedOn
from purerec.models.registry import REGISTRY, load_model, make_model
from purerec.output.report import fit_report
from purerec.output.settings import shown_settings

every_model = pytest.mark.parametrize("name", REGISTRY)
FACTS = {
    "name": "clicks",
    "fingerprint": "0",
    "users": 6,
    "items": 6,
    "interactions": 12,
    "positives": 12,
    "positive_rating": None,
    "seed": 0,
    "fitted_at": "2026-11-16T14:23:17+00:00",
    "fit_seconds": 1,
}
UPDATED = {
    "times": 1,
    "name": "more",
    "fingerprint": "1",
    "interactions": 3,
    "new_users": 1,
    "new_items": 0,
    "new_positives": 2,
    "epochs": None,
    "seed": 0,
    "seconds": 0.5,
}


@pytest.fixture(scope="module")
def board():
    return checkerboard(12)


def test_what_is_written_is_read_again():
    for more in ({}, {"updated": UPDATED}, {"epochs_found": 7, "resolved": {"dim": 16, "prior": 0.25}}):
        found = FittedOn.read(FACTS | more)
        assert FittedOn.read(json.loads(json.dumps(found.to_dict()))) == found
        assert found.to_dict() == FACTS | more


def test_the_time_of_a_fit_and_of_an_update_leaves_out_compiling(monkeypatch, board):
    def compiles(fit):
        def slow(*args):
            numba.njit(lambda x: x + 1)(1)  # a new function each time
            return fit(*args)

        return slow

    pretrained = pr.PUGMF(epochs=1, dim=2).fit(board)
    for model in (pr.ItemPop, pr.PURE):
        monkeypatch.setattr(model, "_fit", compiles(model._fit))
        monkeypatch.setattr(model, "_continue", compiles(model._continue))
    monkeypatch.setattr(pr.PURE, "_fitting", compiles(pr.PURE._fitting))
    popular, pure = pr.ItemPop(), pr.PURE(epochs=1, pretrain_epochs=1, dim=2)
    more = Interactions.from_columns([98, 99], [0, 1])
    for fit, seconds in [
        (lambda: popular.fit(board), lambda: popular.fitted_on.fit_seconds),
        (lambda: popular.update(more), lambda: popular.fitted_on.updated.seconds),
        (lambda: pure.fit(board), lambda: pure.fitted_on.fit_seconds),
        (lambda: pure.update(more), lambda: pure.fitted_on.updated.seconds),
        (lambda: pure.fit(board, pretrained=pretrained), lambda: pure.fitted_on.fit_seconds),
    ]:
        began, before = time.perf_counter(), COMPILING.seconds
        fit()
        took, compiling = time.perf_counter() - began, COMPILING.seconds - before
        assert compiling > 0.01
        assert 0 <= seconds() <= took - compiling + 0.001  # it is rounded


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positives": "many"}, "positives='many' should be a valid integer"),
        ({"positives": True}, "positives=True should be a valid integer"),
        ({"users": -1}, "users=-1 should be greater"),
        ({"fit_seconds": float("nan")}, "fit_seconds=nan"),
        ({"udpated": UPDATED}, "udpated="),
        ({"updated": UPDATED | {"times": None}}, "updated.times=None"),
        ({"resolved": {"dim": "wide"}}, "resolved.dim"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(StoreError) as error:
        FittedOn.read(FACTS | change)
    assert f"fitted_on: {message}" in str(error.value)


def test_a_missing_fact_is_named():
    with pytest.raises(StoreError, match="fitted_on: seed is missing"):
        FittedOn.read({name: value for name, value in FACTS.items() if name != "seed"})


def test_a_folder_of_the_first_format_has_no_resolved_settings():
    assert load_model(ROOT / "tests" / "fixtures" / "model-format-1").fitted_on.resolved == {}


# ---------------------------------------------------------------------- settings resolved from the data


@every_model
def test_every_setting_that_follows_from_the_data_is_kept_and_shown(name, board, tmp_path):
    if name in ("cfgan", "multvae"):
        need("torch")
    model = make_model(name).fit(board, seed=0)
    resolved = model.fitted_on.resolved
    left_open = {key for key, value in model.config if value is None} - {"patience"}
    assert set(resolved) == left_open
    assert load_model(model.save(tmp_path / "m")).fitted_on.resolved == resolved
    shown = shown_settings(model.config, resolved)
    for key, value in resolved.items():
        assert shown[key] == f"{value:.4g} (by default)"
        assert f"<tr><th>{key}</th><td>{value:.4g} (by default)</td></tr>" in fit_report(model)
    if "dim" in resolved:
        assert model._vector_part().users.shape[1] == resolved["dim"]


@every_model
def test_a_setting_that_is_given_is_not_called_a_default(name, board):
    model = make_model(name)
    found = model.resolved(board.positives)
    fixed = make_model(name, **found)
    assert fixed.resolved(board.positives) == {}
    settings = {key: getattr(fixed.config, key) for key in found}
    assert settings == found


@pytest.mark.parametrize("name", ["pure", "gmf", "bpr", "ials", "svd", "itemknn", "coclustering"])
def test_the_resolved_settings_are_those_of_the_fit(name, board):
    """The same settings spelled out give the same bits."""
    rule = make_model(name).fit(board, seed=0)
    spelled = make_model(name, **rule.fitted_on.resolved).fit(board, seed=0)
    users = np.arange(len(rule.users))
    np.testing.assert_array_equal(rule.score(users), spelled.score(users))


@pytest.mark.parametrize(("name", "width", "most"), [("pugmf", 16, 2000), ("bpr", 5, 200), ("ials", 10, 200)])
def test_an_update_keeps_the_width_and_says_so(name, width, most):
    """By the rule, up to this many users have vectors of this width, and more users have wider ones."""
    before, after = most - 10, most + 30
    users = np.repeat(np.arange(after), 3)
    log = Interactions.from_columns(users, (users + np.tile([0, 1, 3], after)) % 40)
    model = make_model(name, epochs=1).fit(log.subset(log.user_idx < before).compact(), seed=0)
    assert model.fitted_on.resolved["dim"] == width < make_model(name).resolved(log.positives)["dim"]
    model.update(log.subset(log.user_idx >= before).compact())
    assert model.fitted_on.users == after
    assert model.fitted_on.resolved["dim"] == width == model._vector_part().users.shape[1]


def test_what_is_no_log_is_refused(board):
    for wrong, name in (("clicks.csv", "str"), (pr.split(board), "Split")):
        with pytest.raises(DataError, match=f"or the full_train of a split, not {name}"):
            pr.ItemPop().fit(wrong)
