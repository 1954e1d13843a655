"""A data set in parts, read by all processes: each reads only the parts of its own shards.

The others keep the positives of their users, and send the first a copy: a model's folder holds everybody's, and
whatever is derived from the data (the default L2, the history's weights between items) needs all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from purerec.data.interactions import Interactions
from purerec.data.large.dataset import Dataset
from purerec.data.large.partitioning import PartNumbers
from purerec.data.large.places import Place
from purerec.data.large.shares import PartPositives, joined, left_out, log_of, read_ids, read_share
from purerec.data.pairs import Csr
from purerec.engines.distributed.group import Group
from purerec.engines.distributed.schedule import worker_of
from purerec.errors import ReadError
from purerec.types import I32, I64

_USERS, _SIZES, _COUNTS, _ITEMS = range(4)
"""Tags of the arrays sent"""


@dataclass(frozen=True)
class Held:
    """The part of a data set that a process keeps."""

    users: I64
    """(n_own,) the numbers of its users among all, ascending"""
    share: PartPositives
    n_parts: int

    def of_shard(self, number: int, n_shards: int) -> tuple[I64, Csr]:
        """The users of a shard, and their positives."""
        own = np.flatnonzero(shard_of_parts(self.share.parts, self.n_parts, n_shards) == number)
        pairs = self.share.positives
        at = np.isin(pairs.users, own) if len(own) < len(self.users) else np.ones(len(pairs), bool)
        shape = len(own), pairs.shape[1]
        return self.users[own], Csr.of(np.searchsorted(own, pairs.users[at]), pairs.indices[at], shape)


@dataclass(frozen=True)
class ReadTogether:
    """In the first process: a data set that all have read."""

    parts: PartNumbers
    """(n_users,) the part of each user"""
    n_parts: int
    positives: Csr
    own: Held
    ratings: tuple[float, float]
    rows: int
    positive_rating: float | None

    def shard_of_users(self, n_shards: int) -> I64:
        return shard_of_parts(self.parts, self.n_parts, n_shards)

    def left_out(self, positives: Csr) -> tuple[I32, I32] | None:
        """The data set's pairs that are not among these positives; None if the data set lacks some of these."""
        return left_out(self.positives, positives)


def shard_of_parts(parts: PartNumbers, n_parts: int, n_shards: int) -> I64:
    """Neighbouring parts are in the same shard."""
    return parts.astype(np.int64) * n_shards // n_parts


def lead_reading(group: Group, data: Dataset, positive_rating: float | None) -> tuple[Interactions, ReadTogether]:
    """In the first process: the log, of which the other processes have read their parts."""
    ids, n_shards = read_ids(data), group.shards or group.size
    told = {"data": data.place.address, "fingerprint": data.facts.fingerprint}
    group.tell({"do": "read", **told, "positive_rating": positive_rating, "shards": n_shards})
    with group.together():  # the others open it
        pass
    worker = worker_of(shard_of_parts(ids.parts, data.n_parts, n_shards), n_shards, group.size)
    users = [np.flatnonzero(worker == rank) for rank in range(group.size)]
    group.spread(ids.item_place, 0)
    for rank in range(1, group.size):
        group.exchange([(rank, _USERS, np.array([len(users[rank])]))], [])
        group.exchange([(rank, _USERS, users[rank])], [])
    own = _read(group, data, users[0], ids.item_place, positive_rating, n_shards)
    shares, ratings = [(users[0], own.share.positives.counts, own.share.positives.indices)], [own.share.ratings]
    for rank in range(1, group.size):
        sizes, counts = np.zeros(3), np.zeros(len(users[rank]), np.int64)
        group.exchange([], [(rank, _SIZES, sizes)])
        items = np.zeros(int(sizes[0]), np.int32)
        group.exchange([], [(rank, _COUNTS, counts), (rank, _ITEMS, items)])
        shares.append((users[rank], counts, items))
        ratings.append((float(sizes[1]), float(sizes[2])))
    positives = joined(shares, (data.n_users, data.n_items))
    lowest, highest = zip(*ratings, strict=True)
    span = min(lowest), max(highest)
    read = ReadTogether(ids.parts, data.n_parts, positives, own, span, data.facts.rows, positive_rating)
    return log_of(data, ids, positives, positive_rating), read


def follow_reading(group: Group, told: dict[str, Any]) -> Held:
    """In the other processes."""
    size = np.zeros(1, np.int64)
    with group.together():
        data = Dataset.open(Place(told["data"]))
        if data is None or data.facts.fingerprint != told["fingerprint"]:
            raise ReadError(f"{told['data']}: is not the data set that worker 0 reads; use a folder that all see")
    item_place = np.zeros(data.n_items, np.int32)
    group.spread(item_place, 0)
    group.exchange([], [(0, _USERS, size)])
    users = np.zeros(int(size[0]), np.int64)
    group.exchange([], [(0, _USERS, users)])
    held = _read(group, data, users, item_place, told["positive_rating"], told["shards"])
    positives = held.share.positives
    group.exchange([(0, _SIZES, np.array([len(positives), *held.share.ratings]))], [])
    sent = np.array(positives.counts), np.array(positives.indices)  # torch does not accept read-only arrays
    group.exchange([(0, _COUNTS, sent[0]), (0, _ITEMS, sent[1])], [])
    return held


def _read(
    group: Group, data: Dataset, users: I64, item_place: I32, positive_rating: float | None, n_shards: int
) -> Held:
    parts = np.arange(data.n_parts, dtype=np.uint16)
    worker = worker_of(shard_of_parts(parts, data.n_parts, n_shards), n_shards, group.size)
    with group.together():
        own = np.flatnonzero(worker == group.rank).tolist()
        share = read_share(data, own, item_place, positive_rating)
    return Held(users, share, data.n_parts)
