"""Item tables as tensors; the ids of a model's own items are already in its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import polars as pl

from purerec.data.items.columns import KINDS, Column, Flags, Numbers, Tags, Words
from purerec.data.items.table import ItemTable
from purerec.data.vocabulary import Vocabulary
from purerec.errors import DataError, StoreError
from purerec.storage.packing import pack_strings, unpack_strings
from purerec.storage.structure import Tensors, check_csr, check_sequence
from purerec.types import Array

_KINDS = tuple(KINDS)
_MARK = "table.kinds"


def pack_item_table(table: ItemTable) -> Tensors:
    kinds = np.array([_KINDS.index(column.kind) for column in table.columns.values()], dtype=np.uint8)
    tensors: Tensors = {_MARK: kinds} | pack_strings("table.names", pl.Series(list(table.columns), dtype=pl.String))
    for n, column in enumerate(table.columns.values()):
        tensors |= {f"table.{n}.{part}": array for part, array in _packed(column).items()}
    cold = table.ids.slice(table.n_warm)
    tensors |= pack_strings("table.cold", cold.cast(pl.String))
    if table.titles is not None:
        tensors |= pack_strings("table.titles", table.titles)
    return tensors


def unpack_item_table(tensors: Mapping[str, Array], items: Vocabulary) -> ItemTable | None:
    """The inverse; None if there is no table. Raises an error if it is invalid."""
    if _MARK not in tensors:
        return None
    kinds, names = tensors[_MARK], unpack_strings("table.names", tensors).to_list()
    check_sequence(_MARK, kinds, np.uint8, len(names))
    if len(set(names)) < len(names) or None in names or (len(kinds) and kinds.max() >= len(_KINDS)):
        raise StoreError("the columns of the item table have no clear names and kinds")
    cold = unpack_strings("table.cold", tensors)
    ids = _all_ids(items, cold)
    if ids.null_count() or ids.n_unique() < len(ids):
        raise StoreError("item table: ids are missing or repeated")
    titles = unpack_strings("table.titles", tensors) if "table.titles.ends" in tensors else None
    if titles is not None and len(titles) != len(ids):
        raise StoreError(f"the item table has {len(titles):,} titles for {len(ids):,} items")
    columns = {
        name: _unpacked(f"table.{n}", _KINDS[kind], tensors, len(ids))
        for n, (name, kind) in enumerate(zip(names, kinds.tolist(), strict=True))
    }
    try:
        return ItemTable(ids, columns, titles, len(items))
    except DataError as error:
        raise StoreError(str(error)) from None


def _all_ids(items: Vocabulary, cold: pl.Series) -> pl.Series:
    if items.is_integer and cold.str.contains(r"^-?\d{1,18}$").all():
        return pl.concat([items.ids.alias("id"), cold.cast(pl.Int64).alias("id")])
    return pl.concat([items.ids.cast(pl.String).alias("id"), cold.alias("id")])


def _packed(column: Column) -> Tensors:
    match column:
        case Numbers(values):
            missing = np.isnan(values)
            return {"values": np.where(missing, 0.0, values), "null": missing.astype(np.uint8)}
        case Flags(values):
            return {"flags": values}
        case Words(codes, words):
            return {"codes": codes} | pack_strings("words", pl.Series(words, dtype=pl.String))
        case Tags(starts, codes, words):
            rows: Tensors = {"starts": starts, "codes": codes}
            return rows | pack_strings("words", pl.Series(words, dtype=pl.String))
    raise AssertionError(column.kind)


def _unpacked(name: str, kind: str, tensors: Mapping[str, Array], n: int) -> Column:
    if kind == Numbers.kind:
        values, missing = tensors[f"{name}.values"], tensors[f"{name}.null"]
        check_sequence(f"{name}.values", values, np.float64, n)
        check_sequence(f"{name}.null", missing, np.uint8, n)
        return Numbers(np.where(missing > 0, np.nan, values))
    if kind == Flags.kind:
        flags = tensors[f"{name}.flags"]
        check_sequence(f"{name}.flags", flags, np.int8, n)
        if n and (flags.min() < -1 or flags.max() > 1):
            raise StoreError(f"{name} has flags that are neither true nor false")
        return Flags(flags)
    words = unpack_strings(f"{name}.words", tensors).to_list()
    if None in words or any(a >= b for a, b in pairwise(words)):
        raise StoreError(f"the words of {name} are not in order, or repeat")
    codes = tensors[f"{name}.codes"]
    if kind == Words.kind:
        check_sequence(f"{name}.codes", codes, np.int32, n)
        if n and (codes.min() < -1 or codes.max() >= len(words)):
            raise StoreError(f"{name} has codes that are not from -1 to {len(words) - 1}")
        return Words(codes, tuple(words))
    check_csr(name, tensors[f"{name}.starts"], codes, (n, len(words)))
    return Tags(tensors[f"{name}.starts"], codes, tuple(words))
