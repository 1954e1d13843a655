"""What a page needs to know about an item table to offer conditions on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from purerec.data.items.columns import Numbers, Tags, Words
from purerec.data.items.table import ItemTable

_VALUES = 100
_LONGEST = 60
"""Maximum length of a value that is offered as a choice, in characters"""


def describe_columns(table: ItemTable) -> list[dict[str, Any]]:
    """A record for each column."""
    return [
        {"name": name, "kind": column.kind, "is_image": name == table.image} | _range(column, len(table))
        for name, column in table.columns.items()
    ]


def _range(column: Any, n: int) -> dict[str, Any]:
    if isinstance(column, Numbers):
        there = column.values[~np.isnan(column.values)]
        return {"least": float(there.min()), "most": float(there.max())} if len(there) else {}
    if not isinstance(column, Words | Tags) or len(column.words) > max(n / 2, 10):
        return {}
    counts = np.bincount(column.groups()[1], minlength=len(column.words))
    frequent = [n for n in np.argsort(-counts, kind="stable")[:_VALUES].tolist() if counts[n]]
    return {"values": [word for word in (column.words[n] for n in frequent) if len(word) <= _LONGEST]}
