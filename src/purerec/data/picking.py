"""Which rows of a log a split holds out, and which of a pair's rows count in a temporal split."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from purerec.data.interactions import Interactions
from purerec.data.pairs import last_of_each_pair
from purerec.errors import SplitError
from purerec.types import I64, Mask

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NEVER = np.iinfo(np.int64).max
WITH_OWN_SPLIT = ("ml-100k", "ml-1m", "yelp", "gowalla")
"""Data sets with their own split, and in some cases their own metrics"""
PUBLISHED_PARTS = {"gowalla": (810_128, 217_242)}
"""Data sets published with a test part: rows of the train part, and of the test part that follows it"""


def published_test_rows(data: Interactions) -> int:
    """The number of last rows that form the published test part."""
    train, test = PUBLISHED_PARTS.get(data.name, (0, 0))
    return test if len(data) == train + test else 0


class Picker:
    """Picks the rows to hold out: for the test part, then, from the rest, for the validation part."""

    def __init__(
        self,
        log: Interactions,
        how: str,
        *,
        fold: int | None,
        test: float | None,
        n: int | None,
        at: str | float | None,
    ) -> None:
        self.log, self.how, self.fold, self.n = log, how, fold, n
        self.test_share = test
        if test is None and (how == "ratio" or (how == "temporal" and n is None and at is None)):
            self.test_share = 0.2
        self.at = None if at is None else _time_point(at, log)
        if how == "temporal" and log.timestamp is None:
            raise SplitError(
                f"the temporal split needs timestamps, and none were read from '{log.name}'",
                "name their column, as in read(path, timestamp='bought at'), or use ratio or leave_n_out",
                command="name their column with --timestamp, or use --split ratio or leave_n_out",
            )

    def pick(self, eligible: Mask, rng: np.random.Generator, *, of_train: bool) -> Mask:
        rows = np.flatnonzero(eligible)
        if not len(rows):
            return eligible
        if self.how == "official" and not of_train:
            assert self.fold is not None
            return _mask(len(eligible), np.arange(20_000 * (self.fold - 1), 20_000 * self.fold))
        if self.how == "given" and not of_train:
            n_test = published_test_rows(self.log)
            return _mask(len(eligible), np.arange(len(eligible) - n_test, len(eligible)))
        if self.how in ("official", "given", "ratio"):
            share = self.test_share if self.test_share is not None else 0.2
            n = round(share * len(rows))
            # The rows with the n smallest random numbers, one per row: a tenth of the cost of shuffling.
            held = rows[np.argpartition(rng.random(len(rows)), n - 1)[:n]] if n else rows[:0]
        elif self.how == "leave_n_out":
            held = self._per_user(rows, rng.permutation(len(rows)))
        elif self.n is not None:
            assert self.log.timestamp is not None
            # Equal times are ordered by row: the later row is the later interaction.
            held = self._per_user(rows, np.argsort(np.argsort(-self.log.timestamp[rows][::-1], kind="stable"))[::-1])
        else:
            held = self._after(rows, of_train)
        return _mask(len(eligible), held)

    def _per_user(self, rows: I64, order: I64) -> I64:
        """The first n rows of each user in the given order; all rows of a user with n or fewer stay."""
        assert self.n is not None
        user = self.log.user_idx[rows]
        by_user = np.lexsort((order, user))
        counts = np.bincount(user, minlength=self.log.n_users)
        position = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        taken = (position < self.n) & (counts[user[by_user]] > self.n)
        return rows[by_user[taken]]

    def _after(self, rows: I64, of_train: bool) -> I64:
        assert self.log.timestamp is not None
        times = self.log.timestamp[rows]
        if self.at is not None and not of_train:
            point = self.at
        else:
            # By value, not by row, so that equal times never end up on both sides.
            share = self.test_share if self.test_share is not None else 0.2
            point = int(np.quantile(times, 1 - share, method="higher"))
        return rows[times >= point]


@dataclass(frozen=True)
class FirstSeen:
    """The first row of each pair, by time and then by row: in a temporal split, a pair belongs where this row is.

    With its last row, a pair that was known before the cut would be missing from train and be in test as if it were
    new.
    """

    data: Interactions
    """All rows; with timestamps."""
    rows: I64
    """(n_pairs,) the first row of each pair, ascending"""
    log: Interactions
    """These rows"""

    @classmethod
    def of(cls, data: Interactions) -> FirstSeen:
        assert data.timestamp is not None
        if len(data.pairs) == len(data):
            return cls(data, np.arange(len(data)), data)
        backwards = slice(None, None, -1)
        first = last_of_each_pair(
            data.user_idx[backwards], data.item_idx[backwards], data.shape, -data.timestamp[backwards]
        )
        rows = np.flatnonzero(first[backwards])
        return cls(data, rows, data.subset(rows).cache(pairs=data.pairs))

    def as_known(self, parts: list[Mask], *, at: int | None, by_user: bool) -> Interactions:
        """Each pair with its last row before the next part starts: later rows were not known then.

        `parts` are masks of the pairs, in order of time. The last one starts at `at`, if that is given.
        `by_user`: each user's parts start at different times.
        """
        time, ends = self.data.timestamp, np.full(len(self.rows), _NEVER)
        assert time is not None
        for n, part in enumerate(parts[:-1]):
            later = np.logical_or.reduce(parts[n + 1 :])
            begins = np.full(self.log.n_users, _NEVER)
            np.minimum.at(begins, self.log.user_idx[later], time[self.rows[later]])
            if not by_user:
                begins[:] = min(begins.min(), _NEVER if at is None else at)
            ends[part] = begins[self.log.user_idx[part]]
        pair = self._pair_of_row()
        known = np.flatnonzero(time < ends[pair])
        by_time = known[np.argsort(time[known], kind="stable")]
        chosen = self.rows.copy()
        chosen[pair[by_time]] = by_time  # the last of several rows stays
        rating = self.data.rating
        return replace(self.log, rating=None if rating is None else rating[chosen], timestamp=time[chosen])

    def _pair_of_row(self) -> I64:
        n_items = np.int64(self.data.n_items)
        numbers = self.data.user_idx * n_items + self.data.item_idx
        order = np.argsort(numbers)
        # Rows of a pair are neighbours in this order. A binary search for each row would take ten times as long.
        group = np.empty(len(numbers), dtype=np.int64)
        group[order] = np.append(0, np.cumsum(np.diff(numbers[order]) != 0))
        place = np.empty(len(self.rows), dtype=np.int64)
        place[group[self.rows]] = np.arange(len(self.rows))
        found: I64 = place[group]
        return found


def _mask(n: int, rows: I64) -> Mask:
    mask = np.zeros(n, dtype=np.bool_)
    mask[rows] = True
    return mask


def _time_point(at: str | float, log: Interactions) -> int:
    try:
        if isinstance(at, str) and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", at):
            moment = datetime.fromisoformat(at)
            seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
        elif isinstance(at, bool):
            raise ValueError
        else:
            seconds = float(at)
        return round(seconds * UNITS_PER_SECOND[log.time_unit])
    except (ValueError, TypeError, OverflowError):
        raise SplitError(f"at={at!r} is neither a date such as 2024-05-01 nor seconds since 1970") from None
