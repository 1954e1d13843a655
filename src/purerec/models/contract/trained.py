"""What a model fitted in epochs has learned, and how the fit went."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from purerec.data.pairs import Csr
from purerec.training.history import History
from purerec.types import State


@dataclass(frozen=True, eq=False)
class Trained:
    """The parameters after the last epoch, or the best; a model replaces it as a whole."""

    params: State
    chosen: Mapping[str, float] = field(default_factory=dict)
    """Settings that the fit decided, apart from the width of the parameters"""
    history: History | None = None
    stored_curve: list[dict[str, float]] | None = None
    """The history of a loaded model, as stored in its folder"""
    stopped_by: Csr | None = None
    """The validation positives that decided how long the fit took, if any; `evaluate` refuses to test on them"""

    @property
    def curve(self) -> list[dict[str, float]] | None:
        """The history as a folder stores it."""
        return self.stored_curve if self.history is None else self.history.thinned()

    def also_stopped_by(self, positives: Csr) -> Self:
        """The same, of a fit whose length these positives decided, too."""
        return replace(self, stopped_by=positives if self.stopped_by is None else self.stopped_by.union(positives))

    def digest(self) -> str:
        """A short checksum of the parameters."""
        found = hashlib.sha256()
        for name, array in sorted(self.params.items()):
            found.update(f"{name} {array.dtype} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()[:16]
