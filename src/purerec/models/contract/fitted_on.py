"""What the data of a fit must have, and the record of a fit in a model's manifest."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

import polars as pl
from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, ValidationError

from purerec.data.interactions import Interactions
from purerec.data.items.table import ItemTable
from purerec.data.pairs import Csr
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError, StoreError, first_problem
from purerec.jit.compiling import COMPILING


def need_positives(train: Interactions) -> Csr:
    """The positives; an error if there are none."""
    if not train.n_positives:
        raise DataError(f"'{train.name}' has no positives to learn from; lower the rating that counts as positive")
    return train.positives


def check_data(train: Interactions, valid: Interactions | None, table: ItemTable | None = None) -> None:
    """Check that a model with this item table can be fitted on these."""
    if not isinstance(train, Interactions):
        raise DataError(
            f"fit() takes a log from pr.read or pr.load, or the full_train of a split, not {type(train).__name__}"
        )
    if not len(train):
        raise DataError("there is nothing to fit on: the train part has no interactions")
    if valid is not None and (valid.users != train.users or valid.items != train.items):
        raise DataError("train and valid must share their vocabularies; make them with split()")
    if table is not None:
        table.check_knows(train.items)


@dataclass(frozen=True, eq=False)
class Known:
    """The people, items and pairs that a fitted model knows."""

    users: Vocabulary
    items: Vocabulary
    labels: pl.Series | None
    seen: Csr
    """The positives that it was fitted on"""
    touched: Csr
    """Every pair of the log, positive or not: what a list leaves out"""

    @classmethod
    def of(cls, log: Interactions, touched: Csr | None = None) -> Self:
        """`touched`, if given, has pairs beyond those of the log."""
        return cls(log.users, log.items, log.item_labels, log.positives, log.pairs if touched is None else touched)

    def with_table(self, table: ItemTable) -> tuple[Self, ItemTable]:
        """With the titles of an item table, where it has any; and the table, these items first."""
        table.check_knows(self.items)
        aligned = table.aligned(self.items)
        if aligned.titles is None:
            return self, aligned
        titles, old = aligned.titles.head(aligned.n_warm), self.labels
        labels = titles if old is None else titles.zip_with(titles.is_not_null(), old.cast(pl.String))
        return replace(self, labels=labels), aligned


class Stopwatch:
    """Times a fit without the compilation of kernels, so that the first on a machine is no slower than the next."""

    def __init__(self) -> None:
        self._began, self._compiled = time.perf_counter(), COMPILING.seconds

    @property
    def compiling(self) -> float:
        """Seconds spent compiling since the start"""
        return COMPILING.seconds - self._compiled

    @property
    def seconds(self) -> float:
        """All other seconds"""
        return max(0.0, time.perf_counter() - self._began - self.compiling)


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class LastUpdate(_Facts):
    """What updates added; all but `times` describes the last one."""

    times: NonNegativeInt
    name: str
    fingerprint: str
    interactions: NonNegativeInt
    new_users: NonNegativeInt
    new_items: NonNegativeInt
    new_positives: NonNegativeInt
    epochs: NonNegativeInt | None
    seed: int
    seconds: NonNegativeFloat


class FittedOn(_Facts):
    """The data of a fit, and how it went."""

    name: str
    fingerprint: str
    users: NonNegativeInt
    items: NonNegativeInt
    interactions: NonNegativeInt
    positives: NonNegativeInt
    positive_rating: float | None
    seed: int
    fitted_at: str
    fit_seconds: NonNegativeFloat
    epochs_found: int | None = None
    """Epochs that early stopping found to be enough."""
    resolved: dict[str, int | float] = {}
    """Settings that are None in the config, resolved from the data; empty in older folders."""
    updated: LastUpdate | None = None

    @classmethod
    def of(cls, train: Interactions, *, seed: int, seconds: float, resolved: Mapping[str, float]) -> Self:
        rating = train.positive_rating
        return cls(
            name=train.name,
            fingerprint=train.fingerprint,
            users=train.n_users,
            items=train.n_items,
            interactions=len(train),
            positives=train.n_positives,
            positive_rating=None if rating is None else float(rating),
            seed=int(seed),
            fitted_at=datetime.now(UTC).isoformat(timespec="seconds"),
            fit_seconds=round(seconds, 3),
            resolved=dict(resolved),
        )

    @classmethod
    def read(cls, facts: Any) -> Self:
        """From a manifest."""
        try:
            return cls.model_validate(facts)
        except ValidationError as error:
            raise StoreError(f"fitted_on: {first_problem(error)}") from None

    def to_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return self.model_dump(exclude_defaults=True)


@dataclass(frozen=True, eq=False)
class Fit:
    """All that a fit leaves; a model replaces it as a whole."""

    learned: Any
    known: Known
    fitted_on: FittedOn
