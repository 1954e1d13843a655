"""The torch engine: Adam, epochs, checkpoints, parameters, scorers."""

from __future__ import annotations

import importlib
import io
import math
import sys

import numpy as np
import pytest

from conftest import need

need("torch")

import torch

from engines.pure.phi import scores
from engines.pure.sources import source_of
from engines.pure.torch.reference import (
    N_ITEMS,
    N_USERS,
    SCORERS,
    batch_of,
    double,
    engine_of,
    interesting,
    numpy_phi,
    positives,
    settings_of,
)
from purerec.engines.pure.spec import Engine, initial_parameters, logit
from purerec.engines.pure.torch.engine import TorchEngine
from purerec.errors import ConfigError, DataError, MissingExtraError, StoreError
from purerec.rng import named_rng


def test_rows_follow_sparse_adam_and_untouched_rows_rest() -> None:
    settings = settings_of(scorer="fm")
    start = interesting(settings)
    engine = engine_of(settings, params=start)
    first, second = batch_of(settings, seed=2), batch_of(settings, n_p=2, n_u=2, seed=3)
    engine.step_discriminator(first, learning_rate=0.01)
    before, state = engine.parameters(), engine.state()
    engine.step_discriminator(second, learning_rate=0.01)
    after, later = engine.parameters(), engine.state()
    touched = np.unique(np.concatenate([second.pos_user, second.unl_user]))
    resting = np.setdiff1d(np.arange(N_USERS), touched)
    assert touched.size > 0
    assert resting.size > 0
    for name in ("user", "user_bias"):
        np.testing.assert_array_equal(after[name][resting], before[name][resting])
        np.testing.assert_array_equal(later[f"{name}/m"][resting], state[f"{name}/m"][resting])
        m, v = later[f"{name}/m"].astype(np.float64)[touched], later[f"{name}/v"].astype(np.float64)[touched]
        size = 0.01 * math.sqrt(1 - settings.beta2**2) / (1 - settings.beta1**2)  # the second step for all rows
        expected = before[name][touched] - size * m / (np.sqrt(v) + settings.epsilon)
        np.testing.assert_allclose(after[name][touched], expected, rtol=1e-5, atol=1e-7)
    assert later["user/step"] == later["bias/step"] == 2


def test_bias_may_be_held() -> None:
    settings = settings_of(train_bias=False, scorer="mf")
    engine = engine_of(settings)
    engine.train_discriminator(learning_rate=0.1)
    assert engine.parameters()["bias"][0] == pytest.approx(logit(settings.prior))
    assert "bias/m" not in engine.state()


def test_epoch_statistics() -> None:
    settings = settings_of(generators="both", constraint="norm", output="linear")
    engine = engine_of(settings)
    stats = engine.train_discriminator(learning_rate=1e-3)
    n_positive = positives()[1].size
    assert stats.samples == n_positive + 50 + 2 * 50
    assert all(0 < d < 1 for d in (stats.d_positive, stats.d_unlabeled, stats.d_fake))
    assert stats.fake_norm > 0
    without = engine.train_discriminator(learning_rate=1e-3, use_fakes=False)
    assert math.isnan(without.d_fake)
    assert math.isnan(without.fake_norm)
    assert without.samples == n_positive + 50
    game = engine.train_generators(learning_rate=1e-3, steps=3)
    assert math.isnan(game.d_positive)
    assert game.samples == 2 * 3 * settings.batch_size
    assert math.isfinite(game.loss)


def test_nothing_to_train_with_is_an_error() -> None:
    with pytest.raises(ConfigError, match="generators"):
        engine_of(settings_of()).train_generators(learning_rate=1e-3, steps=1)
    with pytest.raises(ConfigError, match="item_noise"):
        engine_of(settings_of()).step_generators(batch_of(settings_of()), learning_rate=1e-3)
    with pytest.raises(ConfigError, match="unlabeled_per_epoch"):
        engine_of(settings_of(unlabeled_per_epoch=0)).train_discriminator(learning_rate=1e-3)
    for indptr, indices, message in (
        ([0, 0, 0], [], "no positive"),
        ([0, 0, 2], [0, 1], "none or all of the 2 items"),
    ):
        with pytest.raises(DataError, match=message):
            TorchEngine(source_of(np.array(indptr), np.array(indices, dtype=np.int32), 2), settings_of(), seed=0)


@pytest.mark.parametrize("scorer", SCORERS)
def test_it_learns_two_groups(scorer: str) -> None:
    """Users like the items of their own half: a held-out one must rank above those of the other half."""
    own = np.arange(40)[:, None] % 2 == np.arange(30)[None] % 2
    seen = own & (np.random.default_rng(0).random((40, 30)) < 0.5)
    indptr, indices = np.concatenate([[0], np.cumsum(seen.sum(1))]), np.nonzero(seen)[1].astype(np.int32)
    settings = settings_of(scorer=scorer, dim=2, prior=1e-3, unlabeled_per_epoch=2 * indices.size, batch_size=32)
    engine = TorchEngine(source_of(indptr, indices, 30), settings, seed=0)
    for _ in range(10):
        engine.train_discriminator(learning_rate=0.02)
    found = scores(engine, np.arange(40))
    above = [np.mean(row[o & ~s][:, None] > row[~o][None]) for row, o, s in zip(found, own, seen, strict=True)]
    assert np.mean(above) > 0.95


def play(engine: Engine, epochs: int) -> None:
    for _ in range(epochs):
        engine.train_discriminator(learning_rate=1e-2)
        engine.train_generators(learning_rate=1e-2, steps=2)


def assert_same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name, strict=True)


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_resumed_run_ends_in_the_same_bits(scorer: str) -> None:
    settings = settings_of(scorer=scorer, generators="both", conditional=True, constraint="recolour")
    straight = engine_of(settings)
    play(straight, 4)
    stopped = engine_of(settings)
    play(stopped, 2)
    file = io.BytesIO()
    np.savez(file, **stopped.state())  # type: ignore[arg-type]
    file.seek(0)
    resumed = engine_of(settings)
    play(resumed, 1)  # its own past must not matter
    with np.load(file, allow_pickle=False) as state:
        resumed.restore(dict(state))
    play(resumed, 2)
    assert_same(straight.state(), resumed.state())


def test_a_state_taken_before_any_step_is_a_fresh_start() -> None:
    settings = settings_of(generators="item")
    fresh = engine_of(settings)
    other = engine_of(settings)
    play(other, 1)
    other.restore(fresh.state())
    play(fresh, 1)
    play(other, 1)
    assert_same(fresh.state(), other.state())


def test_state_and_parameters_are_copies() -> None:
    engine = engine_of(settings_of())
    state, params = engine.state(), engine.parameters()
    engine.train_discriminator(learning_rate=0.1)
    assert_same(params, {name: state[name] for name in params})


def test_a_foreign_checkpoint_is_an_error() -> None:
    with pytest.raises(StoreError, match="relation"):
        engine_of(settings_of(scorer="mf")).restore(engine_of(settings_of(scorer="gmf")).state())


def test_threads_do_not_change_the_bits_and_are_left_as_they_were() -> None:
    before, states = torch.get_num_threads(), []
    for n in (1, 3):
        torch.set_num_threads(n)
        engine = engine_of(settings_of(scorer="mlp", generators="both", constraint="recolour", dim=40, hidden=64))
        play(engine, 2)
        assert torch.get_num_threads() == n
        states.append(engine.state())
    torch.set_num_threads(before)
    assert_same(*states)


def test_seeds_matter_and_global_randomness_is_left_alone() -> None:
    indptr, indices = positives()
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    engines = [
        TorchEngine(source_of(indptr, indices, N_ITEMS), settings_of(scorer="mlp"), seed=seed) for seed in (0, 0, 1)
    ]
    losses = [engine.train_discriminator(learning_rate=1e-2).loss for engine in engines]
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
def test_parameters_are_those_of_the_game(scorer: str) -> None:
    settings = settings_of(scorer=scorer, generators="both", conditional=True)
    assert_same(
        dict(sorted(engine_of(settings).parameters().items())),
        dict(sorted(initial_parameters(N_USERS, N_ITEMS, settings, named_rng(1, "init")).items())),
    )


def test_mlp_parameters_start_from_the_seed() -> None:
    params = engine_of(settings_of(scorer="mlp", item_dim=3)).parameters()
    shapes = {name: value.shape for name, value in params.items() if name.startswith("mlp.")}
    assert shapes == {
        "mlp.0.weight": (32, 7),
        "mlp.0.bias": (32,),
        "mlp.2.weight": (16, 32),
        "mlp.2.bias": (16,),
        "mlp.4.weight": (1, 16),
    }
    assert np.abs(params["mlp.2.weight"]).max() <= math.sqrt(3 / 32)
    assert not params["mlp.0.bias"].any()


def test_part_of_the_parameters_may_be_given() -> None:
    settings = settings_of(generators="item")
    pretrained = {"user": np.full((N_USERS, 4), 0.5, dtype=np.float32)}
    params = engine_of(settings, params=pretrained).parameters()
    start = initial_parameters(N_USERS, N_ITEMS, settings, named_rng(1, "init"))
    assert_same(params, {name: (pretrained | {})[name] if name == "user" else start[name] for name in params})


def test_parameters_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ConfigError, match="unknown parameter relation"):
        engine_of(settings_of(scorer="mf"), params={"relation": np.ones(4, np.float32)})
    with pytest.raises(ConfigError, match=r"user must have shape \(12, 4\), not \(3, 4\)"):
        engine_of(settings_of(), params={"user": np.ones((3, 4), np.float32)})


def test_scores_are_phi_with_every_item() -> None:
    for scorer in SCORERS:
        engine = engine_of(settings_of(scorer=scorer))
        p, user = double(engine.parameters()), np.array([3, 0, 3], dtype=np.int32)
        expected = [numpy_phi(p, np.full(N_ITEMS, u), np.arange(N_ITEMS), None, None) for u in user]
        np.testing.assert_allclose(scores(engine, user), expected, rtol=1e-5)


class Distance(torch.nn.Module):
    """A custom scorer: minus a weighted squared distance, with dropout and a norm that has buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.dropout = torch.nn.Dropout(0.2)
        self.norm = torch.nn.BatchNorm1d(4, affine=False)

    def forward(self, e_u: torch.Tensor, e_i: torch.Tensor) -> torch.Tensor:
        return -(self.norm(self.dropout(e_u - e_i)).square() * self.weight).sum(1)


def test_a_scorer_from_outside() -> None:
    module = Distance()
    settings = settings_of(scorer="bilinear", generators="item")
    straight, stopped = engine_of(settings, scorer_module=module), engine_of(settings, scorer_module=module)
    assert "relation" not in straight.parameters()
    play(straight, 3)
    assert torch.equal(module.weight, torch.ones(4))  # the caller's module is not trained
    assert not np.array_equal(straight.parameters()["scorer.weight"], np.ones(4))
    play(stopped, 1)
    resumed = engine_of(settings, scorer_module=module)
    resumed.restore(stopped.state())
    play(resumed, 2)
    assert_same(straight.state(), resumed.state())  # dropout masks and running means included
    assert scores(straight, np.array([1])).shape == (1, N_ITEMS)


def test_a_scorer_of_the_wrong_shape_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"not \(2, 1\)"):
        engine_of(settings_of(), scorer_module=torch.nn.Bilinear(4, 4, 1))


def test_without_torch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "purerec.engines.pure.torch.engine")
    with pytest.raises(MissingExtraError, match=r"pip install 'purerec\[torch\]'"):
        importlib.import_module("purerec.engines.pure.torch.engine")
