"""The value of settings: fits models on folds of a train part and measures a metric on the held-out rows.

The test part is never passed in. A running fit reports its progress, so that a search can stop unpromising trials.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.data.folds import folds
from purerec.data.interactions import Interactions
from purerec.data.made import Made
from purerec.data.splits import Split
from purerec.errors import ConfigError
from purerec.evaluation.metrics import parse_of_ranks
from purerec.evaluation.protocols import Evaluation, Protocol, evaluate
from purerec.evaluation.significance import SIGNIFICANT, bootstrap_interval, paired_t_test
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import make_model
from purerec.rng import named_rng
from purerec.training.history import Record
from purerec.training.run import Run

SettingValues = dict[str, Any]
Report = Callable[[float, int], None]

REPORTS = 5
"""Maximum reports per fit: one after each fifth of the epochs; a model without epochs reports once."""


class OutOfTime(Exception):
    """The time limit was reached during a fit."""


@dataclass(frozen=True)
class Check:
    """The defaults and the best trial on fresh folds: means over users and folds."""

    folds: int
    defaults: float
    best: float
    difference: float
    ci_low: float
    ci_high: float
    p: float

    @property
    def better(self) -> bool:
        return self.difference > 0 and self.p < SIGNIFICANT


@dataclass(frozen=True, eq=False)
class Task:
    """How settings are evaluated: folds of a train part, and a metric."""

    train: Interactions
    made: Made = field(default_factory=Made)
    """How the test part was held out (`Split.made`); folds are made the same way."""
    metric: str = "P@5"
    protocol: Protocol = "exact"
    pool: int = 500
    n_folds: int = 2
    """Folds that trials are evaluated on."""
    n_fresh: int = 3
    """Folds used only at the end, for the defaults and the best trial."""
    seed: int = 0

    def __post_init__(self) -> None:
        parse_of_ranks(self.metric)
        if self.protocol == "as_published":
            raise ConfigError("as_published is a defective protocol; choose settings by exact or sampled")
        for name, value in (("folds", self.n_folds), ("fresh folds", self.n_fresh)):
            if value < 1:
                raise ConfigError(f"the number of {name} must be at least 1, not {value!r}")

    @cached_property
    def folds(self) -> list[Split]:
        """The folds to search on, then the fresh ones."""
        return folds(self.train, self.made, self.n_folds + self.n_fresh, seed=self.seed)

    @property
    def last_step(self) -> int:
        """The step of the last report of `measure`, which is the final value."""
        return self.n_folds * REPORTS

    def evaluate(self, model: Recommender, fold: Split) -> Evaluation:
        return evaluate(model, fold, protocol=self.protocol, metrics=(self.metric,), pool=self.pool)

    def measure(self, model: str, settings: SettingValues, report: Report, deadline: float = math.inf) -> float:
        """The mean of the metric over the folds. Reports are running means; steps continue across folds."""
        done = 0.0
        for number, fold in enumerate(self.folds[: self.n_folds]):
            if time.perf_counter() >= deadline:
                raise OutOfTime

            def during(value: float, step: int, before: float = done, number: int = number) -> None:
                report((before + value) / (number + 1), number * REPORTS + step)

            done += self._fit(model, settings, fold, self.seed + number, during, deadline)
        return done / self.n_folds

    def _fit(
        self, name: str, settings: SettingValues, fold: Split, seed: int, report: Report, deadline: float
    ) -> float:
        model = make_model(name, **settings)
        epochs = getattr(model.config, "epochs", 0)
        if "validate_every" not in type(model.config).model_fields or not epochs:
            value = self.evaluate(model.fit(fold.train, seed=seed), fold).metrics[self.metric]
            report(value, REPORTS)
            return value
        every = math.ceil(epochs / REPORTS)
        watched = settings | {"metric": self.metric, "validate_every": every, "patience": None}
        last = math.nan

        def watch(record: Record) -> None:
            nonlocal last
            if time.perf_counter() >= deadline:
                raise OutOfTime
            if self.metric in record.values:
                last = record.values[self.metric]
                # By progress, not by epoch: learning rates depend on the share of epochs done.
                report(last, math.floor(REPORTS * (record.epoch + 1) / epochs))

        model = make_model(name, **watched)
        model.fit(fold.train, valid=fold.test, seed=seed, run=Run(callbacks=(watch,)))
        # The last epoch is always validated, with the exact protocol.
        return last if self.protocol == "exact" else self.evaluate(model, fold).metrics[self.metric]

    def check(self, model: str, defaults: SettingValues, best: SettingValues) -> Check:
        """Compare two settings on the fresh folds, which no trial has used."""
        fresh = list(enumerate(self.folds))[self.n_folds :]
        values = []
        for settings in (defaults, best):
            runs = [
                self.evaluate(make_model(model, **settings).fit(f.train, seed=self.seed + n), f) for n, f in fresh
            ]
            values.append(_per_user(runs, self.metric, self.train.n_users))
        judged = np.isfinite(values[0])
        base, found = values[0][judged], values[1][judged]
        low, high = bootstrap_interval(found - base, named_rng(0, "bootstrap"))
        means = float(base.mean()), float(found.mean())
        return Check(self.n_fresh, *means, means[1] - means[0], low, high, paired_t_test(found, base)[1])


def _per_user(runs: list[Evaluation], metric: str, n_users: int) -> npt.NDArray[np.float64]:
    """(n_users,) means over the folds in which a user was evaluated; NaN for the others."""
    total, count = np.zeros(n_users), np.zeros(n_users)
    for run in runs:
        total[run.user_idx] += run.per_user[metric]
        count[run.user_idx] += 1
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
