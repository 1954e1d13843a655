"""The same game in numpy and float64, with nothing shared but the formulas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conftest import need

need("torch")


from engines.pure.sources import source_of
from purerec.engines.pure.spec import Batch, GameSettings, Params
from purerec.engines.pure.torch.engine import TorchEngine
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
