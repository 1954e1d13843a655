"""The history of a fit: a record for every epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

TIME_LIMIT = "time limit"
"""Start of the reason why a fit ended before its last epoch"""
_ROWS = 1 << 14
Measures = dict[str, float | str]
"""What a fit reports about an epoch: loss, norms and other quantities worth plotting, and its `phase`."""


def mean_norms(vectors: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
    """Mean row norms of `user` and `item`, which reveal a fit that diverges; infinite if they overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        return {f"{side}_norm": float(_norms(vectors[side]).mean()) for side in ("user", "item")}


def _norms(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(n,) the length of each row, without a temporary of the size of a large table."""
    found = np.empty(len(rows), rows.dtype)
    for start in range(0, len(rows), _ROWS):
        part = slice(start, start + _ROWS)
        found[part] = np.linalg.norm(rows[part], axis=1)
    return found


@dataclass(frozen=True)
class Record:
    """One epoch."""

    epoch: int
    """From 0"""
    values: Mapping[str, float]
    """Numbers by name: loss, norms, the validation metric. They need not be finite."""
    phase: str = "fitting"
    seconds: float = 0.0
    """Since the fit began"""

    @classmethod
    def of(cls, epoch: int, measures: Mapping[str, Any], seconds: float = 0.0) -> Self:
        values = dict(measures)
        phase = values.pop("phase", cls.phase)
        for name, value in {"phase": phase, **values}.items():
            if not isinstance(value, str if name == "phase" else int | float):
                raise TypeError(f"epoch {epoch} has {name} = {value!r}")
        return cls(epoch, values, phase, seconds)

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        values = dict(facts)
        epoch, seconds = values.pop("epoch"), values.pop("seconds")
        if type(epoch) is not int or not isinstance(seconds, int | float):
            raise TypeError(f"epoch {epoch!r} has seconds = {seconds!r}")
        return cls.of(epoch, values, seconds)

    def to_dict(self) -> dict[str, Any]:
        """As one flat dict, the form used in logs and checkpoints."""
        return {"epoch": self.epoch, "phase": self.phase, **self.values, "seconds": self.seconds}


@dataclass
class History:
    """One record per epoch, and which epoch was the best."""

    records: list[Record] = field(default_factory=list)
    metric: str = "P@5"
    """What was measured on validation data, if there was any."""
    best_epoch: int | None = None
    best_metric: float = -math.inf
    stopped: str = "all epochs done"

    def curve(self, name: str) -> list[tuple[int, float]]:
        """(epoch, value) pairs of one quantity, where it was recorded and finite."""
        found = [(record.epoch, record.values[name]) for record in self.records if name in record.values]
        return [(epoch, float(value)) for epoch, value in found if math.isfinite(value)]

    @property
    def bad_rounds(self) -> int:
        """Validations since the best one."""
        if self.best_epoch is None:
            return 0
        return sum(r.epoch > self.best_epoch for r in self.records if self.metric in r.values)

    def thinned(self, most: int = 200) -> list[dict[str, float]]:
        """Finite values of about `most` epochs, evenly spread up to the last: enough to draw curves from."""
        step = max(1, -(-len(self.records) // most))
        return [
            {"epoch": record.epoch}
            | {name: _rounded(value) for name, value in record.values.items() if math.isfinite(value)}
            for record in self.records[::-1][::step][::-1]
        ]


def _rounded(value: float) -> float:
    return float(f"{value:.6g}") if isinstance(value, float) else value
