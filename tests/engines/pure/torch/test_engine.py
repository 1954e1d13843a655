"""The torch engine against plain numpy: losses, gradients, Adam, constraints, epochs, checkpoints."""

from __future__ import annotations

import importlib
import io
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from conftest import need

need("torch")

import torch

from engines.pure.phi import scores
from engines.pure.sources import source_of
from purerec.engines.pure.spec import Batch, Engine, GameSettings, Params, initial_parameters, logit
from purerec.engines.pure.torch.engine import TorchEngine
from purerec.engines.pure.torch.modules import limit_norm, real_side, recolour
from purerec.errors import ConfigError, DataError, DivergedError, MissingExtraError, StoreError
from purerec.paper import risks

N_USERS, N_ITEMS = 12, 9
SCORERS = ["mf", "gmf", "bilinear", "fm", "mlp"]


def positives(density: float = 0.3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    seen = np.random.default_rng(seed).random((N_USERS, N_ITEMS)) < density
    return np.concatenate([[0], np.cumsum(seen.sum(1))]), np.nonzero(seen)[1].astype(np.int32)


def settings_of(**changes: object) -> GameSettings:
    basis = GameSettings(dim=4, prior=0.05, unlabeled_per_epoch=50, batch_size=8, hidden=6, noise=0.5)
    return replace(basis, **changes)  # type: ignore[arg-type]


def engine_of(settings: GameSettings, **more: object) -> TorchEngine:
    indptr, indices = positives()
    return TorchEngine(source_of(indptr, indices, N_ITEMS), settings, seed=1, device="cpu", **more)  # type: ignore[arg-type]


def batch_of(settings: GameSettings, n_p: int = 5, n_u: int = 7, n_fakes: int = 6, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)

    def noise(side: str, dim: int) -> np.ndarray:
        n = n_fakes if settings.generators in (side, "both") else 0
        return rng.normal(0, settings.noise, (n, dim)).astype(np.float32)

    def index(n: int, size: int) -> np.ndarray:
        return rng.integers(n, size=size).astype(np.int32)

    return Batch(
        index(N_USERS, n_p),
        index(N_ITEMS, n_p),
        index(N_USERS, n_u),
        index(N_ITEMS, n_u),
        noise("item", settings.dim_i),
        noise("user", settings.dim),
    )


# --- The same game in numpy and float64, with nothing shared but the formulas


def numpy_scorer(p: Params, e_u: np.ndarray, e_i: np.ndarray) -> np.ndarray:
    if "mlp.0.weight" in p:
        x = np.concatenate([e_u, e_i], 1)
        x = np.maximum(x @ p["mlp.0.weight"].T + p["mlp.0.bias"], 0)
        x = np.maximum(x @ p["mlp.2.weight"].T + p["mlp.2.bias"], 0)
        return x @ p["mlp.4.weight"][0]
    relation = p.get("relation", np.ones(1))
    return np.einsum("ud,ud->u", e_u @ relation if relation.ndim == 2 else e_u * relation, e_i)


def numpy_phi(
    p: Params, user: np.ndarray, item: np.ndarray, fake_user: np.ndarray | None, fake_item: np.ndarray | None
) -> np.ndarray:
    e_u = p["user"][user] if fake_user is None else fake_user
    e_i = p["item"][item] if fake_item is None else fake_item
    phi = numpy_scorer(p, e_u, e_i) + p["bias"]
    if "user_bias" in p:
        phi = phi + (p["user_bias"][user] if fake_user is None else 0)
        phi = phi + (p["item_bias"][item] if fake_item is None else 0)
    return phi


def numpy_generate(p: Params, side: str, noise: np.ndarray, condition: np.ndarray, s: GameSettings) -> np.ndarray:
    x = np.concatenate([noise, condition], 1) if s.conditional else noise
    x = np.maximum(x @ p[f"{side}_gen.w1"].T + p[f"{side}_gen.b1"], 0)
    x = x @ p[f"{side}_gen.w2"].T + p[f"{side}_gen.b2"]
    return np.maximum(x, 0) if s.output == "relu" else x


def numpy_constrain(x: np.ndarray, rows: np.ndarray, weight: np.ndarray, s: GameSettings) -> np.ndarray:
    share = weight / weight.sum()
    if s.constraint == "norm":
        limit = share @ np.linalg.norm(rows, axis=1)
        return x * np.minimum(1, limit / np.linalg.norm(x, axis=1, keepdims=True))
    if s.constraint == "recolour":

        def moments(a: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            covariance = np.cov(a.T, aweights=w, bias=True)
            ridge = 1e-6 * np.trace(covariance) / len(covariance) + 1e-12
            return np.average(a, axis=0, weights=w), np.linalg.cholesky(covariance + ridge * np.eye(len(covariance)))

        (mean_b, factor_b), (mean_r, factor_r) = moments(x, np.ones(len(x))), moments(rows, share)
        return mean_r + (x - mean_b) @ np.linalg.inv(factor_b).T @ factor_r.T
    return x


def numpy_fakes(p: Params, batch: Batch, s: GameSettings) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(fake users, fake items) of a batch."""
    indptr, indices = positives()
    n = len(batch.item_noise) or len(batch.user_noise)
    e_u, e_i = p["user"][batch.unl_user[:n]], p["item"][batch.unl_item[:n]]
    fake_user = fake_item = None
    if len(batch.item_noise):
        raw = numpy_generate(p, "item", batch.item_noise, e_u, s)
        fake_item = numpy_constrain(raw, p["item"], np.bincount(indices, minlength=N_ITEMS), s)
    if len(batch.user_noise):
        raw = numpy_generate(p, "user", batch.user_noise, e_i, s)
        fake_user = numpy_constrain(raw, p["user"], np.diff(indptr), s)
    return fake_user, fake_item


def numpy_fake_phis(
    p: Params, batch: Batch, fake_user: np.ndarray | None, fake_item: np.ndarray | None
) -> list[np.ndarray]:
    phis = []
    for user, item in ((None, fake_item), (fake_user, None)):
        made = item if user is None else user
        if made is not None:
            n = len(made)
            phis.append(numpy_phi(p, batch.unl_user[:n], batch.unl_item[:n], user, item))
    return phis


def numpy_d_loss(
    p: Params, batch: Batch, s: GameSettings, fakes: tuple[np.ndarray | None, np.ndarray | None]
) -> float:
    phi_p = numpy_phi(p, batch.pos_user, batch.pos_item, None, None)
    phi_u = numpy_phi(p, batch.unl_user, batch.unl_item, None, None)
    of_risk = s.prior * s.logistic.value(phi_p, phi_u)
    of_fakes = sum(float(np.mean(risks.softplus(phi))) for phi in numpy_fake_phis(p, batch, *fakes))
    squares = [
        float(np.mean(np.sum(p[side][idx] ** 2, axis=1)))
        for side, idx in (
            ("user", batch.pos_user),
            ("item", batch.pos_item),
            ("user", batch.unl_user),
            ("item", batch.unl_item),
        )
    ]
    return (of_risk + s.fake_weight * of_fakes) / s.prior + s.regularization / 2 * sum(squares)


def double(params: Params) -> dict[str, np.ndarray]:
    return {name: value.astype(np.float64) for name, value in params.items()}


def interesting(settings: GameSettings, seed: int = 5) -> Params:
    """Parameters away from the symmetric start: every gradient is of order one."""
    rng = np.random.default_rng(seed)
    start = engine_of(settings).parameters()
    return {name: rng.normal(0, 0.6, value.shape).astype(np.float32) for name, value in start.items()}


GAMES = [
    *[settings_of(scorer=scorer, item_dim=3 if scorer in ("bilinear", "mlp") else None) for scorer in SCORERS],
    *[settings_of(risk=risk, regularization=0.3) for risk in ("pu", "nnpu", "pn")],
    settings_of(risk="nnpu", prior=0.95),
    *[settings_of(risk=risk, observed=0.02) for risk in ("pu", "nnpu")],
    *[settings_of(scorer=scorer, generators="both", fake_weight=0.3) for scorer in ("gmf", "fm", "mlp")],
    settings_of(generators="item", conditional=True, constraint="norm", output="linear"),
    settings_of(generators="user", conditional=True, constraint="recolour", output="linear"),
    settings_of(scorer="bilinear", item_dim=3, generators="both", conditional=True, constraint="recolour"),
]


def name_of(s: GameSettings) -> str:
    return "-".join(
        str(part) for part in (s.scorer, s.risk, s.prior, s.generators, s.constraint, s.output, s.conditional)
    )


@pytest.mark.parametrize("settings", GAMES, ids=name_of)
def test_discriminator_loss_and_gradient(settings: GameSettings) -> None:
    """Loss and, by finite differences with the fakes held fixed, the gradient of every parameter of D."""
    start = interesting(settings)
    engine, batch, p = engine_of(settings, params=start), batch_of(settings), double(start)
    fakes = numpy_fakes(p, batch, settings)
    loss = engine.step_discriminator(batch, learning_rate=1e-3)
    assert loss == pytest.approx(numpy_d_loss(p, batch, settings, fakes), rel=2e-5)
    state, after = engine.state(), engine.parameters()
    for name, value in p.items():
        if "_gen." in name:
            np.testing.assert_array_equal(after[name], start[name])
            assert not state[f"{name}/m"].any()
            continue
        gradient = state[f"{name}/m"] / (1 - settings.beta1)
        for at in np.ndindex(value.shape):
            shifted = []
            for h in (1e-6, -1e-6):
                moved = value.copy()
                moved[at] += h
                shifted.append(numpy_d_loss(p | {name: moved}, batch, settings, fakes))
            numeric = (shifted[0] - shifted[1]) / 2e-6
            assert gradient[at] == pytest.approx(numeric, rel=1e-3, abs=2e-4), (name, at)


@pytest.mark.parametrize("settings", [s for s in GAMES if s.generators != "none"], ids=name_of)
@pytest.mark.parametrize("kind", ["nonsaturating", "saturating"])
def test_generator_loss_and_gradient(settings: GameSettings, kind: str) -> None:
    """The constraint's map is held constant: differences are taken of the raw fakes through a frozen map."""
    settings = replace(settings, generator_loss=kind)  # type: ignore[arg-type]
    start = interesting(settings)
    engine, batch, p = engine_of(settings, params=start), batch_of(settings), double(start)

    def loss_of(fake_user: np.ndarray | None, fake_item: np.ndarray | None) -> float:
        phis = numpy_fake_phis(p, batch, fake_user, fake_item)
        return sum(risks.generator_objective(phi, kind) for phi in phis)  # type: ignore[arg-type]

    fake_user, fake_item = numpy_fakes(p, batch, settings)
    loss = engine.step_generators(batch, learning_rate=1e-3)
    assert loss == pytest.approx(loss_of(fake_user, fake_item), rel=2e-5)
    state, after = engine.state(), engine.parameters()
    free = replace(settings, constraint="none")
    raw_user, raw_item = numpy_fakes(p, batch, free)

    def frozen(
        raw_then: np.ndarray | None, fake_then: np.ndarray | None, raw: np.ndarray | None
    ) -> np.ndarray | None:
        """The map raw_then -> fake_then applied to raw: a scale per row (norm) or one affine map (recolour)."""
        if raw is None or raw_then is None or fake_then is None or settings.constraint == "none":
            return raw
        if settings.constraint == "norm":
            return raw * (np.linalg.norm(fake_then, axis=1) / np.linalg.norm(raw_then, axis=1))[:, None]
        colour = np.linalg.lstsq(raw_then - raw_then.mean(0), fake_then - fake_then.mean(0), rcond=None)[0]
        return fake_then.mean(0) + (raw - raw_then.mean(0)) @ colour

    checked = 0
    for name, value in p.items():
        if "_gen." not in name:
            np.testing.assert_array_equal(after[name], start[name])
            continue
        gradient = state[f"{name}/m"] / (1 - settings.beta1)
        for at in np.ndindex(value.shape):
            shifted = []
            for h in (1e-6, -1e-6):
                moved = value.copy()
                moved[at] += h
                user, item = numpy_fakes(p | {name: moved}, batch, free)
                shifted.append(loss_of(frozen(raw_user, fake_user, user), frozen(raw_item, fake_item, item)))
            numeric = (shifted[0] - shifted[1]) / 2e-6
            assert gradient[at] == pytest.approx(numeric, rel=2e-3, abs=2e-4), (name, at)
            checked += numeric != 0
    assert checked > 20


def test_the_corrected_nnpu_step_is_reached_above() -> None:
    settings = settings_of(risk="nnpu", prior=0.95)
    p, batch = double(interesting(settings)), batch_of(settings)
    phi_p, phi_u = (
        numpy_phi(p, batch.pos_user, batch.pos_item, None, None),
        numpy_phi(p, batch.unl_user, batch.unl_item, None, None),
    )
    assert risks.negative_risk(phi_p, phi_u, 0.95) < 0


# --- Adam


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
        size = 0.01 * math.sqrt(1 - settings.beta2**2) / (1 - settings.beta1**2)  # the second step of all rows
        expected = before[name][touched] - size * m / (np.sqrt(v) + settings.epsilon)
        np.testing.assert_allclose(after[name][touched], expected, rtol=1e-5, atol=1e-7)
    assert later["user/step"] == later["bias/step"] == 2


def test_bias_may_be_held() -> None:
    settings = settings_of(train_bias=False, scorer="mf")
    engine = engine_of(settings)
    engine.train_discriminator(learning_rate=0.1)
    assert engine.parameters()["bias"][0] == pytest.approx(logit(settings.prior))
    assert "bias/m" not in engine.state()


# --- Constraints


def test_recolour_gives_the_real_moments() -> None:
    rng = np.random.default_rng(0)
    rows, weight = torch.tensor(rng.normal(1, 2, (40, 4))), torch.tensor(rng.integers(0, 9, 40).astype(float))
    raw = torch.tensor(rng.normal(-3, [0.5, 1, 2, 4], (30, 4)), dtype=torch.float32)
    fake = recolour(raw, real_side(rows, weight)).double().numpy()
    np.testing.assert_allclose(fake.mean(0), np.average(rows, axis=0, weights=weight), rtol=1e-4)
    real_covariance = np.cov(rows.numpy().T, aweights=weight.numpy(), bias=True)
    np.testing.assert_allclose(np.cov(fake.T, bias=True), real_covariance, rtol=1e-3, atol=1e-3)


def test_recolour_of_a_dead_generator_is_the_real_mean() -> None:
    rows, weight = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.ones(20).double()
    fake = recolour(torch.zeros(5, 3), real_side(rows, weight))
    torch.testing.assert_close(fake, rows.mean(0).expand(5, 3))


def test_recolour_of_a_single_fake_is_the_real_mean_with_a_plain_gradient() -> None:
    rows, raw = torch.tensor([[1.0, 2.0], [3.0, 6.0]]), torch.tensor([[9.0, 9.0]], requires_grad=True)
    fake = recolour(raw, real_side(rows, torch.ones(2).double()))
    torch.testing.assert_close(fake.detach(), torch.tensor([[2.0, 4.0]]))
    (fake * torch.tensor([5.0, 7.0])).sum().backward()
    torch.testing.assert_close(raw.grad, torch.tensor([[5.0, 7.0]]))


def test_limit_norm_shortens_only_the_long() -> None:
    rows, weight = torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.tensor([1.0, 3.0]).double()  # mean length 8.75
    raw = torch.tensor([[0.0, 0.0], [3.0, 4.0], [30.0, 40.0]])
    fake = limit_norm(raw, real_side(rows, weight))
    torch.testing.assert_close(fake, torch.tensor([[0.0, 0.0], [3.0, 4.0], [5.25, 7.0]]))


def test_recolour_says_when_training_ran_away() -> None:
    settings = settings_of(generators="item", constraint="recolour")
    engine = engine_of(settings)
    params = engine.parameters()
    params["item"][0] = np.inf
    with pytest.raises(DivergedError, match="learning_rate"):
        engine_of(settings, params=params).train_generators(learning_rate=0.1, steps=1)


# --- Epochs


@pytest.mark.parametrize("unlabeled", ["per_user", "global", "popularity"])
def test_an_epoch_covers_all_positives_and_draws_what_is_due(unlabeled: str) -> None:
    settings = settings_of(unlabeled=unlabeled, unlabeled_per_epoch=53, generators="both", fake_ratio=0.5)
    engine = engine_of(settings)
    indptr, indices = positives()
    observed = set(zip(np.repeat(np.arange(N_USERS), np.diff(indptr)).tolist(), indices.tolist(), strict=True))
    batches = list(engine._batches.epoch(np.random.default_rng(0), engine._phi, use_fakes=True))
    seen = [pair for b in batches for pair in zip(b.pos_user.tolist(), b.pos_item.tolist(), strict=True)]
    assert sorted(seen) == sorted(observed)
    drawn = [pair for b in batches for pair in zip(b.unl_user.tolist(), b.unl_item.tolist(), strict=True)]
    assert len(drawn) == 53
    assert not observed & set(drawn)
    sizes = [b.unl_user.size for b in batches]
    assert max(sizes) - min(sizes) <= 1
    for b in batches:
        assert len(b.item_noise) == len(b.user_noise) == round(0.5 * b.unl_user.size)
        if unlabeled != "global":
            np.testing.assert_array_equal(b.unl_user, np.resize(b.pos_user, b.unl_user.size))


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


def test_a_user_who_touched_everything_is_left_out_of_the_unlabeled() -> None:
    indptr, indices = np.array([0, 3, 4]), np.array([0, 1, 2, 1], dtype=np.int32)
    engine = TorchEngine(source_of(indptr, indices, 3), settings_of(unlabeled_per_epoch=8), seed=0)
    (batch,) = engine._batches.epoch(np.random.default_rng(0), engine._phi, use_fakes=False)
    assert set(batch.unl_user.tolist()) == {1}
    assert batch.unl_user.size == 2
    assert math.isfinite(engine.train_discriminator(learning_rate=1e-3).loss)


def test_more_batches_than_unlabeled_pairs_is_no_trouble() -> None:
    engine = engine_of(settings_of(batch_size=2, unlabeled_per_epoch=3, generators="item", constraint="recolour"))
    assert math.isfinite(engine.train_discriminator(learning_rate=1e-3).loss)


def test_nothing_to_train_with_is_an_error() -> None:
    with pytest.raises(ConfigError, match="generators"):
        engine_of(settings_of()).train_generators(learning_rate=1e-3, steps=1)
    with pytest.raises(ConfigError, match="item_noise"):
        engine_of(settings_of()).step_generators(batch_of(settings_of()), learning_rate=1e-3)
    with pytest.raises(ConfigError, match="unlabeled_per_epoch"):
        engine_of(settings_of(unlabeled_per_epoch=0)).train_discriminator(learning_rate=1e-3)
    for indptr, indices in (([0, 0, 0], []), ([0, 0, 2], [0, 1])):
        with pytest.raises(DataError, match="some, but not all, of the 2 items"):
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


# --- Reproducibility and checkpoints


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
    play(resumed, 1)  # whatever it was doing before
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


# --- Parameters and scorers


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
def test_parameters_are_those_of_the_game(scorer: str) -> None:
    settings = settings_of(scorer=scorer, generators="both", conditional=True)
    assert_same(
        dict(sorted(engine_of(settings).parameters().items())),
        dict(sorted(initial_parameters(N_USERS, N_ITEMS, settings, seed=1).items())),
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
    start = initial_parameters(N_USERS, N_ITEMS, settings, seed=1)
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
    """A scorer from outside: minus a weighted squared distance, with dropout and a norm that has buffers."""

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
