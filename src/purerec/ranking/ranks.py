"""Scores -> ranks and top-k lists, with exclusions and one tie rule.

The tie rule: equal scores are ordered by a fixed permutation of the items, drawn from the evaluation seed. A
scorer that gives every item the same score is therefore ranked like a random list, never like a perfect one,
and the order is the same for every user, model, block size and number of threads.

All kernels go through the items in the order of that permutation (an item's position in it is its `place`). A later
item never overtakes an earlier one with the same score, so the rule costs nothing. A positive's rank is found by
counting the candidates before it; only a user's positives are sorted.

Scores of factor models are chains of fused multiply-adds in the order of the dimensions, each correctly
rounded: vectorised or not, and with any block size, they have the same bits. Other models score panels of users
whose size depends only on the number of items, since a matrix product may round differently for a different number of
rows. Scores that float32 does not hold, such as float64, are ranked as float64 and reported as float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from purerec.data.vocabulary import indices_of, whole_numbers
from purerec.errors import ConfigError, ScoreError
from purerec.jit.arrays import constant
from purerec.ranking import rank_counts, top_lists
from purerec.ranking.scorers import (
    DIVERGED,
    Scorer,
    Slabs,
    Workers,
    factors_of,
    pairs_of,
    panels,
    precision_of,
    shape_of,
)
from purerec.rng import named_rng
from purerec.types import F32, I32, I64, Array

if TYPE_CHECKING:
    from purerec.data.pairs import Csr


_FEW = 8
"""For up to this many users (a server request), lists are computed without a transposed copy of the item factors."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """1-based ranks of positives: those of `user_idx[i]` are `values[indptr[i]:indptr[i + 1]]`, ascending."""

    user_idx: I64
    """(n,) the users with positives, ascending"""
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


@lru_cache(maxsize=8)
def tie_order(n_items: int, seed: int) -> I32:
    """(n_items,) the items in the order in which equal scores are ranked."""
    return constant(named_rng(seed, "evaluation").permutation(n_items), np.int32)


@lru_cache(maxsize=8)
def _tie_place(n_items: int, seed: int) -> I32:
    """(n_items,) the position of each item in that order."""
    return constant(np.argsort(tie_order(n_items, seed)), np.int32)


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
    """The rank of every positive among its user's candidates.

    The candidates of user u are all items except `excluded[u]`; or, if a pool is given, `pool[u]` (which must not
    contain positives) and the positives themselves. An excluded positive is not a candidate and is dropped, as are
    users left without positives. Scores take at most `memory_mb`; neither that nor the number of threads (None: one
    per CPU) changes the result.
    """
    if pool is not None and excluded is not None:
        raise ConfigError("give either excluded or pool: a pool already says what the candidates are")
    shape = positives.shape
    ptr, idx = pairs_of(positives, shape)
    other_ptr, other_idx = pairs_of(excluded if pool is None else pool, shape)
    if excluded is not None:
        kept_ptr, kept_idx = np.empty(len(ptr), dtype=np.int64), np.empty(len(idx), dtype=np.int32)
        n_kept = rank_counts.difference(ptr, idx, other_ptr, other_idx, kept_ptr, kept_idx)
        ptr, idx = constant(kept_ptr, np.int64), constant(kept_idx[:n_kept], np.int32)
    rows = constant(np.flatnonzero(np.diff(ptr)), np.int64)
    order = tie_order(shape[1], seed)
    place_of = _tie_place(shape[1], seed)
    bar: Array = np.empty(len(idx), dtype=np.float32)
    place = np.empty(len(idx), dtype=np.int32)
    count = np.zeros(len(idx), dtype=np.int32)
    pairs = ptr, idx, other_ptr, other_idx, place_of, pool is not None

    factors = factors_of(model, shape)
    if factors is not None and pool is None and _is_one_list(factors):
        values = _ranks_in_one_list(model.name, factors[2], ptr, idx, other_ptr, other_idx, place_of)
        return Ranks(rows, np.append(ptr[rows], len(idx)), values)
    with Workers(model.name, threads, factors) as workers:
        if factors is not None:
            slabs = Slabs.of(factors, model.name, order, memory_mb)
            workers.run(rank_counts.start_ranks_of_products, rows, *factors, *pairs, bar, place, count)
            for slab in slabs if pool is None else ():
                workers.run(rank_counts.count_products, rows, *slab, ptr, bar, place, count)
        else:
            for part, panel in panels(model, rows, shape, memory_mb):
                bar = bar if bar.dtype == panel.dtype else np.empty(len(idx), dtype=panel.dtype)
                given = panel, shape[1], order, *pairs, bar, place, count
                workers.run(rank_counts.count_panel, rows[part], *given, precision=panel.dtype)
        workers.run(rank_counts.finish_ranks, rows, ptr, count)
    return Ranks(rows, np.append(ptr[rows], len(idx)), count)


def _is_one_list(factors: tuple[F32, F32, F32]) -> bool:
    """Return whether everybody gets the same list: with user vectors of zeros, only the item bias counts."""
    return not factors[0].any()


def _ranks_in_one_list(
    name: str, bias: F32, ptr: I64, idx: I32, excluded_ptr: I64, excluded_idx: I32, place_of: I32
) -> I32:
    """Ranks if all users share one list: the position in it, minus the number of excluded items before it."""
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

    The candidates of user u are all items, or only `candidates` (item indices), except `excluded[u]`. The list of a
    user with fewer than k of them ends in item -1, score -inf.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, not {k!r}")
    k = int(k)
    rows = whole_numbers(user_idx, "user")
    shape = shape_of(model, rows, excluded)
    rows = constant(indices_of(rows, shape[0], "user"), np.int64)
    order = tie_order(shape[1], seed)
    if candidates is not None:
        wanted = np.zeros(shape[1], dtype=np.bool_)
        wanted[indices_of(candidates, shape[1], "item")] = True
        order = constant(order[wanted[order]], np.int32)
    # A heap for each user, with the worst item at the root: items that do not beat the root are skipped.
    score: Array = np.full((len(rows), k), -np.inf, dtype=np.float32)
    place = np.full((len(rows), k), -1, dtype=np.int32)
    size = np.zeros(len(rows), dtype=np.int64)
    given = order, *pairs_of(excluded, shape)

    factors = factors_of(model, shape)
    with Workers(model.name, threads if len(rows) > _FEW else 1, factors) as workers:
        if factors is not None and len(rows) > _FEW:
            for slab in Slabs.of(factors, model.name, order, memory_mb):
                workers.run(top_lists.search_products, rows, *slab, *given, score.ravel(), place.ravel(), size, k)
        else:
            for part, panel in panels(model, rows, shape, memory_mb, factors):
                score = score.astype(panel.dtype, copy=False)
                heaps = score[part].ravel(), place[part].ravel(), size[part]
                searched = panel, shape[1], *given, *heaps, k
                workers.run(top_lists.search_panel, rows[part], *searched, precision=panel.dtype)
        workers.run(top_lists.sort_lists, rows, order, score.ravel(), place.ravel(), size, k)
    return TopK(place, score.astype(np.float32, copy=False))


def top_k_of_row(
    scores: Array,
    k: int,
    *,
    excluded: npt.ArrayLike = (),
    candidates: npt.ArrayLike | None = None,
    seed: int = 0,
    name: str = "the model",
) -> TopK:
    """(1, k) the same for one person, given their scores (n_items,), without the items of `excluded`."""
    if scores.ndim != 1:
        raise ScoreError(f"scores must be those of one person, not a table of the shape {scores.shape}")
    n = len(scores)
    if scores.dtype != np.float32:
        scores = scores.astype(precision_of(scores))
    with np.errstate(over="ignore"):  # a float64 that is too large becomes inf, which is an error
        if not np.isfinite(scores.astype(np.float32, copy=False)).all():
            raise ScoreError(f"{name} gave a NaN or infinite score; {DIVERGED}")
    values = scores.copy() if candidates is None else np.full(n, -np.inf, dtype=scores.dtype)
    if candidates is not None:
        wanted = indices_of(candidates, n, "item")
        values[wanted] = scores[wanted]
    values[indices_of(excluded, n, "item")] = -np.inf
    # At least k items are no worse than the k-th best block maximum, and few others are.
    width = max(1, n // (8 * k))
    blocks = values[: n - n % width].reshape(-1, width).max(axis=1)
    bar = np.partition(blocks, -k)[-k] if k < len(blocks) else -np.inf
    place = _tie_place(n, seed)
    above = np.flatnonzero(values > bar)
    tied = np.flatnonzero(values == bar) if bar > -np.inf else above[:0]
    if len(tied) > k:
        tied = tied[np.argpartition(place[tied], k)[:k]]
    found = np.concatenate([above, tied])
    best = found[np.lexsort((place[found], -values[found]))][:k]
    listed = TopK(np.full((1, k), -1, dtype=np.int32), np.full((1, k), -np.inf, dtype=np.float32))
    listed.items[0, : len(best)], listed.scores[0, : len(best)] = best, scores[best]
    return listed
