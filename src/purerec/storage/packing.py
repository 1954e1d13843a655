"""Ids, strings and logs as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from purerec.data.interactions import Interactions, TimeUnit
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError, StoreError
from purerec.storage.structure import Tensors, check_below, check_sequence
from purerec.types import Array


def pack_strings(name: str, values: pl.Series) -> Tensors:
    """Strings as one sequence of UTF-8 bytes and the end of each string; a mask marks nulls."""
    filled = values.cast(pl.String).fill_null("")
    tensors: Tensors = {
        f"{name}.bytes": np.frombuffer("".join(filled.to_list()).encode(), dtype=np.uint8),
        f"{name}.ends": np.cumsum(filled.str.len_bytes().to_numpy(), dtype=np.int64),
    }
    if values.null_count():
        tensors[f"{name}.null"] = values.is_null().to_numpy().astype(np.uint8)
    return tensors


def unpack_strings(name: str, tensors: Mapping[str, Array]) -> pl.Series:
    """The inverse; raises an error for tensors that cannot have come from strings."""
    whole, ends, null = tensors[f"{name}.bytes"], tensors[f"{name}.ends"], tensors.get(f"{name}.null")
    check_sequence(f"{name}.bytes", whole, np.uint8)
    check_sequence(f"{name}.ends", ends, np.int64)
    if (ends[:1] < 0).any() or (np.diff(ends) < 0).any() or (ends[-1] if len(ends) else 0) != len(whole):
        raise StoreError(f"the ends of {name} do not rise from 0 to {len(whole)}")
    raw, stops = whole.tobytes(), ends.tolist()
    try:
        strings: list[str | None] = [raw[start:end].decode() for start, end in zip([0, *stops], stops, strict=False)]
    except UnicodeDecodeError:
        raise StoreError(f"{name} is not UTF-8 text") from None
    if null is not None:
        check_sequence(f"{name}.null", null, np.uint8, len(ends))
        strings = [None if is_null else text for text, is_null in zip(strings, null.tolist(), strict=True)]
    return pl.Series(strings, dtype=pl.String)


def pack_vocabulary(vocabulary: Vocabulary) -> Tensors:
    if vocabulary.is_integer:
        return {f"{vocabulary.what}.ids": vocabulary.ids.to_numpy()}
    return pack_strings(f"{vocabulary.what}.ids", vocabulary.ids)


def unpack_vocabulary(what: Literal["user", "item"], tensors: Mapping[str, Array]) -> Vocabulary:
    """The inverse; raises an error unless there is at least one id and all are unique."""
    whole = tensors.get(f"{what}.ids")
    if whole is not None:
        check_sequence(f"{what}.ids", whole, np.int64)
        ids = pl.Series(whole, dtype=pl.Int64)
    else:
        ids = unpack_strings(f"{what}.ids", tensors)
    if not len(ids) or ids.null_count() or ids.n_unique() < len(ids):
        raise StoreError(f"{what} ids are missing or repeated")
    return Vocabulary(ids, what)


def pack_interactions(data: Interactions) -> tuple[dict[str, Any], Tensors]:
    """A log as JSON-ready facts and tensors."""
    tensors = pack_vocabulary(data.users) | pack_vocabulary(data.items)
    tensors |= {"log.user": data.user_idx, "log.item": data.item_idx}
    if data.rating is not None:
        tensors["log.rating"] = data.rating
    if data.timestamp is not None:
        tensors["log.timestamp"] = data.timestamp
    if data.item_labels is not None:
        tensors |= pack_strings("item.labels", data.item_labels)
    return {"name": data.name, "positive_rating": data.positive_rating, "time_unit": data.time_unit}, tensors


_COLUMNS: dict[str, type[np.generic]] = {
    "user": np.int32,
    "item": np.int32,
    "rating": np.float32,
    "timestamp": np.int64,
}


def unpack_interactions(facts: Mapping[str, Any], tensors: Mapping[str, Array]) -> Interactions:
    """The inverse; raises an error for anything that is not a valid log."""
    users, items = unpack_vocabulary("user", tensors), unpack_vocabulary("item", tensors)
    log = {name: tensors.get(f"log.{name}") for name in _COLUMNS}
    n = len(tensors["log.user"])
    for name, kind in _COLUMNS.items():
        if (array := log[name]) is not None:
            check_sequence(f"log.{name}", array, kind, n)
    check_below("log.user", tensors["log.user"], len(users))
    check_below("log.item", tensors["log.item"], len(items))
    threshold, unit, name = facts["positive_rating"], facts["time_unit"], facts["name"]
    if unit not in get_args(TimeUnit) or type(threshold) not in (int, float, type(None)) or not isinstance(name, str):
        raise StoreError(f"invalid log metadata: {dict(facts)!r}")
    labels = unpack_strings("item.labels", tensors) if "item.labels.ends" in tensors else None
    try:
        return Interactions(
            users,
            items,
            tensors["log.user"],
            tensors["log.item"],
            log["rating"],
            log["timestamp"],
            unit,
            threshold,
            labels,
            name,
        )
    except DataError as error:
        raise StoreError(str(error)) from None
