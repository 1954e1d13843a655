"""Lists as tables with external ids, translated on the way in and on the way out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from purerec.data.items.conditions import nothing_fulfils
from purerec.data.vocabulary import Id
from purerec.errors import ConfigError, DataError
from purerec.models.contract import explaining
from purerec.models.contract.answering import checked_k, top_for_history, top_for_users
from purerec.models.contract.rules import ListRules, table_of
from purerec.ranking.ranks import TopK
from purerec.types import I32

if TYPE_CHECKING:
    from purerec.models.contract.explaining import Person
    from purerec.models.contract.recommender import Recommender

NEW = "new, similar to your likes"
"""Why a cold item is in a list"""
_LISTED = 1 << 22
"""The most list places held at once: 32 MB; a table of them is about ten times as large."""


@dataclass(frozen=True)
class ListOptions:
    """What a list may contain, by external id, and what it shows: see `Recommender.recommend`."""

    exclude_seen: bool = True
    items: Iterable[Id] | None = None
    exclude: Iterable[Id] | None = None
    explain: int = 0
    rules: ListRules | None = None

    @property
    def cold(self) -> bool:
        """Whether lists may contain items that nobody had in training."""
        return self.rules is not None and self.rules.cold_items > 0

    def __post_init__(self) -> None:
        if isinstance(self.explain, bool) or not isinstance(self.explain, int | np.integer) or self.explain < 0:
            raise ConfigError(f"explain is how many reasons to give with an item, not {self.explain!r}")


def blocks_for_users(
    model: Recommender, users: Iterable[Id] | Id | None, k: int, options: ListOptions, block_users: int | None
) -> Iterator[pl.DataFrame]:
    """See `Recommender.recommend_blocks`."""
    k = checked_k(k)
    if users is None:
        index = np.arange(len(model.users), dtype=np.int64)
    else:
        index = model.users.indices(_listed(users)).astype(np.int64)
    whole = isinstance(block_users, int | np.integer) and not isinstance(block_users, bool)
    if block_users is not None and (not whole or block_users < 1):
        raise ConfigError(f"block_users must be at least 1, not {block_users!r}")
    size = block_users or max(1, _LISTED // k)
    allowed, barred, rules = _limits(model, options)
    _warn_of_rules(model, rules)

    def blocks() -> Iterator[pl.DataFrame]:
        for start in range(0, max(len(index), 1), size):
            part = index[start : start + size]
            found = top_for_users(
                model,
                part,
                k,
                exclude_seen=options.exclude_seen,
                items=allowed,
                exclude=barred,
                rules=rules,
            )
            people = (explaining.person_of(model, idx) for idx in part.tolist())
            user = model.users.take(np.repeat(part, found.items.shape[1]))
            yield table(
                model, found, user=user, reasons=_reasons(model, people, found, options.explain), cold=options.cold
            )

    return blocks()


def for_history(model: Recommender, history: Iterable[Id] | Id, k: int, options: ListOptions) -> pl.DataFrame:
    """See `Recommender.recommend_for`."""
    asked = _listed(history)
    known = history_of(model, asked)
    # Of the history, the model leaves out what it knows; the rest may be among the cold items.
    cold = [item for item in asked if model.items.find(item) is None] if options.exclude_seen else []
    allowed, barred, rules = _limits(model, options, cold)
    _warn_of_rules(model, rules)
    found = top_for_history(
        model, known, k, exclude_seen=options.exclude_seen, items=allowed, exclude=barred, rules=rules
    )
    person = (explaining.somebody_new(model, idx) for idx in [known])
    return table(model, found, reasons=_reasons(model, person, found, options.explain), cold=options.cold)


def _warn_of_rules(model: Recommender, rules: ListRules | None) -> None:
    """Warn if no item fits the rules: this may be intended, or a typo."""
    if rules is None:
        return
    if rules.where and (wrong := nothing_fulfils(table_of(model), rules.where)) is not None:
        warnings.warn(wrong, stacklevel=4)
    if rules.cold_items and len(table := table_of(model)) == table.n_warm:
        warnings.warn("there are no cold items: everything in the item table was in training", stacklevel=4)


def history_of(model: Recommender, history: Iterable[Id] | Id) -> I32:
    """Internal indices of a history, each once; unknown items raise a warning."""
    asked = _listed(history)
    found = [model.items.find(item) for item in asked]
    unknown = [item for item, idx in zip(asked, found, strict=True) if idx is None]
    if unknown:
        more = f" and {len(unknown) - 10:,} more" if len(unknown) > 10 else ""
        names = ", ".join(map(repr, unknown[:10])) + more
        so = "; none are left, so popular items are listed" if len(unknown) == len(asked) else ""
        warnings.warn(f"ignoring history items not in training: {names}{so}", stacklevel=4)
    return np.array(sorted({idx for idx in found if idx is not None}), dtype=np.int32)


def table(
    model: Recommender,
    found: TopK,
    *,
    user: pl.Series | None = None,
    reasons: list[str] | None = None,
    cold: bool = False,
) -> pl.DataFrame:
    """Lists as a table of (user), item, (label), score, rank, (reason)."""
    n, k = found.items.shape
    flat = found.items.ravel()
    there = flat >= 0
    whole = bool(there.all())
    kept = flat if whole else flat[there]
    columns: dict[str, Any] = {} if user is None else {"user": user if whole else user.filter(there)}
    # Cold items may have ids of another type, so all ids are taken from the table, in every block.
    columns["item"] = table_of(model).ids.gather(kept) if cold else model.items.take(kept)
    if model.labels is not None:
        titles = table_of(model).titles if cold else None
        columns["label"] = _gather(model.labels if titles is None else titles, kept)
    scores = pl.Series(found.scores.ravel()[there])
    columns["score"] = scores.fill_nan(None) if cold else scores
    columns["rank"] = np.tile(np.arange(1, k + 1, dtype=np.int32), n)[there]
    if reasons is not None:
        columns["reason"] = pl.Series(reasons, dtype=pl.String)
    return pl.DataFrame(columns)


def _reasons(model: Recommender, people: Iterable[Person], found: TopK, explain: int) -> list[str] | None:
    """One reason for each place of all lists."""
    if not explain:
        return None
    reasons, n = [], len(model.items)
    for person, row in zip(people, found.items, strict=True):
        warm = row[(row >= 0) & (row < n)]
        reasons += [found.reason for found in explaining.explain_list(model, person, warm, explain)]
        reasons += [NEW] * int((row >= n).sum())  # they are at the end
    return reasons


def _gather(values: pl.Series, idx: I32) -> pl.Series:
    """The values at these indices; null beyond the end."""
    at = pl.Series(idx)
    return values.gather(at.set(at >= len(values), None))


def _limits(
    model: Recommender, options: ListOptions, own_cold: Iterable[Id] = ()
) -> tuple[I32 | None, I32 | None, ListRules | None]:
    """`items` and `exclude` as indices of the model's items, and rules whose cold items are limited to them, too, and
    are none of the person's own."""
    only = None if options.items is None else _listed(options.items)
    never = [] if options.exclude is None else _listed(options.exclude)
    rules = options.rules
    if rules is not None:
        rules, only = rules.among(model, only, [*never, *own_cold])
    allowed = None if only is None else model.items.indices(only)
    barred = [index for item in never if (index := model.items.find(item)) is not None]
    return allowed, np.array(barred, dtype=np.int32) if barred else None, rules


def _listed(ids: Iterable[Id] | Id) -> list[Id]:
    if isinstance(ids, str | int | np.integer):
        return [ids]
    if len(getattr(ids, "shape", ())) > 1:
        raise DataError(f"ids are integers or text, or a list of them, not a {type(ids).__name__}: give one column")
    if not isinstance(ids, Iterable) or isinstance(ids, bytes | bytearray):
        raise DataError(f"ids are integers or text, or a list of them, not {ids!r}")
    return list(ids)
