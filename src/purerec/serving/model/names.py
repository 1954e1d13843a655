"""Ids and titles, decoded one by one from memory that all workers share.

A response names about ten items. Looking them up in a polars column takes longer than finding the items, and lists of
Python strings would copy the whole catalogue into every worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from purerec.types import Array


class Names:
    """Strings, or integers as strings, by position; None if missing."""

    def __init__(self, name: str, tensors: Mapping[str, Array]) -> None:
        self._numbers: Any = None
        self._null: Any = None
        self._count = 0
        if name in tensors:
            # Elements of a memoryview are plain Python numbers, and faster to get than those of an array.
            self._numbers = tensors[name].data
        elif f"{name}.ends" in tensors:
            self._bytes, self._ends = tensors[f"{name}.bytes"].data, tensors[f"{name}.ends"].data
            self._count = len(self._ends)
            if f"{name}.null" in tensors:
                self._null = tensors[f"{name}.null"].data

    def __getitem__(self, idx: int) -> str | None:
        if self._numbers is not None:
            return str(self._numbers[idx])
        if not self._count or (self._null is not None and self._null[idx]):
            return None
        start = self._ends[idx - 1] if idx else 0
        return str(self._bytes[start : self._ends[idx]], "utf-8")
