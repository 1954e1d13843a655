"""A split whose parts are given: as files, tables or logs, each with its own ids.

All parts get the users and items of every part. Users and items that are only in the test part are kept: the model
will encounter such users and items in practice, and leaving them out would make every score look better. They are
counted in `Split.cold`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from purerec.data.interactions import Interactions
from purerec.data.made import Made
from purerec.data.pairs import Csr
from purerec.data.picking import UNITS_PER_SECOND
from purerec.data.readers import is_list_file, read
from purerec.data.sharing import with_shared_vocabularies
from purerec.data.splits import Split
from purerec.data.splits import split as make_split
from purerec.errors import ConfigError, DataError, SplitError


def given_split(train: Any, test: Any, valid: Any = None, **reading: Any) -> Split:
    """A split of given parts: paths, tables (pandas, polars, Arrow, scipy) or Interactions.

    `reading` are options of `read`, such as `user="visitor"` or `positive_rating=4`, for all parts that are not yet
    Interactions. A pair in two parts is an error.
    """
    given = {"train": train, "valid": valid, "test": test}
    lists = any(_is_path(source) and is_list_file(source, **reading) for source in given.values())
    logs = {
        part: source if isinstance(source, Interactions) else _read(source, part, reading, lists)
        for part, source in given.items()
        if source is not None
    }
    return split_of(logs["train"], logs["test"], logs.get("valid"))


def split_of(train: Interactions, test: Interactions, valid: Interactions | None) -> Split:
    """A split of logs that may have different users and items."""
    given = {"train": train, "valid": valid, "test": test}
    logs = {part: log for part, log in given.items() if log is not None}
    _check_positives(logs)
    rows = {part: len(log) for part, log in logs.items()}
    shared = with_shared_vocabularies(_in_one_unit([log.deduplicate() for log in logs.values()]))
    parts = {part: replace(log, name=train.name) for part, log in zip(logs, shared, strict=True)}
    _check_overlap(parts)
    known = parts["train"].pairs if "valid" not in parts else parts["train"].pairs.union(parts["valid"].pairs)
    _check_ids_meet(known, parts["test"], logs)
    if not parts["test"].n_positives:
        raise SplitError("the test part has no positives; lower the rating that counts as positive")
    sizes = {part: len(parts[part]) if part in parts else 0 for part in given}
    made = Made(
        method="given",
        rows=sum(rows.values()),
        duplicates_dropped=sum(rows.values()) - sum(map(len, parts.values())),
        train=sizes["train"],
        valid=sizes["valid"],
        test=sizes["test"],
    )
    return Split(parts["train"], parts.get("valid"), parts["test"], made)


def with_parts(data: Interactions | Split, how: str | Split) -> tuple[Interactions, Split]:
    """Data and its split, from both or from a split alone: the data is then what models are fitted on."""
    if isinstance(data, Split):
        if how != "auto":
            raise ConfigError("the data is a split already; leave out `split`")
        return data.full_train, data
    if not isinstance(data, Interactions):
        raise DataError(f"data must be from pr.read or pr.load, or a split of it, not {type(data).__name__}")
    return data, how if isinstance(how, Split) else make_split(data, how)


def _is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


def _read(source: Any, part: str, reading: dict[str, Any], lists: bool) -> Interactions:
    if not _is_path(source):
        return read(source, **{"name": part, **reading})
    # Lists of equal length look like a table; if another part has lists, so does this one.
    certain = True if lists and is_list_file(source, equally_long=True, **reading) else None
    return read(source, **{"lists": certain, **reading})


def _check_positives(logs: dict[str, Interactions]) -> None:
    thresholds = {part: log.positive_rating for part, log in logs.items()}
    if len(set(thresholds.values())) > 1:
        told = ", ".join(f"{part} {'all rows' if t is None else f'{t:g}'}" for part, t in thresholds.items())
        raise SplitError(
            f"the parts disagree on which ratings count as positive ({told}); use with_positives() to make them agree"
        )


def _in_one_unit(logs: list[Interactions]) -> list[Interactions]:
    """Convert times to the finest unit of all parts."""
    finest = max((log.time_unit for log in logs), key=lambda unit: UNITS_PER_SECOND[unit])
    return [
        log
        if log.timestamp is None or log.time_unit == finest
        else replace(
            log,
            timestamp=log.timestamp * (UNITS_PER_SECOND[finest] // UNITS_PER_SECOND[log.time_unit]),
            time_unit=finest,
        )
        for log in logs
    ]


def _check_overlap(parts: dict[str, Interactions]) -> None:
    names = list(parts)
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            a, b = parts[first].pairs, parts[second].pairs
            shared = a.overlap(b)
            if shared:
                user, item = _first_shared(a, b)
                example = f"user {parts[first].users[user]!r} with item {parts[first].items[item]!r}"
                raise SplitError(
                    f"{shared:,} of the {len(b):,} {second} pairs are in the {first} part too, such as {example}; "
                    "remove them from one of the two, or the score would be inflated"
                )


def _first_shared(a: Csr, b: Csr) -> tuple[int, int]:
    n_items = a.shape[1]
    mine, theirs = (pairs.users.astype(np.int64) * n_items + pairs.indices for pairs in (a, b))
    return divmod(int(np.intersect1d(mine, theirs)[0]), n_items)


def _check_ids_meet(known: Csr, test: Interactions, logs: dict[str, Interactions]) -> None:
    """Raise an error if parts have no user or item in common: they were made from different ids."""
    for what, of_known, of_test in (
        ("user", known.counts > 0, test.pairs.counts > 0),
        ("item", known.item_counts > 0, test.pairs.item_counts > 0),
    ):
        if not (of_known & of_test).any():
            some = [
                ", ".join(repr(i) for i in getattr(logs[part], f"{what}s").ids.head(2).to_list())
                for part in ("train", "test")
            ]
            raise SplitError(
                f"no {what} of the test part is in the train part (train has {some[0]}, ...; test has {some[1]}, "
                "...); give parts with the same ids, and check which column is which"
            )
