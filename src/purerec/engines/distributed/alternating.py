"""iALS by several processes: each solves for its own users, then for its own items, with the other side fixed.

The Gram matrix of the fixed side is the sum over the processes' rows. The systems are the same as in one process, and
so are the solutions, up to the rounding of that sum. The fixed side is sent to all processes before each half-step,
and their solutions are sent back to the first.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from purerec.engines.distributed.group import Arrays, Group, current_group
from purerec.engines.ials import AlternationSide
from purerec.types import F32, F64

_TAGS = {"user": 0, "item": 8}
"""First tag of each side's arrays"""
_OTHER = {"user": "item", "item": "user"}


class Solver(Protocol):
    """The interface that an epoch of iALS needs."""

    def solve(self, side: str, fixed: F32, out: F32, alpha: float, dim: int) -> None: ...


class LocalSolver:
    """Solves in one process."""

    def __init__(self, sides: dict[str, AlternationSide]) -> None:
        self._sides = sides

    def solve(self, side: str, fixed: F32, out: F32, alpha: float, dim: int) -> None:
        self._sides[side].solve(fixed, out, alpha, dim)


def solver(sides: dict[str, AlternationSide]) -> Solver:
    """A solver shared with the current group of processes, or for this process alone."""
    group = current_group()
    return LocalSolver(sides) if group is None else lead(group, sides)


class SharedSolver:
    """The rows of one process. `cuts`: where the rows of each process start, and the number of rows, by side."""

    def __init__(self, group: Group, sides: dict[str, AlternationSide], cuts: dict[str, list[int]]) -> None:
        self._group, self._sides, self._cuts = group, sides, cuts

    def solve(self, side: str, fixed: F32, out: F32, alpha: float, dim: int) -> None:
        """In the first process, which has both sides in full."""
        self._group.tell({"do": "half", "side": side, "alpha": alpha, "dim": dim, "width": fixed.shape[1]})
        own = self._solved(side, fixed, alpha, dim)
        first, last = self._rows(side, 0)
        out[first:last] = own
        into = [
            (worker, _TAGS[side], out[slice(*self._rows(side, worker))].reshape(-1))
            for worker in range(1, self._group.size)
        ]
        self._group.exchange([], into)

    def do(self, told: dict[str, Any]) -> None:
        """In the other processes."""
        side, width = told["side"], told["width"]
        fixed = np.zeros((self._cuts[_OTHER[side]][-1], width), np.float32)
        own = self._solved(side, fixed, told["alpha"], told["dim"])
        self._group.exchange([(0, _TAGS[side], own.reshape(-1))], [])

    def _solved(self, side: str, fixed: F32, alpha: float, dim: int) -> F32:
        self._group.spread(fixed, 0)
        first, last = self._rows(_OTHER[side], self._group.rank)
        part = fixed[first:last].astype(np.float64)
        gram: F64 = part.T @ part
        self._group.add_up(gram)
        first, last = self._rows(side, self._group.rank)
        own = np.zeros((last - first, fixed.shape[1]), np.float32)
        self._sides[side].solve(fixed, own, alpha, dim, gram=(alpha * gram).astype(np.float32))
        return own

    def _rows(self, side: str, worker: int) -> tuple[int, int]:
        return self._cuts[side][worker], self._cuts[side][worker + 1]


# ---------------------------------------------------------------------- setup


def lead(group: Group, sides: dict[str, AlternationSide]) -> SharedSolver:
    """Set up the first process, which sends the others their rows."""
    cuts = {name: _cuts(side, group.size) for name, side in sides.items()}
    group.tell({"do": "begin", "what": "alternation", "cuts": cuts})
    for worker in range(1, group.size):
        for name, side in sides.items():
            arrays = _arrays(side, *cuts[name][worker : worker + 2])
            group.exchange([(worker, _TAGS[name], np.array([len(arrays[1])]))], [])
            group.exchange([(worker, _TAGS[name] + n + 1, array) for n, array in enumerate(arrays)], [])
    own = {name: AlternationSide(*_arrays(side, 0, cuts[name][1])) for name, side in sides.items()}
    return SharedSolver(group, own, cuts)


def follow(group: Group, told: dict[str, Any]) -> SharedSolver:
    """In the other processes."""
    cuts, sides = told["cuts"], {}
    for name in _TAGS:
        n = cuts[name][group.rank + 1] - cuts[name][group.rank]
        size = np.zeros(1, np.int64)
        group.exchange([], [(0, _TAGS[name], size)])
        arrays = np.zeros(n + 1, np.int64), np.zeros(int(size[0]), np.int32), np.zeros(n, np.float32)
        group.exchange([], [(0, _TAGS[name] + k + 1, array) for k, array in enumerate(arrays)])
        sides[name] = AlternationSide(*arrays)
    return SharedSolver(group, sides, cuts)


def _cuts(side: AlternationSide, n: int) -> list[int]:
    """Where to split rows so that each process has about the same number of positives."""
    inner = np.searchsorted(side.indptr, np.linspace(0, len(side.indices), n + 1)[1:-1])
    return [0, *np.maximum.accumulate(inner).tolist(), len(side.penalty)]


def _arrays(side: AlternationSide, first: int, last: int) -> tuple[Arrays, Arrays, Arrays]:
    """Some of the rows, numbered from 0."""
    start, stop = side.indptr[first], side.indptr[last]
    indptr = side.indptr[first : last + 1] - start
    return indptr, np.array(side.indices[start:stop]), np.array(side.penalty[first:last])
