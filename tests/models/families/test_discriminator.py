"""Which draws a discriminator makes by default, and their effect on a fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import purerec as pr
from conftest import need
from purerec.data.pairs import Csr
from purerec.errors import ConfigError

MODELS = (pr.PURE, pr.PUGMF, pr.GMF)


def log(n_users: int, n_items: int, each: int) -> Csr:
    """People with neighbouring items; nobody has the last ones."""
    users = np.repeat(np.arange(n_users), each)
    items = (users * 7 + np.tile(np.arange(each), n_users)) % 500
    return Csr.of(users, items, (n_users, n_items))


@pytest.mark.parametrize("model", MODELS)
def test_batches_share_draws_in_large_catalogues(model: type) -> None:
    small, large = (model()._settings(log(300, n, 10)) for n in (10_000, 10_001))
    usual, shared = (16, 128) if model is pr.PURE else (8, 256)
    assert (small.unlabeled, small.unlabeled_per_epoch, small.dim) == ("per_user", usual * 3000, 16)
    assert (large.unlabeled, large.unlabeled_per_epoch, large.dim) == ("shared", shared * 3000, 64)
    assert large.shared_items(3000, 10_001) == shared
    assert model().resolved(log(300, 10_001, 10))["unlabeled_ratio"] == shared


def test_a_given_width_counts_with_shared_draws_too() -> None:
    assert pr.PURE(dim=5)._settings(log(300, 20_000, 7)).dim == 5


@pytest.mark.parametrize(
    "settings",
    [
        {"unlabeled": "per_user"},
        {"unlabeled_ratio": 63.0},
        {"prior": "per_user"},
        {"stratified": False},
        {"negatives": "dns"},
        {"engine": "torch"},
        {"scorer": "mlp"},
    ],
    ids=str,
)
def test_draws_are_not_shared_where_that_would_not_do(settings: dict[str, object]) -> None:
    assert pr.PUGMF(**settings)._settings(log(300, 20_000, 10)).unlabeled == "per_user"


def test_the_printed_form_is_as_it_was() -> None:
    assert pr.PURE.paper("yelp")._settings(log(300, 20_000, 10)).unlabeled == "global"


@pytest.mark.parametrize("model", MODELS)
def test_the_resolved_settings_give_the_same_bits(model: type) -> None:
    """In a large catalogue: the ratio spelled out must not turn sharing off."""
    data = frame(200, 12_000)
    few = {"pretrain_epochs": 2, "neighbors": 20} if model is pr.PURE else {}  # all neighbours would take a minute
    rule = model(epochs=3, **few).fit(data, seed=1)
    spelled = model(rule.config.model_copy(update=rule.fitted_on.resolved)).fit(data, seed=1)
    assert spelled._settings(data.positives).unlabeled == "shared"
    users = np.arange(5)
    np.testing.assert_array_equal(rule.score(users), spelled.score(users))


def frame(n_users: int, n_items: int) -> pr.Interactions:
    rng = np.random.default_rng(0)
    users, items = np.repeat(np.arange(n_users), 12), rng.integers(0, 300, 12 * n_users)
    rare = pl.DataFrame({"user": np.arange(n_items) % n_users, "item": np.arange(n_items)})
    return pr.read(pl.concat([pl.DataFrame({"user": users, "item": items}), rare]).unique())


def test_an_update_past_the_limit_keeps_the_width() -> None:
    model = pr.GMF(epochs=2).fit(frame(300, 9_990), seed=0)
    assert model.fitted_on.resolved["dim"] == 16
    model.update(pr.read(pl.DataFrame({"user": np.arange(20), "item": np.arange(9_990, 10_010)})))
    assert len(model.items) == 10_010
    assert model.fitted_on.resolved["dim"] == 16 == model._vector_part().users.shape[1]


def test_both_engines_learn_the_same_from_shared_draws() -> None:
    """Even people like even items; torch spells the pairs out."""
    need("torch")
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(120), 14)
    items = 2 * rng.integers(0, 40, users.size) + users % 2
    data = pr.read(pl.DataFrame({"user": users, "item": items}).unique())
    odd_users, odd_items = (np.array([int(id_) % 2 for id_ in ids]) for ids in (data.users, data.items))
    is_right = odd_users[:, None] == odd_items
    for engine in ("cpu", "torch"):
        model = pr.PUGMF(engine=engine, unlabeled="shared", unlabeled_ratio=20, epochs=40, dim=4).fit(data, seed=0)
        scores = model.score(np.arange(data.n_users))
        before = [(row[own][:, None] > row[~own]).mean() for row, own in zip(scores, is_right, strict=True)]
        assert np.mean(before) > 0.95, engine


def test_what_shared_draws_do_not_go_with_is_refused() -> None:
    with pytest.raises(ConfigError, match="unlabeled='per_user'"):
        pr.PUGMF(prior="per_user", unlabeled="shared")
    with pytest.raises(ConfigError, match="negatives='dns' chooses for each positive; use unlabeled='per_user'"):
        pr.GMF(negatives="dns", unlabeled="shared")
    with pytest.raises(ConfigError, match="'auto', 'per_user', 'global', 'popularity' or 'shared'"):
        pr.GMF(unlabeled="shaerd")
    assert replace(pr.PUGMF()._settings(log(30, 500, 5)), unlabeled="shared").shared_items(150, 500) == 8
