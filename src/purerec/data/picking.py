"""Which rows of a log a split holds out."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from purerec.data.interactions import Interactions
from purerec.errors import SplitError
from purerec.types import I64, Mask

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
PUBLISHED_PARTS = {"gowalla": (810_128, 217_242)}
"""Data sets published with a test part: rows of the train part, and of the test part that follows it"""


def published_test_rows(data: Interactions) -> int:
    """How many of the last rows form the published test part."""
    train, test = PUBLISHED_PARTS.get(data.name, (0, 0))
    return test if len(data) == train + test else 0


class Picker:
    """Picks the rows to hold out: for the test part, then from what is left, for the validation part."""

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
            # The rows with the n smallest of as many random numbers: a tenth of the cost of shuffling them.
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
