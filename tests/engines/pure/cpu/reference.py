"""The game in float64 from its formulas, with gradients by differences, for tests of the cpu engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engines.pure.sources import source_of
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import Batch, GameSettings, Params

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


def softplus(x: F64) -> F64:
    return np.logaddexp(0.0, x)


def sigmoid(x: F64) -> F64:
    return np.exp(-np.logaddexp(0.0, -x))


def score(p: dict[str, F64], s: GameSettings, e_u: F64, e_i: F64) -> F64:
    if s.scorer == "bilinear":
        return np.einsum("nu,ui,ni->n", e_u, p["relation"], e_i) + p["bias"]
    return (e_u * e_i * p.get("relation", np.ones(1))).sum(axis=1) + p["bias"]


def fakes_of(p: dict[str, F64], s: GameSettings, b: Batch, side: str, frozen: dict[str, Any]) -> F64:
    """The fakes of one side. `frozen` holds what the gradient treats as constant; filled on the first call."""
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
