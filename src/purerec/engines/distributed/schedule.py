"""Assigns users to shards, items to blocks, and blocks to shards in each turn.

There are as many blocks as shards. In turn t of an epoch, shard p has block p + t, modulo their number. The number of
shards is a property of the fit; the number of processes that share them is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from purerec.data.pairs import Csr
from purerec.types import I64


@dataclass(frozen=True)
class Schedule:
    """The schedule of one fit."""

    n_shards: int
    n_workers: int
    item_order: I64
    """(n_items,) the items, block by block"""
    starts: tuple[int, ...]
    """Where each block starts, and the number of items"""

    def block(self, number: int) -> range:
        return range(self.starts[number], self.starts[number + 1])

    def items(self, number: int) -> I64:
        """The items of a block."""
        return self.item_order[self.starts[number] : self.starts[number + 1]]

    def block_at(self, shard: int, turn: int) -> int:
        return (shard + turn) % self.n_shards

    def worker_of(self, shard: int) -> int:
        """Neighbouring shards belong to the same worker, so that most blocks stay where they are."""
        return int(worker_of(shard, self.n_shards, self.n_workers))

    def shards_of(self, worker: int) -> list[int]:
        return [shard for shard in range(self.n_shards) if self.worker_of(shard) == worker]

    @property
    def largest(self) -> int:
        """The number of items in the largest block."""
        return int(np.diff(self.starts).max())


def worker_of(shard: int | I64, n_shards: int, n_workers: int) -> Any:
    """The worker of a shard, or of each of several."""
    return shard * n_workers // n_shards


def shard_of_users(n_users: int, n_shards: int) -> I64:
    """(n_users,) the shard of each user, by a hash of the index: about the same number of users in each."""
    mixed = np.arange(n_users, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(33)) % np.uint64(n_shards)).astype(np.int64)


def deal_items(popularity: I64, n_blocks: int) -> tuple[I64, tuple[int, ...]]:
    """Deal items to blocks by popularity, back and forth: each has as many items, and about as many positives."""
    by_popularity = np.argsort(-popularity, kind="stable")
    place = np.arange(by_popularity.size)
    row, column = place // n_blocks, place % n_blocks
    block = np.where(row % 2 == 0, column, n_blocks - 1 - column)
    order = by_popularity[np.argsort(block, kind="stable")]
    return order, (0, *np.cumsum(np.bincount(block, minlength=n_blocks)).tolist())


def make_schedule(positives: Csr, n_shards: int, n_workers: int) -> Schedule:
    order, starts = deal_items(positives.item_counts, n_shards)
    return Schedule(n_shards, n_workers, order, starts)
