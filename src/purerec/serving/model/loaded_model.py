"""The model being served, and how it is replaced.

A request reads `holder.current` once and keeps it until it is done: a swap never affects a list in progress, and the
old model is freed after the last request that uses it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from purerec.errors import PurerecError, StoreError
from purerec.models.contract.rules import ListRules
from purerec.models.registry import restore_model
from purerec.serving.model.columns import describe_columns
from purerec.serving.model.names import Names
from purerec.serving.model.search import ItemSearch, UserSearch
from purerec.storage import Snapshot, take_snapshot

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender

_TRIES = 3
_PAUSE_S = 0.1


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model that is ready to answer, with what it prepared."""

    model: Recommender
    manifest: dict[str, Any]
    version: str
    item_ids: Names
    labels: Names

    @cached_property
    def item_search(self) -> ItemSearch:
        return ItemSearch(self.model.items, self.model.labels, self.model.popularity())

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """What a client needs to know about the item table to write conditions."""
        table = self.model.item_table
        return [] if table is None else describe_columns(table)

    @cached_property
    def user_search(self) -> UserSearch:
        return UserSearch(self.model.users)

    def warm_up(self) -> None:
        """Prepare everything that the first request would wait for, and check that the model can answer at all."""
        model = self.model
        k = min(10, len(model.items))
        model.users.find("")
        model.items.find("")
        if len(model.users):
            model.top_for_users(np.zeros(1, dtype=np.int64), k)
            model.top_for_users(np.zeros(1, dtype=np.int64), k, exclude=np.zeros(1, dtype=np.int32))
        if len(model.items):
            one = np.zeros(1, dtype=np.int32)
            rules = ListRules(diversity=0.5, cold_items=0 if model.item_table is None else 1)
            for answer in (
                lambda: model.top_for_history(one, k, rules=rules),
                lambda: model.top_for_history(one, k),
                lambda: model.top_similar(0, k),
                lambda: model.reasons_for_history(one, len(model.items) - 1),
            ):
                with contextlib.suppress(PurerecError):  # some models cannot do all of them
                    answer()
        _ = self.columns
        self.item_search.find("a", 1)
        self.user_search.find("1", 1)


def load(snapshot: Snapshot, where: str) -> Loaded:
    """A model from a snapshot, warmed up."""
    try:
        stored = snapshot.map()
        loaded = Loaded(
            restore_model(stored, where),
            snapshot.manifest,
            version_of(snapshot.manifest),
            Names("item.ids", stored.tensors),
            Names("item.labels", stored.tensors),
        )
        # When no longer used, its memory must be freed immediately. A model that refers to itself would wait for the
        # garbage collector, which does not know how much memory is mapped.
        weakref.finalize(loaded, vars(loaded.model).clear)
        loaded.warm_up()
    except PurerecError:
        raise
    except Exception as error:
        raise _unusable(where, error) from None
    return loaded


def snapshot_model(folder: str | os.PathLike[str]) -> Snapshot:
    """A snapshot of a model folder; if the folder is being replaced, wait for it."""
    for left in reversed(range(_TRIES)):
        try:
            snapshot = take_snapshot(folder, kind="model")
        except StoreError:
            if not left:
                raise
            time.sleep(_PAUSE_S)
        except Exception as error:
            raise _unusable(os.fspath(folder), error) from None
        else:
            return snapshot
    raise AssertionError


def _unusable(where: str, error: Exception) -> StoreError:
    """For any failure, including RecursionError and MemoryError: a folder never takes a service down."""
    return StoreError(f"{where}: the model cannot be used ({type(error).__name__}: {error}); fit it again")


def version_of(manifest: dict[str, Any]) -> str:
    """A short identifier of exactly this model: its settings, data and (through their checksum) parameters."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:12]


def reload_answer(before: str, after: str) -> dict[str, Any]:
    """The response to a reload."""
    return {"model": after, "previous": before, "changed": before != after}


class Holder:
    """Holds the current model."""

    def __init__(self) -> None:
        self.current: Loaded | None = None
        self.since: float = 0.0
        self._lock = threading.Lock()

    def swap(self, loaded: Loaded) -> None:
        with self._lock:
            self.current, self.since = loaded, time.time()
