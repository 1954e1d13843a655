"""The compiled engine against a plain float64 reference, and its promises: same bits, padding, typed errors."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engines.pure.sources import source_of
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import Batch, GameSettings, Params
from purerec.errors import ConfigError, DataError, DivergedError, StoreError
from purerec.jit.simd import probe

F64 = npt.NDArray[np.float64]
N_USERS, N_ITEMS = 14, 17


def positives(density: float = 0.3, seed: int = 0) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    observed = np.random.default_rng(seed).random((N_USERS, N_ITEMS)) < density
    indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(observed)[1].astype(np.int32)


def engine(settings: GameSettings, seed: int = 1, **options: Any) -> CpuEngine:
    return CpuEngine(source_of(*positives(), N_ITEMS), settings, seed=seed, **options)


def random_batch(s: GameSettings, seed: int, n_pos: int = 9, n_unl: int = 12, n_fakes: int = 10) -> Batch:
    rng = np.random.default_rng(seed)

    def some(n: int, size: int) -> npt.NDArray[np.int32]:
        return rng.integers(0, n, size).astype(np.int32)

    def noise(side: str, dim: int) -> npt.NDArray[np.float32]:
        n = n_fakes if s.generators in (side, "both") else 0
        return (rng.standard_normal((n, dim)) * s.noise).astype(np.float32)

    pairs = some(N_USERS, n_pos), some(N_ITEMS, n_pos), some(N_USERS, n_unl), some(N_ITEMS, n_unl)
    return Batch(*pairs, noise("item", s.dim_i), noise("user", s.dim))


# ---------------------------------------------------------------- the reference: formulas in float64


def softplus(x: F64) -> F64:
    return np.logaddexp(0.0, x)


def sigmoid(x: F64) -> F64:
    return np.exp(-np.logaddexp(0.0, -x))


def score(p: dict[str, F64], s: GameSettings, e_u: F64, e_i: F64) -> F64:
    if s.scorer == "bilinear":
        return np.einsum("nu,ui,ni->n", e_u, p["relation"], e_i) + p["bias"]
    return (e_u * e_i * p.get("relation", np.ones(1))).sum(axis=1) + p["bias"]


def fakes_of(p: dict[str, F64], s: GameSettings, b: Batch, side: str, frozen: dict[str, Any]) -> F64:
    """The fakes of one side. `frozen` holds what the gradient takes as constant; made on the first call."""
    noise = (b.item_noise if side == "item" else b.user_noise).astype(np.float64)
    other = p["user"][b.unl_user] if side == "item" else p["item"][b.unl_item]
    condition = frozen.setdefault(f"{side} condition", other[: len(noise)].copy())
    x = np.hstack([noise, condition]) if s.conditional else noise
    h = np.maximum(x @ p[f"{side}_gen.w1"].T + p[f"{side}_gen.b1"], 0.0)
    raw = h @ p[f"{side}_gen.w2"].T + p[f"{side}_gen.b2"]
    if s.output == "relu":
        raw = np.maximum(raw, 0.0)
    if s.constraint == "none":
        return raw
    indptr, indices = positives()
    weight = np.bincount(indices, minlength=N_ITEMS) if side == "item" else np.diff(indptr)
    share, real = weight / weight.sum(), p[side]
    if s.constraint == "norm":
        length = np.linalg.norm(raw, axis=1, keepdims=True)
        limit = share @ np.linalg.norm(real, axis=1)
        return raw * frozen.setdefault(f"{side} scale", np.minimum(1.0, limit / np.maximum(length, 1e-300)))
    if f"{side} map" not in frozen:
        factors = []
        for rows, w in ((raw, np.full(len(raw), 1.0 / len(raw))), (real, share)):
            centred = rows - w @ rows
            covariance = (centred * w[:, None]).T @ centred
            d = len(covariance)
            ridge = 1e-6 * np.trace(covariance) / d + 1e-12
            factors.append((w @ rows, np.linalg.cholesky(covariance + ridge * np.eye(d))))
        (mu_b, l_b), (mu_r, l_r) = factors
        frozen[f"{side} map"] = mu_b, mu_r, np.linalg.inv(l_b).T @ l_r.T
    mu_b, mu_r, matrix = frozen[f"{side} map"]
    return mu_r + (raw - mu_b) @ matrix


def fake_scores(p: dict[str, F64], s: GameSettings, b: Batch, frozen: dict[str, Any], detach: bool) -> list[F64]:
    scores = []
    for side, noise in (("item", b.item_noise), ("user", b.user_noise)):
        if not len(noise):
            continue
        fakes = fakes_of(p, s, b, side, frozen)
        if detach:
            fakes = frozen.setdefault(f"{side} fakes", fakes)
        users, items = b.unl_user[: len(noise)], b.unl_item[: len(noise)]
        if side == "item":
            phi = score(p, s, p["user"][users], fakes)
            own = p["user_bias"][users] if s.scorer == "fm" else 0.0
        else:
            phi = score(p, s, fakes, p["item"][items])
            own = p["item_bias"][items] if s.scorer == "fm" else 0.0
        scores.append(phi + own)
    return scores


def discriminator_loss(p: dict[str, F64], s: GameSettings, b: Batch, frozen: dict[str, Any]) -> float:
    phis, squares = [], 0.0
    for users, items in ((b.pos_user, b.pos_item), (b.unl_user, b.unl_item)):
        e_u, e_i = p["user"][users], p["item"][items]
        phi = score(p, s, e_u, e_i)
        if s.scorer == "fm":
            phi = phi + p["user_bias"][users] + p["item_bias"][items]
        phis.append(phi)
        squares += float(np.mean((e_u**2).sum(axis=1) + (e_i**2).sum(axis=1)))
    pos, unl = phis
    all_pairs = s.observed * softplus(pos).mean() + (1 - s.observed) * softplus(unl).mean()
    difference = all_pairs - s.prior * softplus(pos).mean()
    if s.risk == "pn":
        risk = s.prior * softplus(-pos).mean() + (1 - s.prior) * softplus(unl).mean()
    elif s.risk == "nnpu" and frozen.setdefault("clipped", difference < 0):
        risk = -difference
    else:
        risk = -s.prior * pos.mean() + all_pairs
    fake = sum(softplus(phi).mean() for phi in fake_scores(p, s, b, frozen, detach=True))
    return float((risk + s.fake_weight * fake) / s.prior + s.regularization / 2 * squares)


def generator_loss(p: dict[str, F64], s: GameSettings, b: Batch, frozen: dict[str, Any]) -> float:
    phis = fake_scores(p, s, b, frozen, detach=False)
    if s.generator_loss == "saturating":
        return float(sum(-softplus(phi).mean() for phi in phis))
    return float(sum(softplus(-phi).mean() for phi in phis))


def numeric_gradient(loss: Any, p: dict[str, F64], names: list[str], s: GameSettings, b: Batch) -> dict[str, F64]:
    frozen: dict[str, Any] = {}
    loss(p, s, b, frozen)  # fixes the constants
    gradients = {}
    for name in names:
        flat, gradient = p[name].reshape(-1), np.zeros(p[name].size)
        for k in range(flat.size):
            kept, step = flat[k], 1e-5
            flat[k] = kept + step
            above = loss(p, s, b, frozen)
            flat[k] = kept - step
            gradient[k] = (above - loss(p, s, b, frozen)) / (2 * step)
            flat[k] = kept
        gradients[name] = gradient.reshape(p[name].shape)
    return gradients


def gradients_of_step(before: Params, state: dict[str, Any], beta1: float) -> dict[str, F64]:
    """Adam's first moment after the first step is (1 - beta1) times the gradient."""
    return {name: state[f"{name}/m"].astype(np.float64) / (1.0 - beta1) for name in before}


def doubles(params: Params) -> dict[str, F64]:
    return {name: value.astype(np.float64) for name, value in params.items()}


def settings_of(scorer: str, **changes: Any) -> GameSettings:
    base = GameSettings(dim=5, prior=0.3, init_std=0.6, noise=0.8, hidden=6, regularization=0.2, fake_weight=0.4)
    return replace(base, scorer=scorer, **changes)


def check_discriminator(s: GameSettings, seed: int = 3, **sizes: int) -> CpuEngine:
    e, b = engine(s), random_batch(s, seed, **sizes)
    before = e.parameters()
    p = doubles(before)
    own = [name for name in p if "gen" not in name]
    expected = numeric_gradient(discriminator_loss, p, own, s, b)
    loss = e.step_discriminator(b, learning_rate=0.01)
    assert loss == pytest.approx(discriminator_loss(p, s, b, {}), rel=2e-6, abs=2e-6)
    found = gradients_of_step(before, e.state(), s.beta1)
    for name in own:
        if name == "bias" and not s.train_bias:
            assert not found[name].any()
            continue
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-4, atol=2e-6, err_msg=name)
    for name in set(p) - set(own):
        assert np.array_equal(e.parameters()[name], before[name])
    return e


@pytest.mark.parametrize(
    ("scorer", "risk"), list(itertools.product(["mf", "gmf", "bilinear", "fm"], ["pu", "nnpu", "pn"]))
)
def test_discriminator_gradients(scorer: str, risk: str) -> None:
    check_discriminator(settings_of(scorer, risk=risk))


@pytest.mark.parametrize("risk", ["pu", "nnpu"])
@pytest.mark.parametrize("observed", [0.1, 0.3])
def test_gradients_with_the_stratum_of_observed_pairs(risk: str, observed: float) -> None:
    check_discriminator(settings_of("fm", risk=risk, observed=observed))


def test_the_stratified_risk_at_the_observed_share_trains_as_the_pn_risk_does() -> None:
    pu, pn = (engine(settings_of("fm", risk=risk, observed=0.3)) for risk in ("pu", "pn"))
    batch = random_batch(pu.settings, 3)
    losses = [e.step_discriminator(batch, learning_rate=0.01) for e in (pu, pn)]
    assert losses[0] == losses[1]
    for name, value in pu.state().items():
        np.testing.assert_array_equal(value, pn.state()[name])


@pytest.mark.parametrize("observed", [0.0, 0.2])
def test_the_clipped_branch_of_nnpu(observed: float) -> None:
    s = settings_of("gmf", risk="nnpu", prior=0.9, observed=observed)
    p = doubles(engine(s).parameters())

    def is_clipped(seed: int) -> bool:
        frozen: dict[str, Any] = {}
        discriminator_loss(p, s, random_batch(s, seed), frozen)
        return bool(frozen["clipped"])

    check_discriminator(s, next(seed for seed in range(100) if is_clipped(seed)))


def test_a_bias_that_is_not_trained_stays() -> None:
    s = settings_of("gmf", train_bias=False)
    e = check_discriminator(s)
    assert e.parameters()["bias"] == engine(s).parameters()["bias"]


@pytest.mark.parametrize("dims", [(5, 11), (11, 5), (8, 8), (19, 19)])
def test_dims_that_do_and_do_not_fill_the_lanes(dims: tuple[int, int]) -> None:
    check_discriminator(settings_of("bilinear", dim=dims[0], item_dim=dims[1], generators="both"))


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
@pytest.mark.parametrize("constraint", ["none", "norm", "recolour"])
def test_discriminator_gradients_with_fakes(scorer: str, constraint: str) -> None:
    changes = {"constraint": constraint, "conditional": True, "output": "linear"}
    check_discriminator(settings_of(scorer, generators="both", **changes))


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
@pytest.mark.parametrize("constraint", ["none", "norm", "recolour"])
@pytest.mark.parametrize("generator_loss_name", ["nonsaturating", "saturating"])
@pytest.mark.parametrize(("output", "conditional"), [("relu", False), ("linear", True)])
def test_generator_gradients(
    scorer: str, constraint: str, generator_loss_name: str, output: str, conditional: bool
) -> None:
    changes = {"constraint": constraint, "generator_loss": generator_loss_name, "output": output}
    s = settings_of(scorer, generators="both", conditional=conditional, **changes)
    params = engine(s).parameters()
    for name in params:  # away from zero, where relu has a kink that finite differences stumble over
        if name.endswith((".b1", ".b2")):
            params[name] = np.random.default_rng(2).normal(0.2, 0.4, params[name].shape).astype(np.float32)
    e, b = engine(s, params=params), random_batch(s, 5, n_unl=16, n_fakes=14)
    before = e.parameters()
    p = doubles(before)
    own = [name for name in p if "gen" in name]
    expected = numeric_gradient(generator_loss, p, own, s, b)
    loss = e.step_generators(b, learning_rate=0.01)
    assert loss == pytest.approx(generator_loss(p, s, b, {}), rel=1e-5, abs=1e-6)
    found = gradients_of_step(before, e.state(), s.beta1)
    for name in own:
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-3 * scale + 1e-6, err_msg=name)
    for name in set(p) - set(own):
        assert np.array_equal(e.parameters()[name], before[name])


def test_one_fake_is_only_shifted_to_the_real_mean() -> None:
    s = settings_of("gmf", generators="item", constraint="recolour")
    e, b = engine(s), random_batch(s, 5, n_fakes=1)
    assert np.isfinite(e.step_discriminator(b, learning_rate=0.1))
    assert np.isfinite(e.step_generators(b, learning_rate=0.1))
    assert all(np.isfinite(value).all() for value in e.parameters().values())


# ---------------------------------------------------------------- Adam


def test_updates_follow_both_adams() -> None:
    s = settings_of("gmf", generators="item")
    e = engine(s)
    moments: dict[str, tuple[F64, F64]] = {}
    for t in range(1, 4):
        b = random_batch(s, t)
        p = doubles(e.parameters())
        own = [name for name in p if "gen" not in name]
        gradients = numeric_gradient(discriminator_loss, p, own, s, b)
        e.step_discriminator(b, learning_rate=0.05)
        for name in own:
            m, v = moments.get(name, (np.zeros_like(p[name]), np.zeros_like(p[name])))
            touched = np.ones(len(m), dtype=bool)
            if name in ("user", "item"):
                touched[:] = False
                touched[np.concatenate([getattr(b, f"pos_{name}"), getattr(b, f"unl_{name}")])] = True
            m[touched] += (1 - s.beta1) * (gradients[name] - m)[touched]
            v[touched] += (1 - s.beta2) * (gradients[name] ** 2 - v)[touched]
            moments[name] = m, v
            corrections = np.sqrt(1 - s.beta2**t) / (1 - s.beta1**t)
            expected = p[name] - 0.05 * corrections * m / (np.sqrt(v) + 1e-12) * touched.reshape(
                -1, *[1] * (m.ndim - 1)
            )
            found = e.parameters()[name]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4, err_msg=name)
            assert np.array_equal(found[~touched], p[name][~touched].astype(np.float32))


# ---------------------------------------------------------------- epochs


FULL_GAME = settings_of(
    "gmf",
    generators="both",
    conditional=True,
    constraint="recolour",
    output="linear",
    batch_size=16,
    unlabeled_per_epoch=150,
    fake_ratio=0.7,
)


def play(e: CpuEngine, rounds: int) -> list[float]:
    losses = []
    for k in range(rounds):
        losses.append(e.train_discriminator(learning_rate=0.02, use_fakes=k > 0).loss)
        losses.append(e.train_generators(learning_rate=0.01, steps=3).loss)
    return losses


@pytest.mark.parametrize("unlabeled", ["per_user", "global", "popularity"])
def test_the_same_seed_gives_the_same_bits(unlabeled: str) -> None:
    s = replace(FULL_GAME, unlabeled=unlabeled)
    first, second, other = engine(s), engine(s), engine(s, seed=2)
    assert play(first, 3) == play(second, 3)
    for name, value in first.state().items():
        assert np.array_equal(value, second.state()[name]), name
    assert play(other, 3) != play(engine(s), 3)


@pytest.mark.parametrize("memory_mb", [256.0, 0.0])
def test_a_resumed_run_gives_the_same_bits(memory_mb: float) -> None:
    whole, part = engine(FULL_GAME), engine(FULL_GAME, memory_mb=memory_mb)
    play(part, 2)
    state = part.state()
    play(part, 1)  # what happens to the old engine afterwards must not reach the state
    resumed = engine(FULL_GAME, seed=99)
    resumed.restore(state)
    whole_losses = play(whole, 4)
    resumed_losses = [resumed.train_discriminator(learning_rate=0.02).loss]
    resumed_losses.append(resumed.train_generators(learning_rate=0.01, steps=3).loss)
    resumed_losses.append(resumed.train_discriminator(learning_rate=0.02).loss)
    resumed_losses.append(resumed.train_generators(learning_rate=0.01, steps=3).loss)
    assert resumed_losses == whole_losses[4:]
    for name, value in whole.state().items():
        assert np.array_equal(value, resumed.state()[name]), name


def test_epochs_take_the_same_steps_as_explicit_batches() -> None:
    """An epoch on one batch of all positives equals one explicit step on the pairs that it drew."""
    indptr, indices = positives()
    s = settings_of("gmf", batch_size=1000, unlabeled_per_epoch=50)
    stats = engine(s).train_discriminator(learning_rate=0.01)
    assert stats.samples == indices.size + 50
    assert np.isnan(stats.d_fake)
    assert 0 < stats.d_unlabeled < 1
    assert 0 < stats.d_positive < 1
    users = np.repeat(np.arange(N_USERS), np.diff(indptr)).astype(np.int32)
    nothing = np.zeros((0, 5), np.float32)
    e = engine(replace(s, regularization=0.0))
    only_positives = Batch(users, indices, users[:0], indices[:0], nothing, nothing)
    loss = e.step_discriminator(only_positives, learning_rate=0.01)
    p = doubles(engine(s).parameters())
    assert loss == pytest.approx(-score(p, s, p["user"][users], p["item"][indices]).mean(), rel=1e-5)


def test_padding_stays_zero() -> None:
    e = engine(FULL_GAME)
    play(e, 3)
    for name, width in (("user", e._memory.widths["user"]), ("item", e._memory.widths["item"])):
        table = getattr(e._memory.model, name).reshape(-1, 3, width)
        assert not table[:, :, FULL_GAME.dim :].any()
    for side in e._memory.sides.values():
        w1, b1, w2, b2 = e._memory.layers(side, 0)
        assert not b1[FULL_GAME.hidden :].any()
        assert not w1[:, FULL_GAME.hidden :].any()
        assert not w1[FULL_GAME.dim : e._memory.widths["item"]].any()
        assert not w2[:, FULL_GAME.dim :].any()
        assert not b2[FULL_GAME.dim :].any()
    assert np.all(e._memory.work.slot_of_user == -1)
    assert not e._memory.work.user_grads.any()
    assert not e._memory.work.item_grads.any()
    assert not e._memory.work.user_counts.any()


def test_full_users_are_skipped() -> None:
    observed = np.random.default_rng(0).random((6, 9)) < 0.4
    observed[2] = True
    indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(observed)[1].astype(np.int32)
    s = GameSettings(dim=4, batch_size=7, unlabeled_per_epoch=200)
    stats = CpuEngine(source_of(indptr, indices, 9), s, seed=0).train_discriminator(learning_rate=0.01)
    assert indices.size < stats.samples < indices.size + 200
    everywhere = CpuEngine(source_of(indptr, indices, 9), replace(s, unlabeled="global"), seed=0)
    assert everywhere.train_discriminator(learning_rate=0.01).samples == indices.size + 200


@pytest.mark.parametrize("scorer", ["mf", "gmf", "bilinear", "fm"])
@pytest.mark.parametrize("risk", ["pu", "nnpu", "pn"])
def test_it_learns_the_checkerboard(scorer: str, risk: str) -> None:
    """Even users like even items. What was held out of the log must still rank above the odd items."""
    rng = np.random.default_rng(0)
    likes = (np.arange(30)[:, None] + np.arange(40)[None, :]) % 2 == 0
    observed = likes & (rng.random((30, 40)) < 0.7)
    indptr = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    indices = np.nonzero(observed)[1].astype(np.int32)
    base = GameSettings(dim=4, prior=0.3, batch_size=32, unlabeled_per_epoch=2 * indices.size)
    s = replace(base, scorer=scorer, risk=risk)
    e = CpuEngine(source_of(indptr, indices, 40), s, seed=0)
    losses = [e.train_discriminator(learning_rate=0.02).loss for _ in range(25)]
    assert losses[-1] < losses[0]
    p = doubles(e.parameters())
    relation = p.get("relation", np.ones(4))
    scores = p["user"] @ relation @ p["item"].T if scorer == "bilinear" else (p["user"] * relation) @ p["item"].T
    if scorer == "fm":
        scores += p["item_bias"]
    hidden = scores[likes & ~observed]
    assert np.mean(hidden[:, None] > scores[~likes][None, :]) > 0.95


def test_generators_learn_to_please_the_discriminator() -> None:
    s = replace(FULL_GAME, constraint="none", unlabeled_per_epoch=400)
    e = engine(s)
    for _ in range(5):
        e.train_discriminator(learning_rate=0.02, use_fakes=False)
    first = e.train_generators(learning_rate=0.01, steps=20)
    last = e.train_generators(learning_rate=0.01, steps=200)
    assert last.loss < first.loss
    assert last.d_fake > first.d_fake
    assert first.samples == 2 * 20 * s.batch_size


def test_the_noise_is_gaussian() -> None:
    from purerec.engines.pure.cpu.generators import fill_noise

    s = settings_of("gmf", dim=13, generators="item", noise=2.0)
    e = engine(s)
    e._memory.make_room(8, 8, 4000)
    side = e._memory.sides["item"]
    after = fill_noise(side, 4000, np.uint64(5), np.uint64(0))
    rows = side.noise[: 4000 * 16].reshape(-1, 16)
    assert after >= 4000 * 16 // 2
    assert not rows[:, 13:].any()
    x = rows[:, :13].ravel().astype(np.float64) / 2.0
    assert abs(x.mean()) < 0.015
    assert x.std() == pytest.approx(1.0, abs=0.01)
    assert np.mean(x**4) == pytest.approx(3.0, abs=0.12)
    assert np.abs(x).max() > 3.7
    assert np.abs(np.corrcoef(rows[:, :13].T) - np.eye(13)).max() < 0.08
    ordered = np.sort(x)[:: x.size // 9][1:9]
    np.testing.assert_allclose(ordered, [-1.22, -0.76, -0.43, -0.14, 0.14, 0.43, 0.76, 1.22], atol=0.03)


# ---------------------------------------------------------------- numbers at the edge


def test_sigmoid_and_softplus_are_stable() -> None:
    out = np.zeros(4, np.float32)
    for x in [0.0, 1e-6, 0.3, -0.3, 9.2, -9.2, 40.0, -40.0, 86.0, -86.0, 1e4, -1e4]:
        probe(np.float32(x), out)
        value = np.float64(np.float32(x))
        assert out[0] == pytest.approx(np.exp(-np.logaddexp(0, -value)), rel=4e-7, abs=1e-37)
        assert out[1] == pytest.approx(np.logaddexp(0, value), rel=4e-7, abs=1e-37)
    probe(np.float32(np.nan), out)
    assert np.isnan(out[:2]).all()


def test_large_scores_do_not_overflow_and_nan_is_not_hidden() -> None:
    s = settings_of("mf", regularization=0.0)
    params = engine(s).parameters()
    params["user"][:] = 50.0
    params["item"][:] = 40.0
    params["item"][::2] *= -1.0
    e = engine(s, params=params)
    assert np.isfinite(e.step_discriminator(random_batch(s, 0), learning_rate=0.01))
    assert all(np.isfinite(value).all() for value in e.parameters().values())
    params["user"][:] = np.nan
    assert np.isnan(engine(s, params=params).step_discriminator(random_batch(s, 0), learning_rate=0.01))


# ---------------------------------------------------------------- errors


def test_nothing_unobserved_is_a_data_error() -> None:
    with pytest.raises(DataError, match="nothing unobserved"):
        CpuEngine(source_of(np.array([0, 1]), np.array([0], np.int32), 1), GameSettings(), seed=0)
    with pytest.raises(DataError, match="no positive"):
        CpuEngine(source_of(np.array([0, 0]), np.zeros(0, np.int32), 1), GameSettings(), seed=0)


def test_settings_that_do_not_fit_are_config_errors() -> None:
    with pytest.raises(ConfigError, match="engine='torch'"):
        engine(GameSettings(scorer="mlp"))
    with pytest.raises(ConfigError, match="item_dim"):
        engine(GameSettings(scorer="gmf", item_dim=9))
    with pytest.raises(ConfigError, match="epsilon"):
        engine(GameSettings(epsilon=0.0))
    with pytest.raises(ConfigError, match="fake_ratio"):
        engine(GameSettings(fake_ratio=1.5))
    with pytest.raises(ConfigError, match="prior"):
        engine(GameSettings(prior=0.0))
    with pytest.raises(ConfigError, match="batch_size"):
        engine(GameSettings(batch_size=0))
    with pytest.raises(ConfigError, match="threads"):
        engine(GameSettings(), threads=0)
    with pytest.raises(ConfigError, match="unlabeled_per_epoch"):
        engine(GameSettings()).train_discriminator(learning_rate=0.1)
    with pytest.raises(ConfigError, match="no generator"):
        engine(GameSettings()).train_generators(learning_rate=0.1, steps=1)
    with pytest.raises(ConfigError, match="does not fit"):
        engine(GameSettings(), params={"user": np.zeros((2, 2), np.float32)})


def test_batches_that_do_not_fit_are_refused() -> None:
    s = settings_of("gmf", generators="item")
    good = random_batch(s, 0)
    for bad in (
        replace(good, pos_user=good.pos_user + np.int32(N_USERS)),
        replace(good, unl_item=good.unl_item[:-1]),
        replace(good, item_noise=good.item_noise[:, :-1]),
        replace(good, item_noise=np.zeros((99, 5), np.float32)),
    ):
        with pytest.raises(DataError):
            engine(s).step_discriminator(bad, learning_rate=0.1)
    with pytest.raises(ConfigError, match="no user generator"):
        engine(s).step_discriminator(replace(good, user_noise=good.item_noise), learning_rate=0.1)


def test_embeddings_that_ran_away_cannot_be_recoloured() -> None:
    params = engine(FULL_GAME).parameters()
    params["item"][0, 0] = np.inf
    with pytest.raises(DivergedError, match="item embeddings"):
        engine(FULL_GAME, params=params).train_generators(learning_rate=0.1, steps=1)


def test_a_state_that_does_not_fit_is_a_store_error() -> None:
    state = engine(FULL_GAME).state()
    with pytest.raises(StoreError, match="has no 'user"):
        engine(FULL_GAME).restore({name: value for name, value in state.items() if name != "user/m"})
    with pytest.raises(StoreError, match="shape"):
        engine(FULL_GAME).restore(state | {"user": np.zeros((2, 2))})
    with pytest.raises(StoreError, match="which these settings do not have"):
        engine(replace(FULL_GAME, generators="none")).restore(state)


# ---------------------------------------------------------------- the disk cache of compiled kernels

SCRIPT = """
import sys
import numpy as np
from numba.core.event import install_recorder
from purerec.data.interactions import Csr
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import GameSettings
from purerec.engines.source import MemorySource
with install_recorder("numba:compile") as compiled:
    e = CpuEngine(MemorySource(Csr(np.array([0, 1, 3]), np.array([0, 1, 2], np.int32), (2, 5))),
                  GameSettings(dim=int(sys.argv[1]), unlabeled_per_epoch=6), seed=0)
    loss = e.train_discriminator(learning_rate=.1).loss
print(len(compiled.buffer), loss)
"""


def run_script(dim: int) -> tuple[float, float]:
    """How much was compiled, and the loss."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(dim)], capture_output=True, text=True, check=True)
    compiled, loss = map(float, done.stdout.split())
    return compiled, loss


@pytest.mark.slow
def test_a_second_process_finds_the_kernels_compiled() -> None:
    """In the cache of all tests: to fill an empty one takes longer than all the rest."""
    _, loss = run_script(8)
    compiled, again = run_script(8)
    other, _ = run_script(21)  # dims are not compiled in
    assert again == loss
    assert compiled == other == 0
