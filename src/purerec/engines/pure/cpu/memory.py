"""The data that the cpu engine's kernels work on: settings, parameters and scratch, and conversion to and from them.

Rows are padded with zeros to multiples of `LANES`; padding stays zero because its gradient is zero. The state
of an engine is its parameters, Adam's moments, counters and random keys, as named arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.engines.pure.cpu.constraints import NO_CONSTRAINT, NORM, RECOLOUR
from purerec.engines.pure.cpu.dynamic_negatives import BLOCK, Choice
from purerec.engines.pure.cpu.kernels import BILINEAR, FM, GMF, MF, GeneratorMemory, KernelSettings, Model, Work
from purerec.engines.pure.spec import N_SUMS, GameSettings, Params
from purerec.errors import ConfigError, StoreError
from purerec.jit.simd import LANES
from purerec.sampling.dynamic import RULES
from purerec.types import F32, U64, State

COUNTERS = ("steps", "generator_steps", "epochs", "generator_epochs")
STREAMS = ("shuffle", "draw", "item noise", "user noise")
"""Random streams; each has a key in the state"""
SUFFIXES = ("", "/m", "/v")
"""Suffixes of the names of parameters and of their moments in a state"""
_SCORERS = {"mf": MF, "gmf": GMF, "bilinear": BILINEAR, "fm": FM}
_CONSTRAINTS = {"none": NO_CONSTRAINT, "norm": NORM, "recolour": RECOLOUR}


def padded(n: int) -> int:
    return -(-n // LANES) * LANES


def zeros(n: int) -> F32:
    """Zeros that start on a cache line, so that no row of eight straddles two."""
    memory = np.zeros(n + 16, np.float32)
    skip = (-memory.ctypes.data // 4) % 16
    return memory[skip : skip + n]


def parameter_shapes(n_users: int, n_items: int, s: GameSettings) -> dict[str, tuple[int, ...]]:
    """The names and shapes, without padding, of all parameters."""
    shapes: dict[str, tuple[int, ...]] = {"user": (n_users, s.dim), "item": (n_items, s.dim_i), "bias": (1,)}
    if s.scorer == "gmf":
        shapes["relation"] = (s.dim,)
    elif s.scorer == "bilinear":
        shapes["relation"] = (s.dim, s.dim_i)
    elif s.scorer == "fm":
        shapes |= {"user_bias": (n_users,), "item_bias": (n_items,)}
    for name, d, other in (("item", s.dim_i, s.dim), ("user", s.dim, s.dim_i)):
        if name in s.generators_of:
            n_in = d + other * s.conditional
            shapes |= {f"{name}_gen.w1": (s.hidden, n_in), f"{name}_gen.b1": (s.hidden,)}
            shapes |= {f"{name}_gen.w2": (d, s.hidden), f"{name}_gen.b2": (d,)}
    return shapes


def kernel_settings(s: GameSettings) -> KernelSettings:
    """The settings in the form that kernels expect."""
    if s.scorer not in _SCORERS:
        fact = f"the cpu engine has no scorer {s.scorer!r}"
        raise ConfigError(fact, "use engine='torch'", command="use --set engine=torch")
    positive, unlabeled, is_clamped, temperature = 0.0, 0.0, False, s.temperature
    if s.softmax is None:
        positive, unlabeled, is_clamped = s.logistic.positive, s.logistic.unlabeled, s.logistic.is_clamped
        temperature = 0.0
    return KernelSettings(
        u_dim=padded(s.dim),
        i_dim=padded(s.dim_i),
        scorer=_SCORERS[s.scorer],
        temperature=float(temperature),
        observed=float(s.observed),
        positive=float(positive),
        unlabeled=float(unlabeled),
        is_clamped=is_clamped,
        fake=float(s.fake_weight / s.prior),
        train_bias=s.learns_bias,
        regularization=float(s.regularization),
        beta1=float(s.beta1),
        beta2=float(s.beta2),
        epsilon=float(s.epsilon),
    )


class Memory:
    """All arrays of one engine. `part` is 0 for the parameters, 1 and 2 for their moments."""

    def __init__(self, n_users: int, n_items: int, settings: GameSettings) -> None:
        self.settings = settings
        self.n_users, self.n_items = n_users, n_items
        self.widths = {"user": padded(settings.dim), "item": padded(settings.dim_i)}
        self.model = self._new_model()
        self.sides = {side: self._new_side(side) for side in settings.generators_of}
        self.work = self._new_work(0)
        self.choice = self._new_choice()

    def make_room(self, n_pos: int, n_unl: int, n_fakes: int) -> None:
        """Allocate scratch for a batch of this size; it never shrinks."""
        n_pairs = padded(n_pos) + padded(n_unl) + 2 * padded(n_fakes) + LANES
        if n_pairs > self.work.phi.size:
            self.work = self._new_work(n_pairs)
        for name, side in self.sides.items():
            if n_fakes > side.scale.size:
                self.sides[name] = side._replace(**_fake_scratch(n_fakes, padded(side.dim), side.hidden))

    def for_second_thread(self) -> tuple[Work, Choice | None]:
        """Work and choice for the second of two threads: copies of what it cannot share with the first."""
        own = self.work._replace(sigma=zeros(self.work.sigma.size), report=np.zeros_like(self.work.report))
        return own, self._new_choice()

    def apart(self) -> Work:
        """The work of another thread on another batch."""
        return self._new_work(self.work.phi.size)

    def put_noise(self, name: str, noise: F32) -> None:
        if len(noise):
            side = self.sides[name]
            width = padded(side.dim)
            rows = side.noise[: len(noise) * width].reshape(-1, width)
            rows[:, : side.dim] = noise
            rows[:, side.dim :] = 0.0

    # --- in and out of the padding

    def read(self, part: int) -> Params:
        """Copies, by name, without padding."""
        values = {name: view.copy() for name, view in self.views(part).items()}
        for name, side in self.sides.items():
            values |= {f"{name}_gen.{key}": value for key, value in self._read_side(side, part).items()}
        return values

    def write(self, part: int, params: Params) -> None:
        for name, view in self.views(part).items():
            view[...] = params[name]
        for name, side in self.sides.items():
            self._write_side(side, part, {key: params[f"{name}_gen.{key}"] for key in ("w1", "b1", "w2", "b2")})

    def views(self, part: int) -> Params:
        """The discriminator's unpadded values, as views of its memory."""
        s, m, views = self.settings, self.model, {}
        for side, table, dim in (("user", m.user, s.dim), ("item", m.item, s.dim_i)):
            views[side] = table.reshape(-1, 3, self.widths[side])[:, part, :dim]
        views["bias"] = m.bias[part : part + 1]
        if s.scorer == "gmf":
            views["relation"] = m.relation.reshape(3, -1)[part, : s.dim]
        elif s.scorer == "bilinear":
            shape = (3, self.widths["user"], self.widths["item"])
            views["relation"] = m.relation.reshape(shape)[part, : s.dim, : s.dim_i]
        elif s.scorer == "fm":
            views["user_bias"], views["item_bias"] = m.user_bias[part::4], m.item_bias[part::4]
        return views

    def layers(self, side: GeneratorMemory, part: int) -> tuple[F32, F32, F32, F32]:
        """Padded w1 (n_in, h), b1, w2 (h, d), b2 of one generator, as views."""
        d, h = padded(side.dim), side.hidden
        n_in = d + side.condition_dim * side.conditional
        theta = side.theta[part * side.n_weights : (part + 1) * side.n_weights]
        w1, b1, w2, b2 = np.split(theta, np.cumsum([n_in * h, h, h * d]))
        return w1.reshape(n_in, h), b1, w2.reshape(h, d), b2

    def _rows_of_w1(self, side: GeneratorMemory) -> npt.NDArray[np.intp]:
        """Which padded rows of w1 are real: those of the noise, then those of the condition."""
        rows = np.arange(side.dim)
        if side.conditional:
            other = self.settings.dim if side.is_item else self.settings.dim_i
            rows = np.concatenate([rows, padded(side.dim) + np.arange(other)])
        return rows

    def _read_side(self, side: GeneratorMemory, part: int) -> Params:
        w1, b1, w2, b2 = self.layers(side, part)
        h, d = self.settings.hidden, side.dim
        return {
            "w1": np.ascontiguousarray(w1[self._rows_of_w1(side), :h].T),
            "b1": b1[:h].copy(),
            "w2": np.ascontiguousarray(w2[:h, :d].T),
            "b2": b2[:d].copy(),
        }

    def _write_side(self, side: GeneratorMemory, part: int, values: Params) -> None:
        w1, b1, w2, b2 = self.layers(side, part)
        h, d = self.settings.hidden, side.dim
        w1[self._rows_of_w1(side), :h] = values["w1"].T
        b1[:h] = values["b1"]
        w2[:h, :d] = values["w2"].T
        b2[:d] = values["b2"]

    # --- allocation

    def _new_model(self) -> Model:
        s, u, i = self.settings, self.widths["user"], self.widths["item"]
        relation = zeros(3 * (u * i if s.scorer == "bilinear" else u))
        if s.scorer in ("mf", "fm"):
            relation[: s.dim] = 1.0
        with_biases = s.scorer == "fm"
        return Model(
            user=zeros(self.n_users * 3 * u),
            item=zeros(self.n_items * 3 * i),
            relation=relation,
            bias=zeros(3),
            user_bias=zeros(self.n_users * 4 * with_biases),
            item_bias=zeros(self.n_items * 4 * with_biases),
        )

    def _new_side(self, name: str) -> GeneratorMemory:
        s = self.settings
        d, other = (s.dim_i, s.dim) if name == "item" else (s.dim, s.dim_i)
        width, hidden, condition = padded(d), padded(s.hidden), padded(other)
        n_weights = (width + condition * s.conditional) * hidden + hidden + hidden * width + width
        return GeneratorMemory(
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
            theta=zeros(3 * n_weights),
            grad=zeros(n_weights),
            w2_turned=zeros(width * hidden),
            row32=zeros(width),
            real_mean=np.zeros(width),
            real_factor=np.zeros(width * width),
            real_norm=np.zeros(1),
            mean=np.zeros(width),
            row=np.zeros(width),
            factor=np.zeros(width * width),
            colour=np.zeros(width * width),
            mean32=zeros(width),
            real_mean32=zeros(width),
            colour32=zeros(width * width),
            colour32_turned=zeros(width * width),
            uniform=zeros(3 * LANES),
            **_fake_scratch(0, width, hidden),
        )

    def _new_work(self, n: int) -> Work:
        """Scratch for n pairs."""
        u, i = self.widths["user"], self.widths["item"]
        widest = max(u, i)
        is_bilinear = self.settings.scorer == "bilinear"
        return Work(
            users=np.zeros(n, np.int32),
            items=np.zeros(n, np.int32),
            user_slots=np.zeros(n, np.int32),
            item_slots=np.zeros(n, np.int32),
            phi=zeros(n),
            sigma=zeros(n),
            slot_of_user=np.full(self.n_users, -1, np.int32),
            slot_of_item=np.full(self.n_items, -1, np.int32),
            slot_users=np.zeros(n + 1, np.int32),
            slot_items=np.zeros(n + 1, np.int32),
            user_grads=zeros(n * widest),
            item_grads=zeros(n * widest),
            user_counts=zeros(n),
            item_counts=zeros(n),
            user_bias_grads=zeros(n),
            item_bias_grads=zeros(n),
            user_turned=zeros(n * i * is_bilinear),
            item_turned=zeros(n * u * is_bilinear),
            relation_grad=zeros(u * i if is_bilinear else u),
            ones=np.ones(widest, np.float32),
            row=zeros(widest),
            report=np.zeros(N_SUMS),
        )

    def _new_choice(self) -> Choice | None:
        s, width = self.settings, self.widths["item"]
        if s.negatives == "uniform":
            return None
        n = BLOCK * s.candidates
        return Choice(
            rule=RULES[s.negatives],
            candidates=s.candidates,
            by_popularity=s.unlabeled == "popularity",
            users=np.zeros(n, np.int32),
            items=np.zeros(n, np.int32),
            scores=zeros(n),
            row=zeros(width),
            ones=np.ones(width, np.float32),
        )


def _fake_scratch(n: int, width: int, hidden: int) -> dict[str, Any]:
    """The arrays of a `GeneratorMemory` that grow with the number of fakes."""
    sizes = dict.fromkeys(("noise", "raw", "fakes", "pull"), width) | {"first": hidden, "phi": 1, "sigma": 1}
    return {name: zeros(n * size + LANES) for name, size in sizes.items()} | {"scale": zeros(n)}


def pack_state(memory: Memory, counters: Mapping[str, int], keys: U64) -> State:
    """Parameters by name, `name/m` and `name/v` for the moments, counters and keys, as copies."""
    state: State = {"keys": keys.copy()}
    for part, suffix in enumerate(SUFFIXES):
        state |= {f"{name}{suffix}": value for name, value in memory.read(part).items()}
    return state | {f"counter/{name}": np.array(counters[name], np.int64) for name in COUNTERS}


def unpack_state(state: State, memory: Memory) -> tuple[dict[str, int], U64]:
    """Write a state into memory; return its counters and keys."""
    shapes = parameter_shapes(memory.n_users, memory.n_items, memory.settings)
    expected = {f"{name}{suffix}": shape for name, shape in shapes.items() for suffix in SUFFIXES}
    expected |= {f"counter/{name}": () for name in COUNTERS} | {"keys": (len(STREAMS),)}
    for name, shape in expected.items():
        if name not in state:
            raise StoreError(f"the engine's state has no {name!r}; it was written with other settings")
        if np.shape(state[name]) != shape:
            raise StoreError(f"{name} has shape {np.shape(state[name])} in the state, but {shape} is needed")
    if odd := set(state) - set(expected):
        raise StoreError(f"the engine's state holds {min(odd)!r}, which these settings do not have")
    for part, suffix in enumerate(SUFFIXES):
        memory.write(part, {name: np.asarray(state[f"{name}{suffix}"], np.float32) for name in shapes})
    counters = {name: int(np.asarray(state[f"counter/{name}"], np.int64)) for name in COUNTERS}
    return counters, np.array(state["keys"], np.uint64)
