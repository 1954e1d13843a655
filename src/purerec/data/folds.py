"""Validation folds: parts of a train part on which settings may be chosen, held out like the test part.

A fold is a `Split` of the train part alone, so code that uses folds cannot see the test part. Folds hold out
different rows as long as there are any: settings chosen on some folds can be checked on others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from purerec.data.interactions import Interactions
from purerec.data.made import Made, SplitParameters
from purerec.data.splits import On, Split, split
from purerec.errors import SplitError
from purerec.rng import named_rng
from purerec.types import I64


def folds(train: Interactions, made: Made, n: int, *, seed: int = 0) -> list[Split]:
    """`n` folds of a train part, held out like the test part (`made` is `Split.made`).

    ratio, official, given    a random share of the rows
    leave_n_out               n random rows of each user with more than n
    temporal                  the latest rows; then the latest of what is left; and so on, back in time

    Rows that have been held out least often are picked first.
    """
    method, parameters = made.method or "ratio", made.parameters
    log = train.deduplicate()
    if method == "temporal":
        return _back_in_time(log, parameters, n)
    eligible = log.is_positive if parameters.on == "positives" else np.ones(len(log), dtype=np.bool_)
    rows = np.flatnonzero(eligible)
    times_held = np.zeros(len(log), dtype=np.int64)
    found = []
    for number in range(n):
        draw = named_rng(seed, f"fold {number}").random(len(rows))
        if method == "leave_n_out":
            assert parameters.n is not None, "leave_n_out has an n"
            held = _per_user(log, rows, draw, times_held, parameters.n)
        else:
            share = 0.2 if parameters.test is None else parameters.test
            held = rows[np.lexsort((draw, times_held[rows]))[: round(share * len(rows))]]
        if not log.is_positive[held].any() or len(held) == len(log):
            raise SplitError(
                f"the train part of '{train.name}' ({len(log):,} rows) is too small to hold out validation rows "
                f"the way the test part was ({method}); hold out less for the test part"
            )
        times_held[held] += 1
        mask = np.zeros(len(log), dtype=np.bool_)
        mask[held] = True
        told = Made(method=method, seed=seed, parameters=parameters.model_copy(update={"fold": number}), of="train")
        found.append(Split(log.subset(~mask), None, log.subset(mask), told, whole=log.pairs))
    return found


def thinned(log: Interactions, most: int | I64, rng: np.random.Generator) -> Interactions:
    """At most this many random positives of each user, and nothing else, to simulate sparser data.

    `most` may differ between users: (n_users,).
    """
    rows = rng.permutation(np.flatnonzero(log.is_positive))
    rows = rows[np.argsort(log.user_idx[rows], kind="stable")]
    user = log.user_idx[rows]
    place = np.arange(len(rows)) - np.searchsorted(user, user)
    return log.subset(np.sort(rows[place < np.broadcast_to(most, log.n_users)[user]]))


def _per_user(log: Interactions, rows: I64, draw: npt.NDArray[np.float64], times_held: I64, n: int) -> I64:
    user = log.user_idx[rows]
    by_user = np.lexsort((draw, times_held[rows], user))
    counts = np.bincount(user, minlength=log.n_users)
    position = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    held: I64 = rows[by_user[(position < n) & (counts[user[by_user]] > n)]]
    return held


def _back_in_time(log: Interactions, parameters: SplitParameters, n: int) -> list[Split]:
    """The time `at` does not apply to the train part, so a fifth is held out instead, as in `split`."""
    how = parameters.model_dump(include={"n", "test"}, exclude_none=True)
    on: On = "positives" if parameters.on == "positives" else "all"
    found: list[Split] = []
    for number in range(n):
        try:
            part = split(log, "temporal", on=on, valid=False, **how)
        except SplitError as error:
            raise SplitError(
                f"the train part reaches back far enough for {number} of {n} folds in time ({error})"
            ) from None
        found.append(part)
        log = part.train
    return found
