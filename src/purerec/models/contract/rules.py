"""Rules applied when lists are made: which items they may contain, and how they are composed.

    where                  conditions on the item table, see `purerec.data.items.conditions`
    at_most                {column: n}: at most n items with the same value (of the same genre, say)
    diversity              from 0 to 1: how much an item loses for being similar to one already in the list (MMR)
    popularity_discount    from 0 to 1: how much popular items lose
    cold_items             places at the end for items that nobody had in training

`where` applies before scores are ranked. The others choose from each person's best items, twenty times as many as
requested (from 200 to 5,000), which bounds the cost of a list; so a list may be shorter than requested. Among these,
scores and log popularity are scaled to 0 to 1. Similarity is the cosine of two items' vectors, or of the people who
liked them.

Cold items are those of the item table whose columns are most like those of the person's items. Nothing else is known
about them: no model has scored them, and they have no score.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import polars as pl

from purerec.data.items.conditions import Condition, fulfilled
from purerec.data.items.table import ItemTable
from purerec.data.vocabulary import Id
from purerec.errors import ConfigError
from purerec.ranking.ranks import TopK
from purerec.types import F32, F64, I32, I64, Mask

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender

_POOL = 20
_SMALLEST_POOL, _LARGEST_POOL = 200, 5_000


class RuleOptions(TypedDict, total=False):
    """Rules as keyword arguments."""

    where: str | Sequence[str]
    at_most: Mapping[str, int]
    diversity: float
    popularity_discount: float
    cold_items: int


@dataclass(frozen=True)
class ListRules:
    """Checked rules."""

    where: tuple[Condition, ...] = ()
    at_most: Mapping[str, int] = field(default_factory=dict)
    diversity: float = 0.0
    popularity_discount: float = 0.0
    cold_items: int = 0
    cold_rows: I64 | None = field(default=None, compare=False)
    """The rows of the item table that cold items may come from; None: all items that nobody had."""

    @classmethod
    def of(cls, options: RuleOptions) -> ListRules | None:
        """Check rules; None if there are none."""
        if odd := sorted(set(options) - set(RuleOptions.__annotations__)):
            raise TypeError(f"recommend() got an unexpected keyword argument {odd[0]!r}")
        given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        where = given.pop("where", ())
        conditions = [where] if isinstance(where, str) else list(where)
        rules = cls(where=tuple(Condition.parse(text) for text in conditions), **given)
        return None if rules == cls() else rules

    def __post_init__(self) -> None:
        for name in ("diversity", "popularity_discount"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
                raise ConfigError(f"{name} is from 0 to 1, not {value!r}")
        if not isinstance(self.at_most, Mapping):
            raise ConfigError(f"at_most is a number for each column, such as {{'genre': 2}}, not {self.at_most!r}")
        for name, most in self.at_most.items():
            if not _is_count(most, 1):
                raise ConfigError(f"at_most[{name!r}] is a whole number of at least 1, not {most!r}")
        if not _is_count(self.cold_items, 0):
            raise ConfigError(f"cold_items is a whole number of places, not {self.cold_items!r}")

    @property
    def rearranges(self) -> bool:
        """Whether the list may differ from the best items by score."""
        return bool(self.at_most or self.diversity or self.popularity_discount)

    def pool(self, k: int) -> int:
        """How many of the best items by score the list is chosen from."""
        return max(k, min(max(_POOL * k, _SMALLEST_POOL), _LARGEST_POOL)) if self.rearranges else k

    def among(
        self, model: Recommender, only: Iterable[Id] | None, never: Iterable[Id]
    ) -> tuple[ListRules, list[Id] | None]:
        """Rules whose cold items are limited to these ids, too, and the rest of `only` for the model's own items."""
        only, barred = None if only is None else list(only), {str(item) for item in never}
        if not self.cold_items or (only is None and not barred):
            return self, only
        table = table_of(model)
        ids = table.ids.slice(table.n_warm).cast(pl.String).to_list()
        cold = dict(zip(ids, range(table.n_warm, len(table)), strict=True))
        asked = set(cold) if only is None else {str(item) for item in only}
        rows = sorted(cold[item] for item in asked - barred if item in cold)
        if only is not None:
            only = [item for item in only if model.items.find(item) is not None or str(item) not in cold]
        return replace(self, cold_rows=np.array(rows, dtype=np.int64)), only

    def allowed(self, model: Recommender) -> I32 | None:
        """The model's items that satisfy the conditions; None: all."""
        if not self.where:
            return None
        table = table_of(model)
        return np.flatnonzero(fulfilled(table, self.where)[: table.n_warm]).astype(np.int32)

    def arrange(self, model: Recommender, found: TopK, own: Sequence[I32], k: int) -> TopK:
        """(n, k) lists chosen from each person's best items; `own` has the items of each person."""
        rows = [
            self._arranged(model, row[row >= 0], scores[row >= 0], mine, k)
            for row, scores, mine in zip(found.items, found.scores, own, strict=True)
        ]
        items = np.full((len(rows), k), -1, dtype=np.int32)
        values = np.full((len(rows), k), -np.inf, dtype=np.float32)
        for n, (row, scores) in enumerate(rows):
            items[n, : len(row)], values[n, : len(row)] = row, scores
        return TopK(items, values)

    def _arranged(self, model: Recommender, pool: I32, scores: F32, own: I32, k: int) -> tuple[I32, F32]:
        chosen = self._chosen(model, pool, scores, k) if self.rearranges else np.arange(min(k, len(pool)))
        items, values = pool[chosen], scores[chosen]
        cold = self._cold(model, own) if self.cold_items else np.zeros(0, dtype=np.int32)
        if not len(cold):
            return items, values
        warm, new = self._with_cold(model, items, cold, k)
        unknown = np.full(len(new), np.nan, dtype=np.float32)
        return np.concatenate([items[warm], new]), np.concatenate([values[warm], unknown])

    def _with_cold(self, model: Recommender, items: I32, cold: I32, k: int) -> tuple[list[int], I32]:
        """Which of the items stay, and the cold ones that take the last places; `at_most` counts both."""
        both = np.concatenate([items, cold])
        caps = [_Cap(table_of(model), name, most, both) for name, most in self.at_most.items()]
        left: Mask = np.ones(len(both), dtype=np.bool_)

        def take(places: Iterable[int], most: int) -> list[int]:
            taken: list[int] = []
            for at in places:
                if len(taken) == most:
                    break
                if left[at]:
                    taken.append(at)
                    left[at] = False
                    for cap in caps:
                        cap.count(at, left)
            return taken

        first = max(0, k - self.cold_items)
        warm = take(range(min(first, len(items))), first)
        new = take(range(len(items), len(both)), min(self.cold_items, k))
        warm += take(range(first, len(items)), k - len(warm) - len(new))  # if too few are new
        return warm, both[new]

    def _chosen(self, model: Recommender, pool: I32, scores: F32, k: int) -> I64:
        """Positions in the pool, chosen one by one: the best item that is left and allowed."""
        value = _from_0_to_1(scores)
        if self.popularity_discount:
            discount = _from_0_to_1(np.log1p(model.derived.popularity[pool]))
            value = (1 - self.popularity_discount) * value - self.popularity_discount * discount
        if not self.diversity and not self.at_most:
            return np.argsort(-value, kind="stable")[:k]
        looks = model.derived.profiles[pool] if self.diversity else None
        caps = [_Cap(table_of(model), name, most, pool) for name, most in self.at_most.items()]
        nearest = np.zeros(len(pool))
        left: Mask = np.ones(len(pool), dtype=np.bool_)
        chosen: list[int] = []
        while len(chosen) < k and left.any():
            worth = (1 - self.diversity) * value - self.diversity * nearest
            best = int(np.argmax(np.where(left, worth, -np.inf)))
            chosen.append(best)
            left[best] = False
            if looks is not None:
                nearest = np.maximum(nearest, looks @ looks[best])
            for cap in caps:
                cap.count(best, left)
        return np.array(chosen, dtype=np.int64)

    def _cold(self, model: Recommender, own: I32) -> I32:
        """Rows of the item table, beyond the model's own items, those most like the person's first."""
        table = table_of(model)
        rows = np.arange(table.n_warm, len(table)) if self.cold_rows is None else self.cold_rows
        if self.where:
            rows = rows[fulfilled(table, self.where)[rows]]
        if not len(rows) or not len(own):
            return np.zeros(0, dtype=np.int32)
        alike = table.like(own.astype(np.int64), rows)
        # Enough for `at_most` to choose from, in a bounded time.
        best = np.argsort(-alike, kind="stable")[: max(_SMALLEST_POOL, _POOL * self.cold_items)]
        return rows[best[alike[best] > 0]].astype(np.int32)


class _Cap:
    """A limit on the items that share a value of a column."""

    def __init__(self, table: ItemTable, name: str, most: int, pool: I32) -> None:
        self._starts, self._codes = table.column(name).take(pool.astype(np.int64)).groups()
        self._owners = np.repeat(np.arange(len(pool)), np.diff(self._starts))
        self._left: dict[int, int] = {}
        self._most = most

    def count(self, at: int, left: Mask) -> None:
        """Count a chosen item; items with a value that is used up are no longer allowed."""
        for code in self._codes[self._starts[at] : self._starts[at + 1]].tolist():
            self._left[code] = self._left.get(code, self._most) - 1
            if not self._left[code]:
                left[self._owners[self._codes == code]] = False


def table_of(model: Recommender) -> ItemTable:
    if model.item_table is None:
        raise ConfigError(
            "the model has no item table",
            "give it one with model.set_items(pr.read_items('items.csv'))",
            command="give it one with purerec update DIR --items items.csv --out DIR",
        )
    return model.item_table


def _from_0_to_1(values: F32) -> F64:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    return (values.astype(np.float64) - low) / max(high - low, 1e-12)


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least
