"""Sources of scores: factors in slabs, panels of a generic model, and threads over users."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from purerec.errors import ConfigError, DataError, ScoreError
from purerec.jit.arrays import constant
from purerec.ranking.tiles import PANEL, TILE, padded, score_pairs, scratch_size
from purerec.types import F32, I32, I64, Array

if TYPE_CHECKING:
    from purerec.data.pairs import Csr


_PANEL_SCORES = 1 << 24
"""Maximum number of scores requested from a generic model at once: 64 MB."""
DIVERGED = "it cannot be ranked: training diverged, lower the learning rate"


@dataclass(frozen=True)
class Factors:
    """score(u, i) = users[u] . items[i] + item_bias[i]"""

    users: F32
    """(n_users, dim)"""
    items: F32
    """(n_items, dim)"""
    item_bias: F32 | None = None
    """(n_items,)"""


class Scorer(Protocol):
    """The part of a recommender that ranking needs."""

    @property
    def name(self) -> str: ...

    def score(self, user_idx: Any, /) -> F32:
        """(len(user_idx), n_items) float32; of somebody's own model also other numbers"""
        ...

    def factors(self) -> Factors | None:
        """The factors, if the score is a dot product."""
        ...


def as_scorer(model: Any) -> Scorer:
    """Accept any object with a `score` method; its name defaults to that of its class, its `factors` to None."""
    if isinstance(model, type) or not callable(getattr(model, "score", None)):
        what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise ConfigError(f"cannot evaluate {what}; give a fitted model, an object with score(user_idx)")
    if callable(getattr(model, "factors", None)) and isinstance(getattr(model, "name", None), str):
        found: Scorer = model
        return found
    return _Named(model, str(getattr(model, "name", type(model).__name__.lower())))


@dataclass(frozen=True)
class _Named:
    """An object with a `score` method and nothing else."""

    model: Any
    name: str

    def score(self, user_idx: I64, /) -> F32:
        return np.asarray(self.model.score(user_idx))

    def factors(self) -> Factors | None:
        return None


def shape_of(model: Scorer, rows: I64, pairs: Csr | None) -> tuple[int, int]:
    """(n_users, n_items), from the first source that has them; a generic model does not give its number of users."""
    if pairs is not None:
        return pairs.shape
    factors = model.factors()
    if factors is not None:
        return len(factors.users), len(factors.items)
    return int(rows.max(initial=-1)) + 1, np.asarray(model.score(rows[:1])).shape[1]


def factors_of(model: Scorer, shape: tuple[int, int]) -> tuple[F32, F32, F32] | None:
    """users (n_users, dim), items (n_items, dim) and bias (n_items,) of a factor model, else None."""
    factors = model.factors()
    if factors is None:
        return None
    users, items = constant(factors.users, np.float32), constant(factors.items, np.float32)
    bias = np.zeros(shape[1], dtype=np.float32) if factors.item_bias is None else factors.item_bias
    bias = constant(bias, np.float32)
    dim = users.shape[1] if users.ndim == 2 else -1
    if users.shape != (shape[0], dim) or items.shape != (shape[1], dim) or bias.shape != (shape[1],):
        raise ScoreError(
            f"{model.name} has factors of the shapes {users.shape}, {items.shape} and {bias.shape}; "
            f"{shape[0]:,} users and {shape[1]:,} items need (users, dim), (items, dim) and (items,)"
        )
    return users, items, bias


@dataclass(frozen=True)
class Slabs:
    """The items of a factor model in tie order, in slabs that fit the memory limit."""

    users: F32
    items: F32
    bias: F32
    order: I32
    tiles: int
    """Tiles per slab."""
    check: bool
    """Whether a product may overflow, so that every score must be checked."""

    @classmethod
    def of(cls, factors: tuple[F32, F32, F32], name: str, order: I32, memory_mb: float) -> Slabs:
        users, items, bias = factors
        peaks = []
        for what, table in (("user", users), ("item", items), ("item", bias)):
            peak = max(-float(table.min(initial=0)), float(table.max(initial=0)))
            if not np.isfinite(peak):
                bad = np.flatnonzero(~np.isfinite(table.reshape(len(table), -1)).all(axis=1))[0]
                raise ScoreError(f"{name} has a NaN or infinite factor for {what} index {bad}; {DIVERGED}")
            peaks.append(peak)
        bound = users.shape[1] * peaks[0] * peaks[1] + peaks[2]
        tile_bytes = 4 * TILE * (padded(users.shape[1]) + 1)
        # While a slab is built, three copies of its rows exist: gathered, padded and transposed.
        tiles = memory_mb * 2**20 / 3 / tile_bytes
        if not tiles >= 1:
            _refuse_memory(memory_mb, 3 * tile_bytes)
        return cls(users, items, bias, order, int(min(tiles, max(len(order), 1))), bound > 1e38)

    def __iter__(self) -> Iterator[tuple[F32, F32, F32, int, int, bool]]:
        """users, items (tiles, padded dim, TILE) flat, bias (tiles, TILE) flat, first place, n_items, check.

        The padding has a bias of -inf, so it never ranks before anything.
        """
        dim, step = self.users.shape[1], self.tiles * TILE
        for first in range(0, len(self.order), step):
            chosen = self.order[first : first + step]
            tiles = -(-len(chosen) // TILE)
            table = np.zeros((tiles * TILE, padded(dim)), dtype=np.float32)
            table[: len(chosen), :dim] = self.items[chosen]
            slab = table.reshape(tiles, TILE, -1).transpose(0, 2, 1).ravel()
            del table
            slab_bias = np.full(tiles * TILE, -np.inf, dtype=np.float32)
            slab_bias[: len(chosen)] = self.bias[chosen]
            yield self.users, slab, slab_bias, first, len(chosen), self.check


def precision_of(scores: Array) -> npt.DTypeLike:
    """The precision to rank scores in: float32 if it holds all of this type, else float64.

    Rounding makes ties: as float32, 1,700,000,000 and 1,700,000,060 are the same.
    """
    return np.float32 if np.can_cast(scores.dtype, np.float32) else np.float64


def panels(
    model: Scorer,
    rows: I64,
    shape: tuple[int, int],
    memory_mb: float,
    factors: tuple[F32, F32, F32] | None = None,
) -> Iterator[tuple[slice, Array]]:
    """Parts of the rows with their scores (len(part), n_items), flat, in float32 or, from some part on, float64."""
    n_items, precision = shape[1], np.dtype(np.float32)
    step = max(1, min(PANEL, _PANEL_SCORES // max(n_items, 1)))
    if not step * n_items * 4 <= memory_mb * 2**20:
        _refuse_memory(memory_mb, step * n_items * 4)
    for at in range(0, len(rows), step):
        part = slice(at, min(at + step, len(rows)))
        if factors is not None:
            panel = np.empty((part.stop - at, n_items), dtype=np.float32)
            score_pairs(rows[part], *factors, panel)
        else:
            panel = np.asarray(model.score(rows[part]))
        if panel.shape != (part.stop - at, n_items):
            raise ScoreError(
                f"{model.name} gave scores of the shape {panel.shape} for {part.stop - at} users and "
                f"{n_items:,} items"
            )
        precision = np.promote_types(precision, precision_of(panel))
        yield part, constant(panel, precision).ravel()


class Workers:
    """Runs a kernel over ranges of rows, in the requested number of threads."""

    def __init__(self, name: str, threads: int | None, factors: tuple[F32, F32, F32] | None) -> None:
        if threads is not None and threads < 1:
            raise ConfigError(f"threads must be at least 1, not {threads!r}")
        self._name = name
        self._scratch = scratch_size(0 if factors is None else factors[0].shape[1])
        self._threads = threads or available_cpus()
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, kernel: Callable[..., int], rows: I64, *args: Any, precision: npt.DTypeLike = np.float32) -> None:
        """Run kernel(first, last, rows, scratch, *args) over all rows; see `purerec.ranking.tiles`.

        `precision` is that of the scratch memory.
        """
        n = len(rows)
        if self._pool is None:
            parts = [(0, n)]
        else:
            step = max(1, -(-n // (8 * self._threads)), min(PANEL, -(-n // self._threads)))
            parts = [(a, min(a + step, n)) for a in range(0, n, step)]

        def work(part: tuple[int, int]) -> int:
            return kernel(*part, rows, np.empty(self._scratch, dtype=precision), *args)

        results = [work(part) for part in parts] if self._pool is None else list(self._pool.map(work, parts))
        bad = [row for row in results if row >= 0]
        if bad:
            user = rows[min(bad)]
            raise ScoreError(f"{self._name} gave a NaN or infinite score for user index {user}; {DIVERGED}")


def available_cpus() -> int:
    """The number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pairs_of(pairs: Csr | None, shape: tuple[int, int]) -> tuple[I64, I32]:
    if pairs is None:
        return constant(np.zeros(shape[0] + 1), np.int64), constant(np.zeros(0), np.int32)
    if pairs.shape != shape:
        raise DataError(f"pairs of the shape {pairs.shape} do not belong to {shape[0]} users and {shape[1]} items")
    return constant(pairs.indptr, np.int64), constant(pairs.indices, np.int32)


def _refuse_memory(memory_mb: float, n_bytes: int) -> NoReturn:
    enough = f"{n_bytes / 2**20:.2g}"
    raise ConfigError(
        f"memory_mb={memory_mb:g} is too little for this many items",
        f"raise it to {enough} or more",
        command=f"give --memory-mb {enough} or more",
    )
