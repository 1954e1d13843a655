"""The cpu engine: the game of `game`, in compiled kernels, for scorers of the dot-product family.

Rows are padded with zeros to multiples of `LANES`; zeros stay zeros, since every gradient of theirs is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.engines import cpu_epochs as epochs
from purerec.engines.cpu_discriminator import Work, discriminator_step
from purerec.engines.cpu_epochs import discriminator_epoch, generators_epoch, generators_step
from purerec.engines.cpu_generators import NO_CONSTRAINT, NORM, RECOLOUR, Side
from purerec.engines.cpu_kernels import BILINEAR, FM, GMF, MF, NNPU, PN, PU, Model, Rules
from purerec.engines.game import (
    F32,
    I32,
    I64,
    Batch,
    EpochStats,
    GameSettings,
    Params,
    initial_parameters,
)
from purerec.engines.vectors import LANES
from purerec.errors import ConfigError, DataError, StoreError
from purerec.randomness import key64
from purerec.sampling import UnlabeledSampler, splitmix64

_SCORERS = {"mf": MF, "gmf": GMF, "bilinear": BILINEAR, "fm": FM}
_RISKS = {"pu": PU, "nnpu": NNPU, "pn": PN}
_UNLABELED = {"per_user": epochs.PER_USER, "global": epochs.GLOBAL, "popularity": epochs.POPULARITY}
_CONSTRAINTS = {"none": NO_CONSTRAINT, "norm": NORM, "recolour": RECOLOUR}
_COUNTERS = ("steps", "generator_steps", "epochs", "generator_epochs")
_STREAMS = ("shuffle", "draw", "item noise", "user noise")


class CpuEngine:
    """Trains on one core, with sampling and generators fused into the steps. See `game.Engine`.

    `indptr` (n_users + 1,) and `indices`, ascending in each row, are the positives. `params`, unpadded, replace
    the random start. Results do not depend on `threads`. `memory_mb` bounds the bitmap of observed pairs.
    """

    def __init__(
        self,
        indptr: I64,
        indices: I32,
        n_items: int,
        settings: GameSettings,
        *,
        seed: int,
        params: Params | None = None,
        threads: int = 1,
        memory_mb: float = 256.0,
    ) -> None:
        _check(settings, threads)
        self.settings = settings
        self._sampler = UnlabeledSampler(indptr, indices, n_items, memory_mb=memory_mb, full_users="skip")
        tables = self._sampler.tables
        degree = np.diff(tables.indptr)
        if degree.sum() == 0:
            raise DataError("there is no positive to learn from; give at least one interaction")
        if not np.any((degree > 0) & (degree < n_items)):
            raise DataError(
                f"every user has touched none or all of the {n_items} items, so there is nothing unobserved to "
                "compare with; use data with more items"
            )
        self._n_users, self._n_items = tables.n_users, n_items
        self._weights = {"user": degree, "item": tables.weight}
        self._widths = {"user": _padded(settings.dim), "item": _padded(settings.dim_i)}
        self._pairs = np.empty(tables.indices.size, np.uint64)
        self._keys = np.array([key64(seed, f"cpu {name}") for name in _STREAMS])
        self._counters = dict.fromkeys(_COUNTERS, 0)
        self._rules = _rules(settings)

        names = _shapes(self._n_users, n_items, settings)
        start = initial_parameters(self._n_users, n_items, settings, seed)
        for name, value in (params or {}).items():
            if name not in names or np.shape(value) != names[name]:
                raise ConfigError(f"parameter {name} of shape {np.shape(value)} does not fit; needed: {names}")
        start |= params or {}
        self._names = names
        self._model = self._new_model()
        self._sides = {
            side: self._new_side(side) for side in ("item", "user") if settings.generators in (side, "both")
        }
        self._work = _new_work(0, self._n_users, n_items, self._widths, self._rules)
        self._write(0, start)

    # ------------------------------------------------------------------ training

    def train_discriminator(self, *, learning_rate: float, use_fakes: bool = True) -> EpochStats:
        """One epoch over all positives."""
        s = self.settings
        if s.unlabeled_per_epoch < 1:
            raise ConfigError("unlabeled_per_epoch is 0; give the number of unlabeled pairs of an epoch")
        n_batches = -(-self._pairs.size // s.batch_size)
        n_unl = -(-s.unlabeled_per_epoch // n_batches)
        n_fakes = n_unl if use_fakes else 0
        self._make_room(min(s.batch_size, self._pairs.size), n_unl, n_fakes)
        self._look_at_real()
        sums = np.zeros(9)
        discriminator_epoch(
            self._sampler.tables,
            self._pairs,
            self._model,
            self._work,
            self._rules,
            self._sides.get("item"),
            self._sides.get("user"),
            _UNLABELED[s.unlabeled],
            s.batch_size,
            s.unlabeled_per_epoch,
            s.fake_ratio if use_fakes else 0.0,
            learning_rate,
            self._counters["steps"],
            self._epoch_keys(2 * self._counters["epochs"]),
            sums,
        )
        self._counters["steps"] += int(sums[epochs.N_STEPS])
        self._counters["epochs"] += 1
        return _stats(sums)

    def train_generators(self, *, learning_rate: float, steps: int) -> EpochStats:
        """So many generator steps, each on `batch_size` freshly drawn unlabeled pairs."""
        self._need_generators()
        s = self.settings
        self._make_room(s.batch_size, 0, s.batch_size)
        self._look_at_real()
        sums = np.zeros(9)
        generators_epoch(
            self._sampler.tables,
            self._model,
            self._work,
            self._rules,
            self._sides.get("item"),
            self._sides.get("user"),
            _UNLABELED[s.unlabeled],
            s.batch_size,
            steps,
            learning_rate,
            self._counters["generator_steps"],
            self._epoch_keys(2 * self._counters["generator_epochs"] + 1),
            sums,
        )
        self._counters["generator_steps"] += int(sums[epochs.N_STEPS])
        self._counters["generator_epochs"] += 1
        return _stats(sums)

    def step_discriminator(self, batch: Batch, *, learning_rate: float) -> float:
        """One given step; returns its loss before the update."""
        self._check_batch(batch)
        n_pos, n_unl = batch.pos_user.size, batch.unl_user.size
        n_items, n_users = len(batch.item_noise), len(batch.user_noise)
        self._make_room(n_pos, n_unl, max(n_items, n_users))
        self._look_at_real()
        unl = _padded(n_pos)
        w = self._work
        w.users[:n_pos], w.items[:n_pos] = batch.pos_user, batch.pos_item
        w.users[unl : unl + n_unl], w.items[unl : unl + n_unl] = batch.unl_user, batch.unl_item
        self._put_noise(batch)
        self._counters["steps"] += 1
        loss: float = discriminator_step(
            self._model,
            w,
            self._rules,
            self._sides.get("item"),
            self._sides.get("user"),
            n_pos,
            n_unl,
            n_items,
            n_users,
            learning_rate,
            self._counters["steps"],
        )
        return loss

    def step_generators(self, batch: Batch, *, learning_rate: float) -> float:
        """One given generator step; returns its loss before the update."""
        self._need_generators()
        self._check_batch(batch)
        n_items, n_users = len(batch.item_noise), len(batch.user_noise)
        n = max(n_items, n_users)
        self._make_room(n, 0, n)
        self._look_at_real()
        self._work.users[:n], self._work.items[:n] = batch.unl_user[:n], batch.unl_item[:n]
        self._put_noise(batch)
        self._counters["generator_steps"] += 1
        sums = np.zeros(9)
        generators_step(
            self._sides.get("item"),
            self._sides.get("user"),
            self._model,
            self._work,
            self._rules,
            n_items,
            n_users,
            learning_rate,
            self._counters["generator_steps"],
            sums,
        )
        return float(sums[epochs.LOSS])

    # ------------------------------------------------------------------ parameters and state

    def parameters(self) -> Params:
        """Copies, unpadded; see `game.Engine`."""
        return self._read(0)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Parameters by name, `name/m` and `name/v` for Adam's moments, counters and the keys of randomness."""
        state: dict[str, npt.NDArray[np.generic]] = {}
        for part, suffix in enumerate(("", "/m", "/v")):
            state |= {f"{name}{suffix}": value for name, value in self._read(part).items()}
        state |= {f"counter/{name}": np.array(n, np.int64) for name, n in self._counters.items()}
        return state | {"keys": self._keys.copy()}

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None:
        """Go on from `state`, to the same bits."""
        expected = {f"{name}{part}": shape for name, shape in self._names.items() for part in ("", "/m", "/v")}
        expected |= {f"counter/{name}": () for name in _COUNTERS} | {"keys": self._keys.shape}
        for name, shape in expected.items():
            if name not in state:
                raise StoreError(f"the engine's state has no {name!r}; it was written with other settings")
            if np.shape(state[name]) != shape:
                raise StoreError(f"{name} has shape {np.shape(state[name])} in the state, but {shape} is needed")
        if odd := set(state) - set(expected):
            raise StoreError(f"the engine's state holds {min(odd)!r}, which these settings do not have")
        for part, suffix in enumerate(("", "/m", "/v")):
            self._write(part, {name: np.asarray(state[f"{name}{suffix}"], np.float32) for name in self._names})
        self._counters = {name: int(np.asarray(state[f"counter/{name}"], np.int64)) for name in _COUNTERS}
        self._keys = np.array(state["keys"], np.uint64)

    def _views(self, part: int) -> Params:
        """The unpadded values (part 0) or moments (1, 2), as views of the model's own memory."""
        s, m, views = self.settings, self._model, {}
        for side, table in (("user", m.user), ("item", m.item)):
            width = self._widths[side]
            views[side] = table.reshape(-1, 3, width)[:, part, : s.dim if side == "user" else s.dim_i]
        views["bias"] = m.bias[part : part + 1]
        if s.scorer == "gmf":
            views["relation"] = m.relation.reshape(3, -1)[part, : s.dim]
        elif s.scorer == "bilinear":
            shape = (3, self._widths["user"], self._widths["item"])
            views["relation"] = m.relation.reshape(shape)[part, : s.dim, : s.dim_i]
        elif s.scorer == "fm":
            views["user_bias"], views["item_bias"] = m.user_bias[part::4], m.item_bias[part::4]
        return views

    def _read(self, part: int) -> Params:
        values = {name: view.copy() for name, view in self._views(part).items()}
        for name, side in self._sides.items():
            values |= {f"{name}_gen.{key}": value for key, value in self._read_side(side, part).items()}
        return values

    def _write(self, part: int, params: Params) -> None:
        for name, view in self._views(part).items():
            view[...] = params[name]
        for name, side in self._sides.items():
            own = {key: params[f"{name}_gen.{key}"] for key in ("w1", "b1", "w2", "b2")}
            self._write_side(side, part, own)

    def _layers(self, side: Side, part: int) -> tuple[F32, F32, F32, F32]:
        """Padded w1 (n_in, h), b1, w2 (h, d), b2 of one generator, as views."""
        d, h = _padded(side.dim), side.hidden
        n_in = d + side.condition_dim * side.conditional
        theta = side.theta[part * side.n_weights : (part + 1) * side.n_weights]
        w1, b1, w2, b2 = np.split(theta, np.cumsum([n_in * h, h, h * d]))
        return w1.reshape(n_in, h), b1, w2.reshape(h, d), b2

    def _rows_of_w1(self, side: Side) -> npt.NDArray[np.intp]:
        """Which padded rows of w1 are real: those of the noise, then those of the condition."""
        rows = np.arange(side.dim)
        if side.conditional:
            other = self.settings.dim if side.is_item else self.settings.dim_i
            rows = np.concatenate([rows, _padded(side.dim) + np.arange(other)])
        return rows

    def _read_side(self, side: Side, part: int) -> Params:
        w1, b1, w2, b2 = self._layers(side, part)
        h, d = self.settings.hidden, side.dim
        return {
            "w1": np.ascontiguousarray(w1[self._rows_of_w1(side), :h].T),
            "b1": b1[:h].copy(),
            "w2": np.ascontiguousarray(w2[:h, :d].T),
            "b2": b2[:d].copy(),
        }

    def _write_side(self, side: Side, part: int, values: Params) -> None:
        w1, b1, w2, b2 = self._layers(side, part)
        h, d = self.settings.hidden, side.dim
        w1[self._rows_of_w1(side), :h] = values["w1"].T
        b1[:h] = values["b1"]
        w2[:h, :d] = values["w2"].T
        b2[:d] = values["b2"]

    # ------------------------------------------------------------------ memory

    def _new_model(self) -> Model:
        s, u, i = self.settings, self._widths["user"], self._widths["item"]
        n_relation = u * i if s.scorer == "bilinear" else u
        relation = _zeros(3 * n_relation)
        if s.scorer in ("mf", "fm"):
            relation[: s.dim] = 1.0
        with_biases = s.scorer == "fm"
        return Model(
            user=_zeros(self._n_users * 3 * u),
            item=_zeros(self._n_items * 3 * i),
            relation=relation,
            bias=_zeros(3),
            user_bias=_zeros(self._n_users * 4 * with_biases),
            item_bias=_zeros(self._n_items * 4 * with_biases),
        )

    def _new_side(self, name: str) -> Side:
        s = self.settings
        d, other = (s.dim_i, s.dim) if name == "item" else (s.dim, s.dim_i)
        width, hidden, condition = _padded(d), _padded(s.hidden), _padded(other)
        n_weights = (width + condition * s.conditional) * hidden + hidden + hidden * width + width
        return Side(
            is_item=name == "item",
            conditional=s.conditional,
            rectified=s.output == "relu",
            constraint=_CONSTRAINTS[s.constraint],
            saturating=s.generator_loss == "saturating",
            noise_deviation=float(s.noise),
            dim=d,
            hidden=hidden,
            condition_dim=condition,
            n_weights=n_weights,
            theta=_zeros(3 * n_weights),
            grad=_zeros(n_weights),
            w2_turned=_zeros(width * hidden),
            real_mean=np.zeros(width),
            real_factor=np.zeros(width * width),
            real_norm=np.zeros(1),
            mean=np.zeros(width),
            row=np.zeros(width),
            factor=np.zeros(width * width),
            colour=np.zeros(width * width),
            mean32=_zeros(width),
            real_mean32=_zeros(width),
            colour32=_zeros(width * width),
            colour32_turned=_zeros(width * width),
            uniform=_zeros(3 * LANES),
            row32=_zeros(width),
            **_side_scratch(0, width, hidden),
        )

    def _make_room(self, n_pos: int, n_unl: int, n_fakes: int) -> None:
        """Scratch for a batch of this size; only ever grows."""
        n_pairs = _padded(n_pos) + _padded(n_unl) + 2 * _padded(n_fakes) + LANES
        if n_pairs > self._work.phi.size:
            self._work = _new_work(n_pairs, self._n_users, self._n_items, self._widths, self._rules)
        for name, side in self._sides.items():
            if n_fakes > side.scale.size:
                scratch = _side_scratch(n_fakes, _padded(side.dim), side.hidden)
                self._sides[name] = side._replace(**scratch)

    # ------------------------------------------------------------------ what a call looks at

    def _look_at_real(self) -> None:
        """Mean, covariance and mean norm of the real embeddings, weighted by number of positives."""
        views = self._views(0)
        for name, side in self._sides.items():
            if side.constraint == NO_CONSTRAINT:
                continue
            share = self._weights[name] / self._weights[name].sum()
            rows = views[name].astype(np.float64)
            d = side.dim
            mean = share @ rows
            side.real_mean[:d] = mean
            side.real_norm[0] = share @ np.linalg.norm(rows, axis=1)
            if side.constraint == RECOLOUR and np.all(np.isfinite(rows)):
                rows -= mean
                covariance = (rows * share[:, None]).T @ rows
                covariance += np.eye(d) * (1e-6 * np.trace(covariance) / d + 1e-12)
                side.real_factor.reshape(_padded(d), -1)[:d, :d] = np.linalg.cholesky(covariance)

    def _put_noise(self, batch: Batch) -> None:
        for name, noise in (("item", batch.item_noise), ("user", batch.user_noise)):
            if len(noise):
                side = self._sides[name]
                width = _padded(side.dim)
                rows = side.noise[: len(noise) * width].reshape(-1, width)
                rows[:, : side.dim] = noise
                rows[:, side.dim :] = 0.0

    def _epoch_keys(self, number: int) -> npt.NDArray[np.uint64]:
        return np.array([splitmix64(key, np.uint64(number)) for key in self._keys], np.uint64)

    def _need_generators(self) -> None:
        if self.settings.generators == "none":
            raise ConfigError("there is no generator to train; set generators to 'item', 'user' or 'both'")

    def _check_batch(self, batch: Batch) -> None:
        for kind, n in (("user", self._n_users), ("item", self._n_items)):
            for part in ("pos", "unl"):
                index: I32 = getattr(batch, f"{part}_{kind}")
                if index.size and (index.min() < 0 or index.max() >= n):
                    raise DataError(f"{part}_{kind} of the batch must lie in range({n})")
        if batch.pos_user.shape != batch.pos_item.shape or batch.unl_user.shape != batch.unl_item.shape:
            raise DataError("the batch must have as many users as items")
        for name, noise in (("item", batch.item_noise), ("user", batch.user_noise)):
            if not len(noise):
                continue
            if name not in self._sides:
                raise ConfigError(f"the batch has {name}_noise, but there is no {name} generator")
            side = self._sides[name]
            if noise.shape != (len(noise), side.dim) or len(noise) > batch.unl_user.size:
                raise DataError(
                    f"{name}_noise has shape {noise.shape}; at most {batch.unl_user.size} rows of {side.dim} fit"
                )


def _padded(n: int) -> int:
    return -(-n // LANES) * LANES


def _zeros(n: int) -> F32:
    """Zeros that start on a cache line, so that no row of eight lies across two."""
    memory = np.zeros(n + 16, np.float32)
    skip = (-memory.ctypes.data // 4) % 16
    return memory[skip : skip + n]


def _check(s: GameSettings, threads: int) -> None:
    if s.scorer not in _SCORERS:
        raise ConfigError(f"the cpu engine has no scorer {s.scorer!r}; use engine='torch'")
    if s.dim_i != s.dim and s.scorer != "bilinear":
        raise ConfigError(f"item_dim {s.dim_i} differs from dim {s.dim}, which {s.scorer!r} cannot score")
    if s.epsilon <= 0.0:
        raise ConfigError(f"epsilon must be positive, not {s.epsilon}: rows without a gradient divide by it")
    if threads < 1:
        raise ConfigError(f"threads must be at least 1, not {threads}")


def _rules(s: GameSettings) -> Rules:
    return Rules(
        u_dim=_padded(s.dim),
        i_dim=_padded(s.dim_i),
        scorer=_SCORERS[s.scorer],
        risk=_RISKS[s.risk],
        train_bias=s.train_bias,
        prior=float(s.prior),
        regularization=float(s.regularization),
        fake_weight=float(s.fake_weight),
        beta1=float(s.beta1),
        beta2=float(s.beta2),
        epsilon=float(s.epsilon),
    )


def _shapes(n_users: int, n_items: int, s: GameSettings) -> dict[str, tuple[int, ...]]:
    """The names and shapes of all parameters."""
    shapes: dict[str, tuple[int, ...]] = {"user": (n_users, s.dim), "item": (n_items, s.dim_i), "bias": (1,)}
    if s.scorer == "gmf":
        shapes["relation"] = (s.dim,)
    elif s.scorer == "bilinear":
        shapes["relation"] = (s.dim, s.dim_i)
    elif s.scorer == "fm":
        shapes |= {"user_bias": (n_users,), "item_bias": (n_items,)}
    for name, d, other in (("item", s.dim_i, s.dim), ("user", s.dim, s.dim_i)):
        if s.generators in (name, "both"):
            n_in = d + other * s.conditional
            shapes |= {f"{name}_gen.w1": (s.hidden, n_in), f"{name}_gen.b1": (s.hidden,)}
            shapes |= {f"{name}_gen.w2": (d, s.hidden), f"{name}_gen.b2": (d,)}
    return shapes


def _new_work(n: int, n_users: int, n_items: int, widths: dict[str, int], rules: Rules) -> Work:
    """Scratch for n pairs."""
    u, i = widths["user"], widths["item"]
    widest = max(u, i)
    is_bilinear = rules.scorer == BILINEAR
    return Work(
        users=np.zeros(n, np.int32),
        items=np.zeros(n, np.int32),
        user_slots=np.zeros(n, np.int32),
        item_slots=np.zeros(n, np.int32),
        phi=_zeros(n),
        sigma=_zeros(n),
        slot_of_user=np.full(n_users, -1, np.int32),
        slot_of_item=np.full(n_items, -1, np.int32),
        slot_users=np.zeros(n + 1, np.int32),
        slot_items=np.zeros(n + 1, np.int32),
        user_grads=_zeros(n * widest),
        item_grads=_zeros(n * widest),
        user_counts=_zeros(n),
        item_counts=_zeros(n),
        user_bias_grads=_zeros(n),
        item_bias_grads=_zeros(n),
        user_turned=_zeros(n * i * is_bilinear),
        item_turned=_zeros(n * u * is_bilinear),
        relation_grad=_zeros(u * i if is_bilinear else u),
        ones=_zeros(widest) + np.float32(1.0),
        row=_zeros(widest),
        report=np.zeros(4),
    )


def _side_scratch(n: int, width: int, hidden: int) -> dict[str, Any]:
    sizes = dict.fromkeys(("noise", "raw", "fakes", "pull"), width) | {"first": hidden, "phi": 1, "sigma": 1}
    scratch: dict[str, Any] = {name: _zeros(n * size + LANES) for name, size in sizes.items()}
    scratch["scale"] = _zeros(n)
    return scratch


def _stats(sums: npt.NDArray[np.float64]) -> EpochStats:
    def mean(total: int, count: int) -> float:
        return float(sums[total] / sums[count]) if sums[count] else float("nan")

    return EpochStats(
        loss=mean(epochs.LOSS, epochs.N_STEPS),
        d_positive=mean(epochs.D_POSITIVE, epochs.N_POSITIVE),
        d_unlabeled=mean(epochs.D_UNLABELED, epochs.N_UNLABELED),
        d_fake=mean(epochs.D_FAKE, epochs.N_FAKES),
        fake_norm=mean(epochs.NORM, epochs.N_FAKES),
        samples=int(sums[epochs.N_POSITIVE] + sums[epochs.N_UNLABELED] + sums[epochs.N_FAKES]),
    )
