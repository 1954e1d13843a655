"""Several logs with shared vocabularies, so that an index means the same user or item in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl

from purerec.data.interactions import Interactions
from purerec.data.vocabulary import Vocabulary
from purerec.types import I32


def with_shared_vocabularies(logs: Sequence[Interactions]) -> list[Interactions]:
    """The same logs, each with the users and items of all of them.

    Ids are integers if they are integers in all logs; otherwise they are text, and 7 is the same id as '7'.
    """
    users, user_at = _union([log.users for log in logs], "user")
    items, item_at = _union([log.items for log in logs], "item")
    labels = _labels(logs, items)
    return [
        replace(
            log,
            users=users,
            items=items,
            user_idx=new_user[log.user_idx],
            item_idx=new_item[log.item_idx],
            item_labels=labels,
        )
        for log, new_user, new_item in zip(logs, user_at, item_at, strict=True)
    ]


def join(first: Interactions, second: Interactions) -> Interactions:
    """The rows of one log after those of another that shares its vocabularies."""

    def both(a: Any, b: Any) -> Any:
        return None if a is None or b is None else np.concatenate([a, b])

    return replace(
        first,
        user_idx=both(first.user_idx, second.user_idx),
        item_idx=both(first.item_idx, second.item_idx),
        rating=both(first.rating, second.rating),
        timestamp=both(first.timestamp, second.timestamp),
    )


def _union(vocabularies: Sequence[Vocabulary], what: Literal["user", "item"]) -> tuple[Vocabulary, list[I32]]:
    """The sorted vocabulary of all ids, and for each given vocabulary, the new indices of its ids."""
    first = vocabularies[0]
    if all(other == first for other in vocabularies[1:]):
        same = np.arange(len(first), dtype=np.int32)
        return first, [same] * len(vocabularies)
    as_text = not all(vocabulary.is_integer for vocabulary in vocabularies)
    spelled = [v.ids.cast(pl.String) if as_text else v.ids for v in vocabularies]
    ids = pl.concat(spelled).unique().sort()
    table = pl.DataFrame({"id": ids, "idx": np.arange(len(ids), dtype=np.int32)})
    at = [s.alias("id").to_frame().join(table, on="id", how="left", maintain_order="left")["idx"] for s in spelled]
    return Vocabulary(ids, what), [column.to_numpy() for column in at]


def _labels(logs: Sequence[Interactions], items: Vocabulary) -> pl.Series | None:
    """Titles by item; if logs differ, the first title is used."""
    titled = [log for log in logs if log.item_labels is not None]
    if not titled:
        return None
    tables = [pl.DataFrame({"id": log.items.ids.cast(pl.String), "label": log.item_labels}) for log in titled]
    table = pl.concat(tables).drop_nulls().unique("id", keep="first", maintain_order=True)
    ids = items.ids.cast(pl.String).alias("id").to_frame()
    return ids.join(table, on="id", how="left", maintain_order="left")["label"]
