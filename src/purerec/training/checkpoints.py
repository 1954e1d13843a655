"""The state of a fit on disk, from which an interrupted fit resumes bit for bit.

If several processes share a fit, each writes its own part of the state. All parts, and the manifest that lists
them, go to a new folder, which replaces the old one when it is complete, so a set is either complete or absent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from purerec import storage
from purerec.errors import StoreError
from purerec.training.history import History, Record
from purerec.training.run import SharedTrainable, Trainable
from purerec.types import State

CHECKPOINT = "checkpoint"
"""The kind of folder that holds checkpoints"""


_OTHERS = {"start": "that continues from another model", "valid": "with another validation part"}
"""Facts of a run that are known by a checksum only"""


class _OfAnotherRun(StoreError):
    """A checkpoint of another run."""


class Checkpoints:
    """The checkpoints of one run, which only the same run can read."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], metric: str) -> None:
        self.folder, self.metric = folder, metric
        self.identity = json.loads(json.dumps(identity))

    def write(self, trainable: Trainable, number: int, history: History, best: State | None) -> None:
        manifest: dict[str, Any] = {
            "identity": self.identity,
            "next_epoch": number,
            "records": [record.to_dict() for record in history.records],
            "best_epoch": history.best_epoch,
            "best_metric": history.best_metric if history.best_epoch is not None else None,
            "stopped": history.stopped,
        }
        with storage.new_folder(self.folder, kind=CHECKPOINT) as work:
            shared = _shared(trainable)
            now, parts = (trainable.state(), {}) if shared is None else shared.write_parts(work, number)
            tensors = {f"now.{name}": array for name, array in now.items()}
            tensors |= {f"best.{name}": array for name, array in (best or {}).items()}
            manifest |= {"parts": dict(parts)}
            storage.complete_folder(work, kind=CHECKPOINT, manifest=manifest, tensors=tensors)

    def resume(self, trainable: Trainable) -> tuple[int, History, State | None] | None:
        """Restore a trainable from the checkpoint, if any; returns the next epoch, the history and the best state."""
        if storage.check_target(self.folder, kind=CHECKPOINT) is None:
            return None
        stored = storage.read_folder(self.folder, kind=CHECKPOINT)
        try:
            self._check_identity(stored.manifest["identity"])
            number, history = self._history(stored.manifest)
            now, best, parts = self._states(stored, trainable)
        except _OfAnotherRun:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, StoreError) as error:
            raise StoreError(f"{self.folder} is not a valid checkpoint ({error}); fit without --resume") from None
        if shared := _shared(trainable) if parts else None:
            shared.restore_parts(now, self.folder, parts, number)
        else:
            trainable.restore(now, number)
        return number, history, best or None

    def _check_identity(self, found: Mapping[str, Any]) -> None:
        for name, value in self.identity.items():
            before = found.get(name)
            if before != value and name in _OTHERS:
                raise _OfAnotherRun(
                    f"{self.folder}: the checkpoint is of a fit {_OTHERS[name]}, or none; resume with the same, or "
                    "remove it"
                )
            if before != value:
                what, was, now = _difference(name, before, value)
                raise _OfAnotherRun(
                    f"{self.folder}: the checkpoint is of another run ({what} was {brief(was)}, now {brief(now)}); "
                    "resume with the same settings, or remove it"
                )

    def _history(self, facts: Mapping[str, Any]) -> tuple[int, History]:
        records = [Record.read(record) for record in facts["records"]]
        if [record.epoch for record in records] != list(range(facts["next_epoch"])):
            raise ValueError("its records are not those of the epochs before")
        history = History(records, self.metric, facts["best_epoch"], stopped=str(facts["stopped"]))
        if history.best_epoch is not None:
            if history.best_epoch not in range(len(records)):
                raise ValueError(f"its best epoch is {history.best_epoch!r}")
            history.best_metric = float(facts["best_metric"])
        return facts["next_epoch"], history

    def _states(self, stored: storage.Stored, trainable: Trainable) -> tuple[State, State, dict[str, str]]:
        """The last state, the best one if any, and the parts of the last that other processes have to read."""
        now = {n.removeprefix("now."): a for n, a in stored.tensors.items() if n.startswith("now.")}
        best = {n.removeprefix("best."): a for n, a in stored.tensors.items() if n.startswith("best.")}
        parts: dict[str, str] = stored.manifest.get("parts", {})
        storage.check_complete(self.folder, parts)
        was_shared, is_shared = bool(parts), _shared(trainable) is not None
        if was_shared and not is_shared:
            now, parts = now | storage.whole_state(self.folder, parts), {}
        whole = [state for state in ({} if parts else now, best) if state]
        if not whole:
            return now, best, parts
        expected = {name: storage.Part(array.shape, array.dtype.type) for name, array in trainable.state().items()}
        if was_shared != is_shared and now.keys() != expected.keys():
            if was_shared:
                raise _OfAnotherRun(f"{self.folder} was written by workers; resume with --workers 1 or more")
            raise _OfAnotherRun(f"{self.folder} was written by one process; resume without --workers")
        for state in whole:
            storage.check_layout(state, expected, {})
        return now, best, parts

    def how_to_resume(self) -> str:
        return f"saved in {self.folder}; run the command again with --resume to continue"


def _shared(trainable: Trainable) -> SharedTrainable | None:
    return trainable if isinstance(trainable, SharedTrainable) and trainable.is_shared() else None


def _difference(name: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """Where two values differ; for tables, the first entry that does."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in [*now, *before]:
            if before.get(key) != now.get(key):
                return _difference(str(key), before.get(key), now.get(key))
    return name, before, now


def brief(value: Any) -> str:
    """A setting as part of a sentence."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
