"""Cells: the units of a comparison or table. Each is one model on one split, with one seed and one evaluation.

A cell is identified by everything that determines its result. Finished cells are kept in a `CellStore`: an
interrupted run continues where it stopped, a changed setting reruns only its own cells, and several processes can
share the work.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from purerec import storage
from purerec.data.splits import Split
from purerec.errors import StoreError
from purerec.evaluation.code_digest import code_of, code_of_metric
from purerec.evaluation.protocols import Evaluation, Protocol
from purerec.experiments.plans import Plan
from purerec.experiments.results import RunResult
from purerec.experiments.run import Way


@dataclass(frozen=True, eq=False)
class Cell:
    """One model on one split: fitted with one seed, evaluated in one way."""

    plan: Plan
    split: Split
    seed: int
    protocol: Protocol
    pool: int
    """Random candidates per user, if the protocol samples them."""
    metrics: tuple[str, ...]
    metric: str
    """The metric shown as progress; all are measured."""
    way: Way | None = None
    """How the model gets its scores; None: it is fitted on the train part."""

    @cached_property
    def fit(self) -> dict[str, Any]:
        """Everything that the fitted model depends on; cells that share it need only one fit."""
        model = self.plan.make()
        split = self.split
        settings = model.config.model_dump(mode="json")
        own = _own_metrics([name] if (name := settings.get("metric")) else [])
        way = {} if self.way is None else {"way": self.way.facts | {"code": code_of(type(self.way))}}
        return (
            way
            | own
            | {
                "model": self.plan.model,
                "settings": settings,
                "seed": None if model.deterministic and self.way is None else self.seed,
                "data": split.train.name,
                "split": split.label,
                "parts": [
                    None if part is None else part.fingerprint for part in (split.train, split.valid, split.test)
                ],
                "code": code_of(type(model)),
            }
        )

    @cached_property
    def key(self) -> dict[str, Any]:
        """Everything that the result depends on."""
        pool = None if self.protocol == "exact" else self.pool
        return _own_metrics(self.metrics) | {
            "fit": self.fit,
            "protocol": self.protocol,
            "pool": pool,
            "metrics": list(self.metrics),
            "seed": self.seed,
        }

    @property
    def evaluation(self) -> dict[str, Any]:
        """Arguments of `evaluate`."""
        return {"protocol": self.protocol, "pool": self.pool, "metrics": self.metrics, "seed": self.seed}

    @property
    def lane(self) -> tuple[int, str]:
        """Shared by all seeds of a model on a split: they fail together."""
        return id(self.split), self.plan.name


def _own_metrics(names: Iterable[str]) -> dict[str, Any]:
    """The code of custom metrics, by name, if there are any."""
    found = {name: code for name in names if (code := code_of_metric(name)) is not None}
    return {"own_metrics": found} if found else {}


def digest(facts: Any) -> str:
    """A digest of JSON-compatible facts."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


_USERS = storage.Part(("n",), np.int64)


class CellStore:
    """Finished cells in a folder, one folder each, named by a digest of the cell's key.

    Each is written completely or not at all. A store that cannot be written or read (a full disk, a damaged record)
    does not stop a run: the cell is rerun.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        """`fresh`: ignore everything that this object has not written itself."""
        self.path = path
        self._written: set[Path] | None = set() if fresh else None

    def get(self, cell: Cell) -> RunResult | None:
        if self._written is not None and self._folder(cell) not in self._written:
            return None
        try:
            stored = storage.read_folder(self._folder(cell), kind="cell")
            layout = {n: storage.Part(("n",), np.float64) for n in stored.tensors} | {"user_idx": _USERS}
            storage.check_layout(stored.tensors, layout, {})
            per_user = {n.removeprefix("user."): a for n, a in stored.tensors.items() if n.startswith("user.")}
            facts = {**stored.manifest["evaluation"], "per_user": per_user, "user_idx": stored.tensors["user_idx"]}
            return RunResult(**stored.manifest["result"], evaluation=Evaluation(**facts))
        except (KeyError, TypeError, StoreError):
            return None

    def put(self, cell: Cell, result: RunResult) -> None:
        facts = {f.name: getattr(result, f.name) for f in fields(result) if f.name != "evaluation"}
        judged = result.evaluation
        evaluation = {
            f.name: getattr(judged, f.name) for f in fields(judged) if f.name not in ("per_user", "user_idx")
        }
        tensors = {f"user.{name}": values for name, values in judged.per_user.items()} | {"user_idx": judged.user_idx}
        manifest = {"key": cell.key, "result": facts, "evaluation": evaluation}
        with contextlib.suppress(StoreError):
            storage.write_folder(self._folder(cell), kind="cell", manifest=manifest, tensors=tensors)
            if self._written is not None:
                self._written.add(self._folder(cell))

    @contextlib.contextmanager
    def claimed(self, cell: Cell) -> Iterator[bool]:
        """Claim the fit of this cell; False while another process has it."""
        with contextlib.ExitStack() as stack:
            try:
                ours = stack.enter_context(storage.claimed(self.path / digest(cell.fit)))
            except StoreError:  # the folder is not writable, so nobody can claim anything
                ours = True
            yield ours

    def clear(self) -> None:
        storage.discard(self.path)

    def _folder(self, cell: Cell) -> Path:
        return self.path / digest(cell.key)
