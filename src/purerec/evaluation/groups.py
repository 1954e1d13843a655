"""Metrics per group: whom a model serves well, and which items it finds.

Groups of users partition the people who were evaluated. For a group of items, only held-out positives on its items
are to be found, among all candidates; those on other items count as misses.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from purerec.data.items.columns import split_tags
from purerec.data.splits import Split
from purerec.data.text.contents import check_file, content_of, shown
from purerec.data.text.sniffing import KNOWN_NAMES
from purerec.data.vocabulary import Vocabulary
from purerec.errors import ConfigError, DataError, ReadError, did_you_mean
from purerec.evaluation.parts import Evaluator
from purerec.evaluation.protocols import Evaluation, HeldOut, evaluate, held_out
from purerec.types import Mask

MOST_GROUPS = 30
"""A text column with more distinct values is an error; numbers are split into four ranges."""
NONE = "(none)"


def evaluate_by(
    model: Any,
    split: Split,
    column: str,
    *,
    users: Any = None,
    items: Any = None,
    encoding: str = "utf-8",
    **how: Any,
) -> pl.DataFrame:
    """Metrics per group of users, or of items: a table of group, users, (positives) and the metrics.

    column          the column of the table that holds the groups; numbers with many values are split into four
                    ranges, and items may be in several groups ('Comedy|Drama')
    users, items    one of them: a file (CSV, TSV, Parquet) or a DataFrame with a column of ids, recognised by
                    its name, or else the first
    how             as in `evaluate`
    """
    groups = read_groups(split, column, users=users, items=items, encoding=encoding)
    return groups.measure(model, split, None if groups.of_items else evaluate(model, split, **how), **how)


@dataclass(frozen=True)
class Groups:
    """The groups that each user, or each item, belongs to."""

    names: list[list[str]]
    """By internal index"""
    of_items: bool

    def measure(
        self, model: Any, split: Split, found: Evaluation | None, *, evaluator: Evaluator = evaluate, **how: Any
    ) -> pl.DataFrame:
        """Metrics per group; `found` is the evaluation of all users, from which user groups take their values."""
        if not self.of_items:
            assert found is not None
            return found.by([groups[0] for groups in self.names])
        counts = held_out(split, how.get("on", "test")).positives.item_counts
        names = sorted({name for item, groups in enumerate(self.names) if counts[item] for name in groups})
        chosen = {name: np.array([name in groups for groups in self.names]) for name in names}
        parts = [_on_items(model, split, name, chosen[name], evaluator, how) for name in names]
        return pl.concat(parts).sort("positives", "group", descending=[True, False])


def read_groups(
    split: Split, column: str, *, users: Any = None, items: Any = None, encoding: str = "utf-8"
) -> Groups:
    """The groups in a column of a table of users, or of items."""
    if (users is None) == (items is None):
        raise ConfigError(
            "groups are of users or of items",
            "give users=TABLE or items=TABLE",
            command="give --users FILE or --items FILE with --by",
        )
    if users is not None:
        return Groups(_names(users, column, split.train.users, encoding), of_items=False)
    return Groups(_names(items, column, split.train.items, encoding), of_items=True)


def warm_and_cold(
    model: Any, split: Split, found: pl.DataFrame, *, evaluator: Evaluator = evaluate, **how: Any
) -> pl.DataFrame:
    """Groups of users by `warmth`, plus a row for positives on items that occur in train."""
    known = split.full_train.positives.item_counts > 0
    on_known = _on_items(model, split, "positives on known items", known, evaluator, how)
    return pl.concat([found, on_known.drop("positives")])


def warmth(split: Split) -> list[str]:
    """For each user, by internal index: whether they have a train positive."""
    known = split.full_train.positives.counts > 0
    return ["users with a train positive" if one else "users without one" for one in known]


def _on_items(
    model: Any, split: Split, name: str, chosen: Mask, evaluator: Evaluator, how: dict[str, Any]
) -> pl.DataFrame:
    on: HeldOut = how.get("on", "test")
    whole = held_out(split, on)
    part = whole.subset(chosen[whole.item_idx])
    split = replace(split, test=part) if on == "test" else replace(split, valid=part)
    found = evaluator(model, split, **how)
    counts = {"group": name, "users": found.n_users_evaluated, "positives": part.n_positives}
    return pl.DataFrame({**counts, **found.metrics})


# ---------------------------------------------------------------------- from a table to groups


def _names(source: Any, column: str, ids: Vocabulary, encoding: str) -> list[list[str]]:
    """For each id, by internal index, the groups it belongs to."""
    where = shown(source) if isinstance(source, str | os.PathLike) else f"the table of {ids.what}s"
    table = _table(source, where, encoding)
    if column not in table.columns:
        raise ConfigError(f"{where} has no column {column!r}; {did_you_mean(column, table.columns)}")
    id_column = _id_column(table.columns, ids.what)
    text = table.select(
        pl.col(id_column).cast(pl.String).str.strip_chars().alias("id"), _labels(table[column], where, ids.what)
    ).unique(maintain_order=True)
    found = pl.DataFrame({"id": ids.ids.cast(pl.String)}).join(
        text.unique("id", keep="first"), on="id", how="left", maintain_order="left"
    )
    if found["label"].null_count() == len(found):
        some = ", ".join(map(repr, text["id"].head(2).to_list()))
        raise DataError(f"{where} has no {ids.what} of this data in its column {id_column!r} ({some}, ...)")
    if (twice := text["id"].is_duplicated()).any():
        again = text.filter(twice)["id"][0]
        raise DataError(f"{where} has {ids.what} {again!r} in several groups of {column!r}; keep one row for each")
    split_up = split_tags if ids.what == "item" else lambda label: [label]
    return [[NONE] if label is None else split_up(label) or [NONE] for label in found["label"].to_list()]


def _table(source: Any, where: str, encoding: str) -> pl.DataFrame:
    try:
        if not isinstance(source, str | os.PathLike):
            return pl.from_pandas(source) if hasattr(source, "iloc") else pl.DataFrame(source)
        path = Path(source)
        check_file(path)
        if path.suffix.lower() in (".parquet", ".pq"):
            return pl.read_parquet(io.BytesIO(path.read_bytes()))
        content = content_of(path, encoding)
        heading = bytes(content.raw[: content.after_line(0)]).decode()
        separator = max("\t,;|", key=heading.count)
        return pl.read_csv(io.BytesIO(bytes(content.raw)), separator=separator, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise ReadError(f"{where} cannot be read as a table with headings ({str(error).splitlines()[0]})") from None


def _id_column(names: list[str], what: Literal["user", "item"]) -> str:
    plain = {"".join(filter(str.isalnum, name.lower())): name for name in reversed(names)}
    known = ["".join(filter(str.isalnum, name)) for name in (*KNOWN_NAMES[what], "id")]
    return next((plain[name] for name in known if name in plain), names[0])


def _labels(values: pl.Series, where: str, what: str) -> pl.Series:
    text = values.cast(pl.String).str.strip_chars().replace("", None).alias("label")
    there = text.drop_nulls().to_list()
    single = {tag for label in there for tag in split_tags(label)} if what == "item" else set(there)
    if len(single) <= MOST_GROUPS:
        return text
    numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count() > text.null_count():
        raise ConfigError(
            f"the column {values.name!r} of {where} has {len(single):,} different values; choose one with at "
            f"most {MOST_GROUPS}, or one of numbers"
        )
    return _ranges(numbers).alias("label")


def _ranges(numbers: pl.Series) -> pl.Series:
    """Four ranges with about the same number of rows each."""
    known = numbers.drop_nulls().to_numpy()
    edges = np.unique(np.quantile(known, [0.25, 0.5, 0.75]))
    place = np.searchsorted(edges, known, side="left")
    names = {n: _range(known[place == n].min(), known[place == n].max()) for n in np.unique(place)}
    return pl.Series(
        [None if v is None else names[int(np.searchsorted(edges, v, side="left"))] for v in numbers.to_list()]
    )


def _range(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
