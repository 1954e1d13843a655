"""The positives of some parts of a data set, which only one of several workers reads.

A worker keeps them. The first worker also has everybody's positives, which the model needs, and the ids; ratings and
times stay with the worker that has read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.large.dataset import Dataset, sorted_ids
from purerec.data.large.partitioning import PartNumbers
from purerec.data.pairs import Csr
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError
from purerec.types import I32, I64, Mask


@dataclass(frozen=True)
class PartPositives:
    """The positives of the users of some parts."""

    parts: PartNumbers
    """(n_users,) the part of each user; users are in the order of their ids"""
    positives: Csr
    """Items are numbered in the order of their ids, among all items"""
    ratings: tuple[float, float]
    """The lowest and the highest; infinite if there are none"""


@dataclass(frozen=True)
class Ids:
    """The ids of a whole data set in order, the same for every reader."""

    users: pl.Series
    parts: PartNumbers
    """(n_users,) the part of each user"""
    items: pl.Series
    item_place: I32
    """(n_items,) the position of the item with this number in the data set"""
    labels: pl.Series | None


def read_ids(data: Dataset) -> Ids:
    users, user_place = sorted_ids(data.users())
    table = data.items()
    items, item_place = sorted_ids(table["id"])
    labels = data.titles(table, item_place) if data.facts.has_titles else None
    return Ids(users, _placed(data, range(data.n_parts), user_place), items, item_place, labels)


def read_share(data: Dataset, parts: Sequence[int], item_place: I32, positive_rating: float | None) -> PartPositives:
    """Read these parts, one after another."""
    if positive_rating is not None and not data.facts.has_rating:
        raise DataError(
            f"{data.place}: has no ratings, so none can count as positive",
            "leave positive_rating out",
            command="leave --min-rating out",
        )
    anybody = any(data.facts.part_users[part] for part in parts)
    places = sorted_ids(data.users(parts))[1] if anybody else np.zeros(0, np.int32)
    first, users, items = 0, [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    lowest, highest = np.inf, -np.inf
    for part in parts:
        rows = data.rows(part)
        if data.facts.has_rating and len(rows):
            rating = rows["rating"].to_numpy()
            lowest, highest = min(lowest, float(rating.min())), max(highest, float(rating.max()))
            if positive_rating is not None:
                rows = rows.filter(rating >= np.float32(positive_rating))
        users.append(places[rows["user"].to_numpy() - data.first_user(part) + first])
        items.append(item_place[rows["item"].to_numpy()])
        first += data.facts.part_users[part]
    shape = len(places), data.n_items
    positives = Csr.of(np.concatenate(users), np.concatenate(items), shape)
    return PartPositives(_placed(data, parts, places), positives, (lowest, highest))


def log_of(data: Dataset, ids: Ids, positives: Csr, positive_rating: float | None) -> Interactions:
    """A log of positives only, each once: enough to fit a model on."""
    log = Interactions(
        Vocabulary(ids.users, "user"),
        Vocabulary(ids.items, "item"),
        positives.users,
        positives.indices,
        item_labels=ids.labels,
        name=data.facts.name,
    )
    # The rows that a log's fingerprint is computed from are not here.
    fingerprint = hashlib.sha256(f"{data.facts.fingerprint} {positive_rating}".encode()).hexdigest()
    return log.cache(pairs=positives, positives=positives, fingerprint=fingerprint)


def joined(shares: Sequence[tuple[I64, I64, I32]], shape: tuple[int, int]) -> Csr:
    """All positives, from shares: the users of each, the number of positives per user, and the items."""
    counts = np.zeros(shape[0], np.int64)
    for users, own, _ in shares:
        counts[users] = own
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.empty(indptr[-1], np.int32)
    for users, own, items in shares:
        starts = np.cumsum(own) - own
        indices[np.arange(len(items)) + np.repeat(indptr[users] - starts, own)] = items
    return Csr(indptr, indices, shape)


def left_out(whole: Csr, some: Csr) -> tuple[I32, I32] | None:
    """The users and items of the pairs that `some` lacks; None if it has pairs that `whole` lacks."""
    if whole.shape != some.shape or (some.counts > whole.counts).any():
        return None
    fewer = some.counts < whole.counts
    if not np.array_equal(whole.indices[~fewer[whole.users]], some.indices[~fewer[some.users]]):
        return None
    missing = np.setdiff1d(_keys(whole, fewer), _keys(some, fewer), assume_unique=True)
    if len(missing) != len(whole) - len(some):
        return None
    return (missing // whole.shape[1]).astype(np.int32), (missing % whole.shape[1]).astype(np.int32)


def _keys(pairs: Csr, users: Mask) -> I64:
    """A number for each pair of these users."""
    at = users[pairs.users]
    return pairs.users[at].astype(np.int64) * pairs.shape[1] + pairs.indices[at]


def _placed(data: Dataset, parts: Sequence[int], places: I32) -> PartNumbers:
    """The part of each user, in the order of their ids."""
    found = np.empty(len(places), np.uint16)
    found[places] = np.repeat(np.asarray(parts, np.uint16), [data.facts.part_users[part] for part in parts])
    return found
