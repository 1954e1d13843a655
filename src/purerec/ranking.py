"""Scores -> ranks and top-k lists, with exclusions and one tie rule.

The tie rule: equal scores are ordered by a fixed permutation of the items, drawn from the evaluation seed. A
scorer that gives every item the same score is therefore ranked like a random list, never like a perfect one,
and the order is the same for every user, model, block size and number of threads.

All kernels walk through the items in the order of that permutation (an item's position in it is its `place`).
An item that comes later never overtakes an equal one that came before, so the rule costs nothing. Ranks come
from counting, for each positive, the candidates that stand before it; only a user's positives are sorted.

Scores of factor models are chains of fused multiply-adds in the order of the dimensions, each correctly
rounded: vectorised or not, in whatever blocks, they have the same bits. Other models are asked for panels of
users whose size depends on the number of items only, since a matrix product may round differently when it is
given another number of rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from purerec.engines import rank_counts, ranking_tiles, top_lists
from purerec.errors import ConfigError, DataError, ScoreError
from purerec.randomness import generator

if TYPE_CHECKING:
    from purerec.interactions import Csr

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_PANEL_SCORES = 1 << 24
"""The most scores that a generic model is asked for at once: 64 MB."""
_FEW = 8
"""For so few users (a request to a server), lists are made without a transposed copy of the item factors."""
_DIVERGED = "it cannot be ranked: training diverged, lower the learning rate"


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
        """(len(user_idx), n_items) float32"""
        ...

    def factors(self) -> Factors | None:
        """The factors, if the score is a dot product."""
        ...


@dataclass(frozen=True, eq=False)
class Ranks:
    """1-based ranks of positives: those of `user_idx[i]` are `values[indptr[i]:indptr[i + 1]]`, ascending."""

    user_idx: I64
    """(n,) the users that have positives, ascending"""
    indptr: I64
    """(n + 1,)"""
    values: I32
    """(n_positives,)"""


@dataclass(frozen=True, eq=False)
class TopK:
    """The best items of each user, best first. Lists that are too short end in item -1, score -inf."""

    items: I32
    """(n, k)"""
    scores: F32
    """(n, k)"""


# ---------------------------------------------------------------------- public functions


@lru_cache(maxsize=8)
def tie_order(n_items: int, seed: int) -> I32:
    """(n_items,) the items in the order in which equal scores are ranked."""
    return _constant(generator(seed, "evaluation").permutation(n_items), np.int32)


def ranks(
    model: Scorer,
    positives: Csr,
    *,
    excluded: Csr | None = None,
    pool: Csr | None = None,
    seed: int = 0,
    memory_mb: float = 256,
    threads: int | None = None,
) -> Ranks:
    """Rank of every positive among the candidates of its user.

    The candidates of user u are all items without `excluded[u]`; or, if a pool is given, `pool[u]` (which must
    not hold positives) and the positives themselves. An excluded positive is no candidate and drops out; users
    left without positives are left out. Scores take at most `memory_mb`, which changes nothing in the result,
    nor does the number of threads (None: one for each CPU).
    """
    if pool is not None and excluded is not None:
        raise ConfigError("give either excluded or pool: a pool already says what the candidates are")
    shape = positives.shape
    ptr, idx = _pairs(positives, shape)
    other_ptr, other_idx = _pairs(excluded if pool is None else pool, shape)
    if excluded is not None:
        kept_ptr, kept_idx = np.empty(len(ptr), dtype=np.int64), np.empty(len(idx), dtype=np.int32)
        n_kept = rank_counts.difference(ptr, idx, other_ptr, other_idx, kept_ptr, kept_idx)
        ptr, idx = _constant(kept_ptr, np.int64), _constant(kept_idx[:n_kept], np.int32)
    rows = _constant(np.flatnonzero(np.diff(ptr)), np.int64)
    order = tie_order(shape[1], seed)
    place_of = _constant(np.argsort(order), np.int32)
    bar, place = np.empty(len(idx), dtype=np.float32), np.empty(len(idx), dtype=np.int32)
    count = np.zeros(len(idx), dtype=np.int32)
    pairs = ptr, idx, other_ptr, other_idx, place_of, pool is not None

    factors = _factors(model, shape)
    if factors is not None and pool is None and _is_one_list(factors):
        values = _ranks_in_one_list(model.name, factors[2], ptr, idx, other_ptr, other_idx, place_of)
        return Ranks(rows, np.append(ptr[rows], len(idx)), values)
    with _Workers(model.name, threads, factors) as workers:
        if factors is not None:
            slabs = _Slabs.of(factors, model.name, order, memory_mb)
            workers.run(rank_counts.start_ranks_of_products, rows, *factors, *pairs, bar, place, count)
            for slab in slabs if pool is None else ():
                workers.run(rank_counts.count_products, rows, *slab, ptr, bar, place, count)
        else:
            for part, panel in _panels(model, rows, shape, memory_mb):
                workers.run(rank_counts.count_panel, rows[part], panel, shape[1], order, *pairs, bar, place, count)
        workers.run(rank_counts.finish_ranks, rows, ptr, count)
    return Ranks(rows, np.append(ptr[rows], len(idx)), count)


def _is_one_list(factors: tuple[F32, F32, F32]) -> bool:
    """Whether everybody gets the same list: user vectors of zeros leave the item bias alone."""
    return not factors[0].any()


def _ranks_in_one_list(
    name: str, bias: F32, ptr: I64, idx: I32, excluded_ptr: I64, excluded_idx: I32, place_of: I32
) -> I32:
    """Ranks where all users share one list: the position in it, less the user's excluded items that stand before."""
    if not np.isfinite(bias).all():
        raise ScoreError(f"{name} gave scores that are not finite; they cannot be ranked")
    n_users, n_items = len(ptr) - 1, len(place_of)
    position = np.empty(n_items, dtype=np.int64)
    position[np.lexsort((place_of, -bias))] = np.arange(n_items)
    users = np.arange(n_users, dtype=np.int64)
    before = np.sort(np.repeat(users, np.diff(excluded_ptr)) * n_items + position[excluded_idx])
    # Sorted by user, then by position: the ranks of each user come out ascending.
    wanted = np.sort(np.repeat(users, np.diff(ptr)) * n_items + position[idx])
    owner = wanted // n_items
    skipped = np.searchsorted(before, wanted) - excluded_ptr[owner]
    values: I32 = (wanted - owner * n_items + 1 - skipped).astype(np.int32)
    return values


def top_k(
    model: Scorer,
    user_idx: npt.ArrayLike,
    k: int,
    *,
    excluded: Csr | None = None,
    candidates: npt.ArrayLike | None = None,
    seed: int = 0,
    memory_mb: float = 256,
    threads: int | None = None,
) -> TopK:
    """The k best candidates of each user, in the order of a full sort under the tie rule.

    The candidates of user u are all items, or only `candidates` (item indices), without `excluded[u]`. A user
    with fewer than k of them has a list that ends in item -1, score -inf.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, not {k!r}")
    k = int(k)
    rows = np.atleast_1d(np.asarray(user_idx, dtype=np.int64))
    shape = _shape(model, rows, excluded)
    rows = _indices(rows, shape[0], "user")
    order = tie_order(shape[1], seed)
    if candidates is not None:
        wanted = np.zeros(shape[1], dtype=np.bool_)
        wanted[_indices(candidates, shape[1], "item")] = True
        order = _constant(order[wanted[order]], np.int32)
    # A heap for each user, its worst item at the root: what does not beat the root is passed over.
    score = np.full((len(rows), k), -np.inf, dtype=np.float32)
    place = np.full((len(rows), k), -1, dtype=np.int32)
    size = np.zeros(len(rows), dtype=np.int64)
    given = order, *_pairs(excluded, shape)

    factors = _factors(model, shape)
    with _Workers(model.name, threads if len(rows) > _FEW else 1, factors) as workers:
        if factors is not None and len(rows) > _FEW:
            for slab in _Slabs.of(factors, model.name, order, memory_mb):
                workers.run(top_lists.search_products, rows, *slab, *given, score.ravel(), place.ravel(), size, k)
        else:
            for part, panel in _panels(model, rows, shape, memory_mb, factors):
                heaps = score[part].ravel(), place[part].ravel(), size[part]
                workers.run(top_lists.search_panel, rows[part], panel, shape[1], *given, *heaps, k)
        workers.run(top_lists.sort_lists, rows, order, score.ravel(), place.ravel(), size, k)
    return TopK(place, score)


def top_k_of_scores(
    scores: F32,
    k: int,
    *,
    excluded: Csr | None = None,
    candidates: npt.ArrayLike | None = None,
    seed: int = 0,
    name: str = "the model",
) -> TopK:
    """The same for scores (n, n_items) that are already there; row i of `excluded` belongs to row i of them."""
    if scores.ndim != 2:
        raise ScoreError(f"scores must be a table of users and items, not of the shape {scores.shape}")
    users = np.arange(len(scores))
    return top_k(_Given(name, scores), users, k, excluded=excluded, candidates=candidates, seed=seed, threads=1)


# ---------------------------------------------------------------------- where scores come from


@dataclass(frozen=True)
class _Given:
    """Scores that are already there, as a Scorer."""

    name: str
    scores: F32

    def score(self, user_idx: I64, /) -> F32:
        return np.asarray(self.scores[user_idx], dtype=np.float32)

    def factors(self) -> Factors | None:
        return None


def _shape(model: Scorer, rows: I64, pairs: Csr | None) -> tuple[int, int]:
    """(n_users, n_items) by whoever knows it; a generic model does not say how many users it has."""
    if pairs is not None:
        return pairs.shape
    factors = model.factors()
    if factors is not None:
        return len(factors.users), len(factors.items)
    return int(rows.max(initial=-1)) + 1, np.asarray(model.score(rows[:1])).shape[1]


def _factors(model: Scorer, shape: tuple[int, int]) -> tuple[F32, F32, F32] | None:
    """users (n_users, dim), items (n_items, dim) and bias (n_items,) of a factor model, else None."""
    factors = model.factors()
    if factors is None:
        return None
    users, items = _constant(factors.users, np.float32), _constant(factors.items, np.float32)
    bias = np.zeros(shape[1], dtype=np.float32) if factors.item_bias is None else factors.item_bias
    bias = _constant(bias, np.float32)
    dim = users.shape[1] if users.ndim == 2 else -1
    if users.shape != (shape[0], dim) or items.shape != (shape[1], dim) or bias.shape != (shape[1],):
        raise ScoreError(
            f"{model.name} has factors of the shapes {users.shape}, {items.shape} and {bias.shape}; "
            f"{shape[0]:,} users and {shape[1]:,} items need (users, dim), (items, dim) and (items,)"
        )
    return users, items, bias


@dataclass(frozen=True)
class _Slabs:
    """The items of a factor model in the tie order, in slabs that fit into the memory allowed."""

    users: F32
    items: F32
    bias: F32
    order: I32
    tiles: int
    """Tiles to a slab."""
    check: bool
    """Whether a product may overflow, so that every score has to be looked at."""

    @classmethod
    def of(cls, factors: tuple[F32, F32, F32], name: str, order: I32, memory_mb: float) -> _Slabs:
        users, items, bias = factors
        peaks = []
        for what, table in (("user", users), ("item", items), ("item", bias)):
            peak = max(-float(table.min(initial=0)), float(table.max(initial=0)))
            if not np.isfinite(peak):
                bad = np.flatnonzero(~np.isfinite(table.reshape(len(table), -1)).all(axis=1))[0]
                raise ScoreError(f"{name} has a NaN or infinite factor for {what} index {bad}; {_DIVERGED}")
            peaks.append(peak)
        bound = users.shape[1] * peaks[0] * peaks[1] + peaks[2]
        tile_bytes = 4 * ranking_tiles.TILE * (ranking_tiles.padded(users.shape[1]) + 1)
        # While a slab is made, its rows are there three times: gathered, padded and transposed.
        tiles = int(memory_mb * 2**20 / 3 / tile_bytes)
        if tiles < 1:
            _refuse_memory(memory_mb, 3 * tile_bytes)
        return cls(users, items, bias, order, tiles, bound > 1e38)

    def __iter__(self) -> Iterator[tuple[F32, F32, F32, int, int, bool]]:
        """users, items (tiles, padded dim, TILE) flat, bias (tiles, TILE) flat, first place, n_items, check.

        The padding has a bias of -inf: it never stands before anything.
        """
        dim, step = self.users.shape[1], self.tiles * ranking_tiles.TILE
        for first in range(0, len(self.order), step):
            chosen = self.order[first : first + step]
            tiles = -(-len(chosen) // ranking_tiles.TILE)
            table = np.zeros((tiles * ranking_tiles.TILE, ranking_tiles.padded(dim)), dtype=np.float32)
            table[: len(chosen), :dim] = self.items[chosen]
            slab = table.reshape(tiles, ranking_tiles.TILE, -1).transpose(0, 2, 1).ravel()
            del table
            slab_bias = np.full(tiles * ranking_tiles.TILE, -np.inf, dtype=np.float32)
            slab_bias[: len(chosen)] = self.bias[chosen]
            yield self.users, slab, slab_bias, first, len(chosen), self.check


def _panels(
    model: Scorer,
    rows: I64,
    shape: tuple[int, int],
    memory_mb: float,
    factors: tuple[F32, F32, F32] | None = None,
) -> Iterator[tuple[slice, F32]]:
    """Parts of the rows with their scores (len(part), n_items), flat."""
    n_items = shape[1]
    step = max(1, min(ranking_tiles.PANEL, _PANEL_SCORES // max(n_items, 1)))
    if step * n_items * 4 > memory_mb * 2**20:
        _refuse_memory(memory_mb, step * n_items * 4)
    for at in range(0, len(rows), step):
        part = slice(at, min(at + step, len(rows)))
        if factors is not None:
            panel = np.empty((part.stop - at, n_items), dtype=np.float32)
            ranking_tiles.score_pairs(rows[part], *factors, panel)
        else:
            panel = np.asarray(model.score(rows[part]))
        if panel.shape != (part.stop - at, n_items):
            raise ScoreError(
                f"{model.name} gave scores of the shape {panel.shape} for {part.stop - at} users and "
                f"{n_items:,} items"
            )
        with np.errstate(over="ignore"):  # a float64 that is too large becomes inf, and is refused
            yield part, _constant(panel, np.float32).ravel()


class _Workers:
    """Runs a kernel over ranges of rows, in as many threads as asked for."""

    def __init__(self, name: str, threads: int | None, factors: tuple[F32, F32, F32] | None) -> None:
        if threads is not None and threads < 1:
            raise ConfigError(f"threads must be at least 1, not {threads!r}")
        self._name = name
        self._scratch = ranking_tiles.scratch_size(0 if factors is None else factors[0].shape[1])
        self._threads = threads or available_cpus()
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, kernel: Callable[..., int], rows: I64, *args: Any) -> None:
        """kernel(first, last, rows, scratch, *args) over all rows; see `purerec.engines.ranking_tiles`."""
        n = len(rows)
        if self._pool is None:
            parts = [(0, n)]
        else:
            step = max(1, -(-n // (8 * self._threads)), min(ranking_tiles.PANEL, -(-n // self._threads)))
            parts = [(a, min(a + step, n)) for a in range(0, n, step)]

        def work(part: tuple[int, int]) -> int:
            return kernel(*part, rows, np.empty(self._scratch, dtype=np.float32), *args)

        results = [work(part) for part in parts] if self._pool is None else list(self._pool.map(work, parts))
        bad = [row for row in results if row >= 0]
        if bad:
            user = rows[min(bad)]
            raise ScoreError(f"{self._name} gave a NaN or infinite score for user index {user}; {_DIVERGED}")


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _constant(array: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A contiguous, read-only view: one type for the compiler, whatever the caller's flags are."""
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def _pairs(pairs: Csr | None, shape: tuple[int, int]) -> tuple[I64, I32]:
    if pairs is None:
        return _constant(np.zeros(shape[0] + 1), np.int64), _constant(np.zeros(0), np.int32)
    if pairs.shape != shape:
        raise DataError(f"pairs of the shape {pairs.shape} do not belong to {shape[0]} users and {shape[1]} items")
    return _constant(pairs.indptr, np.int64), _constant(pairs.indices, np.int32)


def _indices(idx: npt.ArrayLike, n: int, what: str) -> I64:
    checked = _constant(np.atleast_1d(np.asarray(idx, dtype=np.int64)), np.int64)
    if checked.size and (checked.min() < 0 or checked.max() >= n):
        raise DataError(f"{what} indices must be from 0 to {n - 1}, not from {checked.min()} to {checked.max()}")
    return checked


def _refuse_memory(memory_mb: float, n_bytes: int) -> NoReturn:
    raise ConfigError(
        f"memory_mb={memory_mb:g} is too little for this many items; raise it to {n_bytes / 2**20:.2g} or more"
    )
