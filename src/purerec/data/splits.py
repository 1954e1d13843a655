"""Splits: interactions to learn from (train), to choose settings on (validation) and to evaluate on (test).

Every method picks test rows from the log; the validation part is then taken from the rest in the same way. The three
parts share vocabularies and have no pair in common, which is checked.
"""

from __future__ import annotations

import re
from dataclasses import InitVar, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np

from purerec.data.cold import Cold
from purerec.data.display.html import split_html
from purerec.data.interactions import Interactions
from purerec.data.made import Made, Method, SplitParameters
from purerec.data.pairs import Csr
from purerec.data.picking import PUBLISHED_PARTS, UNITS_PER_SECOND, FirstSeen, Picker, published_test_rows
from purerec.data.sharing import join
from purerec.errors import SplitError, counted
from purerec.rng import named_rng

On = Literal["all", "positives"]


@dataclass(frozen=True, eq=False)
class Split:
    """Train, validation and test parts of one log, and how they were `made`."""

    train: Interactions
    """To fit on while settings are chosen."""
    valid: Interactions | None
    """To choose settings on; `full_train` is train and validation together."""
    test: Interactions
    """To evaluate on, once."""
    made: Made = field(default_factory=Made)
    whole: InitVar[Csr | None] = None
    """The pairs of the log that the parts cover, if already known"""
    is_warm: bool = False
    """True if users without a train positive were left out of the test part"""

    def __post_init__(self, whole: Csr | None) -> None:
        parts = [part for part in (self.train, self.valid, self.test) if part is not None]
        for part in parts[1:]:
            if part.users != self.train.users or part.items != self.train.items:
                raise SplitError("the parts of a split must share their user and item vocabularies")
        if whole is None:
            whole = Csr.of(
                np.concatenate([part.user_idx for part in parts]),
                np.concatenate([part.item_idx for part in parts]),
                self.train.shape,
            )
        # Parts that cover a log share no pairs if together they have as many distinct pairs as the log.
        shared = sum(len(part.pairs) for part in parts) - len(whole)
        if shared:
            raise SplitError(
                f"{counted(shared, 'pair is', 'pairs are')} in more than one part; deduplicate() the data before "
                "splitting"
            )

    @cached_property
    def full_train(self) -> Interactions:
        """Train and validation together: what a final model is fitted on, once its settings are fixed."""
        if self.valid is None:
            return self.train
        return join(self.train, self.valid)

    @property
    def label(self) -> str:
        """A short name that identifies the split: 'u1', 'ratio test=0.2 seed=0'."""
        return self._method_label + (" warm" if self.is_warm else "")

    @property
    def _method_label(self) -> str:
        if self.made.method == "official":
            return f"u{self.made.parameters.fold}"
        if self.made.method == "given":
            return "given"
        settings = {**self.made.parameters.given(), "seed": self.made.seed}
        return " ".join([self.made.method or "given", *(f"{k}={v}" for k, v in settings.items())])

    @property
    def method(self) -> str:
        """How the split was made: 'ratio (test 0.2), seed 0'."""
        settings = ", ".join(f"{k} {v}" for k, v in self.made.parameters.given().items())
        method = self.made.method or "given"
        seed = "" if self.made.seed is None else f", seed {self.made.seed}"
        return f"{method} ({settings}){seed}" if settings else method + seed

    @property
    def sizes(self) -> str:
        """The sizes of the parts."""
        valid = "" if self.valid is None else f", valid {len(self.valid):,}"
        return f"train {len(self.train):,}{valid}, test {len(self.test):,}"

    def describe(self) -> str:
        """One line for people: how the split was made and how large the parts are."""
        judged = f" ({self.cold.describe()})" if self.made.method in (None, "given", "temporal") and self.cold else ""
        warm = ", users with a train positive only" if self.is_warm else ""
        repeats = self.made.duplicates_dropped
        dropped = f", {counted(repeats, 'repeated row')} left out" if repeats else ""
        return f"{self.method}: {self.sizes}{judged}{warm}{dropped}"

    def __repr__(self) -> str:
        warm = ", warm" if self.is_warm else ""
        judged = counted(self.cold.judged, "user")
        return f"Split({self.train.name!r}, {self.method}{warm})\n{self.sizes}, {judged} to evaluate"

    _repr_html_ = split_html

    @cached_property
    def cold(self) -> Cold:
        """The users and items of the test part that no model can have learned about."""
        return Cold.of(self.full_train.positives, self.test.positives)

    def warm(self) -> Split:
        """The same split, without users in the test part who have no positive in train or validation."""
        known = self.full_train.positives.counts > 0
        rows = known[self.test.user_idx]
        if not (rows & self.test.is_positive).any():
            raise SplitError("no user of the test part has a positive in train, so nobody is left to evaluate")
        return replace(self, test=self.test.subset(rows), is_warm=True)

    def with_positives(self, min_rating: float | None) -> Split:
        """The same split with a different threshold for positives."""
        valid = None if self.valid is None else self.valid.with_positives(min_rating)
        train, test = (part.with_positives(min_rating) for part in (self.train, self.test))
        return replace(self, train=train, valid=valid, test=test)


def split(
    data: Interactions,
    how: str = "auto",
    *,
    fold: int | None = None,
    test: float | None = None,
    n: int | None = None,
    at: str | float | None = None,
    on: On = "all",
    valid: bool = True,
    seed: int = 0,
) -> Split:
    """Split a log into train, validation and test.

    how      official     ML-100k's u1 to u5 by row order (`fold`; also how="u1")
             given        the train and test parts that Gowalla is published with
             ratio        a random share `test` (0.2) of the rows
             leave_n_out  `n` random rows of each user (users with n rows or fewer stay in train); the paper's
                          leave-ten-out of ML-1M and leave-five-out of Yelp
             temporal     rows from the time `at` on (a date or seconds), or the latest share `test`,
                          or the last `n` of each user
             auto         the data set's own split if it has one, else ratio
    on       'all': all rows are split, and the threshold for positives applies afterwards, as in the paper;
             'positives': only positive rows can be held out

    A pair that occurs several times counts once, with its last row. In a temporal split it belongs to the part in
    which it was first seen, with its last row there.
    """
    if not isinstance(data, Interactions):
        raise SplitError(f"split() takes a log from pr.read or pr.load, not {type(data).__name__}")
    how, fold = _resolve(data, how, fold)
    if how == "auto":
        how, n = _default_for(data, n)
    if how not in get_args(Method):
        raise SplitError(f"there is no split {how!r}; choose auto, {', '.join(get_args(Method))}, or u1 to u5")
    _check_parameters(how, fold=fold, test=test, n=n, at=at, on=on)
    # A pair counts once. In a temporal split, it counts from when it was first seen.
    seen = FirstSeen.of(data) if how == "temporal" and data.timestamp is not None else None
    log = data.deduplicate() if seen is None else seen.log
    picker = Picker(log, how, fold=fold, test=test, n=n, at=at)
    eligible = np.ones(len(log), dtype=np.bool_) if on == "all" else log.is_positive
    test_mask = picker.pick(eligible, named_rng(seed, "split"), of_train=False)
    rest = ~test_mask
    valid_mask = np.zeros(len(log), dtype=np.bool_)
    if valid:
        valid_mask = picker.pick(eligible & rest, named_rng(seed, "split/valid"), of_train=True)
        if how == "temporal" and np.array_equal(valid_mask, rest):  # all at the same time, which cannot be divided
            valid_mask[:] = False
    train_mask = rest & ~valid_mask
    for what, mask in (("train", train_mask), ("test", test_mask)):
        if not mask.any():
            raise SplitError(f"the {what} part of the {how} split would be empty; {_remedy(log, how, what, at)}")
    if not log.positives.indptr[-1] or not (test_mask & log.is_positive).any():
        raise SplitError(f"the test part of the {how} split has no positives; hold out more or lower the threshold")
    made = Made(
        method=cast("Method", how),
        seed=seed,
        parameters=SplitParameters(
            fold=_plain(fold),
            test=_plain(picker.test_share),
            n=_plain(n),
            at=_plain(at),
            on="positives" if on == "positives" else None,
        ),
        rows=len(data),
        duplicates_dropped=len(data) - len(log),
        train=int(train_mask.sum()),
        valid=int(valid_mask.sum()),
        test=int(test_mask.sum()),
    )
    if seen is not None and len(log) < len(data):
        log = seen.as_known([train_mask, valid_mask, test_mask], at=picker.at, by_user=n is not None)
    valid_part = log.subset(valid_mask) if valid_mask.any() else None
    return Split(log.subset(train_mask), valid_part, log.subset(test_mask), made, whole=log.pairs)


def _plain(value: Any) -> Any:
    """A numpy number as a plain Python number, which can be stored."""
    return value.item() if isinstance(value, np.generic) else value


def _resolve(data: Interactions, how: str, fold: int | None) -> tuple[str, int | None]:
    match = re.fullmatch(r"u([1-5])", how)
    if match:
        if fold is not None and fold != int(match[1]):
            raise SplitError(f"how={how!r} and fold={fold} contradict each other")
        how, fold = "official", int(match[1])
    if how == "auto" and _is_ml_100k(data):
        how = "official"
    if how in ("auto", "official") and published_test_rows(data):
        how = "given"
    if how == "official":
        fold = 1 if fold is None else fold
        if not _is_ml_100k(data):
            raise SplitError(
                f"the official split goes by ML-100k's 100,000 rows, and '{data.name}' has {len(data):,}; "
                "use ratio, leave_n_out or temporal"
            )
    if how == "given" and not published_test_rows(data):
        raise SplitError(
            f"'{data.name}' was not published in train and test parts, as {', '.join(PUBLISHED_PARTS)} was; "
            "use ratio, leave_n_out or temporal"
        )
    return how.replace("-", "_"), fold


def _is_ml_100k(data: Interactions) -> bool:
    return data.name == "ml-100k" and len(data) == 100_000


def _default_for(data: Interactions, n: int | None) -> tuple[str, int | None]:
    """The paper's split of ML-1M and Yelp; a random fifth of anything else."""
    paper = {"ml-1m": 10, "yelp": 5}
    if data.name in paper:
        return "leave_n_out", n if n is not None else paper[data.name]
    return "ratio", n


def _check_parameters(
    how: str, *, fold: int | None, test: float | None, n: int | None, at: str | float | None, on: str
) -> None:
    used = {
        "official": {"fold"},
        "given": set(),
        "ratio": {"test"},
        "leave_n_out": {"n"},
        "temporal": {"test", "n", "at"},
    }[how]
    given = {k for k, v in {"fold": fold, "test": test, "n": n, "at": at}.items() if v is not None}
    if given - used:
        raise SplitError(
            f"the {how} split does not use {', '.join(sorted(given - used))}; "
            f"it uses {', '.join(sorted(used)) or 'none of these'}"
        )
    if how == "temporal" and len(given) > 1:
        raise SplitError(f"the temporal split takes one of at, test and n, not {' and '.join(sorted(given))}")
    if how == "leave_n_out" and n is None:
        fact = "the leave_n_out split needs n, the number of interactions to hold out per user"
        raise SplitError(fact, "give it as n", command="give it with --n")
    if test is not None and not (_is_number(test) and 0 < test < 1):
        raise SplitError(f"test must be a share between 0 and 1, not {test!r}")
    if n is not None and not (_is_number(n, whole=True) and n >= 1):
        raise SplitError(f"n must be a whole number of at least 1, not {n!r}")
    if fold is not None and not (_is_number(fold, whole=True) and 1 <= fold <= 5):
        raise SplitError(f"fold must be 1 to 5, not {fold!r}")
    if on not in get_args(On):
        raise SplitError(f"on must be 'all' or 'positives', not {on!r}")


def _is_number(value: Any, *, whole: bool = False) -> bool:
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, bool)


def _remedy(log: Interactions, how: str, what: str, at: str | float | None) -> str:
    if at is not None and log.timestamp is not None:
        per_second = UNITS_PER_SECOND[log.time_unit]
        first, last = (_date(int(time) // per_second) for time in (log.timestamp.min(), log.timestamp.max()))
        return f"at={at!r} is {'after' if what == 'test' else 'before'} all of the data, from {first} to {last}"
    if how == "leave_n_out":
        return "choose a smaller n" if what == "test" else "choose a larger n"
    return "choose another share or time point"


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ").removesuffix("+00:00")
