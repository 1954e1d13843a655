"""Working through cells: cells that share a fit are fitted once, and stored results are reused.

Other processes with the same store share the work. A fit is claimed by a lock that is released when its process ends,
so others take over what a killed process had started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from purerec.errors import PurerecError
from purerec.evaluation.protocols import evaluate
from purerec.experiments.cells.cell import Cell, CellStore, digest
from purerec.experiments.cells.limits import OverdueError, at_most, duration
from purerec.experiments.results import RunResult
from purerec.experiments.run import run
from purerec.models.contract.recommender import Recommender
from purerec.training.history import Record
from purerec.training.run import Run

_LOOK_S = 0.5
"""How often to check whether another process has finished what it claimed"""
_SHOW_S = 0.1
"""How often to show a running fit"""


@dataclass(frozen=True)
class Progress:
    """The progress of the work."""

    total: int
    done: int
    """Cells that have a result, including those that had one before."""
    reused: int
    """Cells that had a result before."""
    failed: int
    running: str | None
    """What is being fitted here: model, data, seed, epoch."""
    elsewhere: int
    """Cells that other processes have claimed."""
    seconds: float
    """Since the work started."""
    seconds_left: float | None
    """An estimate from the times measured so far, if any."""
    line: str | None = None
    """Something worth a line in a log."""
    problem: bool = False
    """True if the line reports that a model failed or was stopped."""

    @property
    def left(self) -> int:
        return self.total - self.done - self.failed


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """Ignore the progress."""


class Worklist:
    """Cells and their results."""

    def __init__(
        self,
        cells: Iterable[Cell],
        store: CellStore | None,
        *,
        watch: Watch = unwatched,
        limit_s: float | None = None,
    ) -> None:
        """`limit_s` applies to all seeds of a model together."""
        self.cells, self.store, self.watch, self.limit_s = list(cells), store, watch, limit_s
        self.results: dict[Cell, RunResult] = {}
        self.failed: dict[Cell, str] = {}
        self.stopped: set[Cell] = set()
        """Failed cells that took too long."""
        self._fits: dict[str, list[Cell]] = {}
        for cell in self.cells:
            self._fits.setdefault(digest(cell.fit), []).append(cell)
        self._reasons: dict[tuple[int, str], tuple[str, bool]] = {}
        self._spent: dict[tuple[int, str], float] = {}
        self._waiting: list[list[Cell]] = []
        self._running: tuple[Sequence[Cell], float, float] | None = None
        self._shown, self._began = 0.0, time.monotonic()
        for cell in self.cells:
            self._look_up(cell)
        self.reused = len(self.results)

    def run(self, cells: Sequence[Cell] | None = None) -> None:
        """Finish these cells, or all of them."""
        wanted = {digest(cell.fit) for cell in (self.cells if cells is None else cells)}
        fits = [fit for name, fit in self._fits.items() if name in wanted]
        if cells is None or not self._shown:
            self._tell(f"{self.reused} of {len(self.cells)} results were there already" if self.reused else None)
        self._waiting = [fit for fit in fits if self._is_open(fit) and not self._try(fit)]
        while self._waiting:
            self._waiting = [fit for fit in self._waiting if not self._try(fit)]
            if self._waiting:
                self._tell()
                time.sleep(_LOOK_S)
        self._tell()

    def _is_open(self, fit: Sequence[Cell]) -> bool:
        return any(cell not in self.results and cell not in self.failed for cell in fit)

    def _try(self, fit: Sequence[Cell]) -> bool:
        """Run a fit unless another process has claimed it; return whether it is done."""
        if self.store is None:
            self._do(fit)
            return True
        with self.store.claimed(fit[0]) as ours:
            for cell in fit:  # another process may have finished it since
                self._look_up(cell)
            if ours and self._is_open(fit):
                self._do([cell for cell in fit if cell not in self.results])
            return not self._is_open(fit)

    def _look_up(self, cell: Cell) -> None:
        found = self.store.get(cell) if self.store is not None and cell not in self.results else None
        if found is not None:
            self.results[cell] = found
            self._spend(cell, found.fit_seconds)

    def _do(self, fit: Sequence[Cell]) -> None:
        lanes = {cell.lane for cell in fit}
        known = next((self._reasons[lane] for lane in lanes if lane in self._reasons), None) or self._no_time(fit[0])
        if known is None:
            began = time.monotonic()
            self._running = fit, began, 0.0
            self._tell()
            try:
                self._fit_and_evaluate(fit)
            except OverdueError as error:
                known = str(error), True
            except Exception as error:  # any error: it does not concern the other models
                known = _reason(error), False
            self._running = None
            if known is not None:
                name = fit[0].plan.name
                self._tell(f"{name} {known[0]}" if known[1] else f"{name} failed: {known[0]}", problem=True)
        if known is not None:
            for cell in fit:
                if cell not in self.results:
                    self.failed[cell] = known[0]
                    self._reasons[cell.lane] = known
                    if known[1]:
                        self.stopped.add(cell)

    def _no_time(self, cell: Cell) -> tuple[str, bool] | None:
        """The reason not to start, if less time is left than the last seed took."""
        spent = self._spent.get(cell.lane, 0.0)
        usual = self._usual(cell)
        if self.limit_s is None or spent + (usual or 0.0) <= self.limit_s:
            return None
        return f"stopped after {duration(spent)}: another seed would pass the limit of {duration(self.limit_s)}", True

    def _fit_and_evaluate(self, fit: Sequence[Cell]) -> None:
        cell = fit[0]
        model = cell.plan.make()
        left = None if self.limit_s is None else self.limit_s - self._spent.get(cell.lane, 0.0)
        epochs = getattr(model.config, "epochs", None)
        with at_most(left, epochs) as check:

            def after_epoch(record: Record) -> None:
                self._show_epoch(record, epochs)
                check(record)

            first = run(cell.split, model, options=Run(callbacks=(after_epoch,)), way=cell.way, **cell.evaluation)
        known = {digest(cell.key): first}
        self._finish(cell, first)
        for other in fit[1:]:
            name = digest(other.key)  # two tables may share a cell
            known[name] = known.get(name) or _evaluated(first, model, other)
            self._finish(other, known[name])

    def _finish(self, cell: Cell, result: RunResult) -> None:
        if self.store is not None:
            self.store.put(cell, result)
        self.results[cell] = result
        self._spend(cell, result.fit_seconds)
        self._tell(f"{_named(cell)}: {cell.metric} {result.evaluation.metrics[cell.metric]:.4f}")

    # ------------------------------------------------------------------ time

    def _spend(self, cell: Cell, seconds: float) -> None:
        if self.limit_s is not None and cell.fit["seed"] in (cell.seed, None):
            once = cell.fit["seed"] is None and cell.lane in self._spent
            self._spent[cell.lane] = self._spent.get(cell.lane, 0.0) + (0.0 if once else seconds)

    def _usual(self, cell: Cell) -> float | None:
        """The time that a fit of this model on this split took."""
        found = [r.fit_seconds + r.evaluate_seconds for c, r in self.results.items() if c.lane == cell.lane]
        return float(np.mean(found)) if found else None

    def _seconds_left(self) -> float | None:
        """Estimate open fits from finished ones: of the same model on the same data, of the same model, or of any."""
        if not self.results:
            return None
        exact: dict[Any, list[float]] = {}
        for cell, result in self.results.items():
            seconds = result.fit_seconds + result.evaluate_seconds
            for kind in (cell.lane, cell.plan.model, None):
                exact.setdefault(kind, []).append(seconds)
        total = 0.0
        for fit in self._fits.values():
            if self._is_open(fit):
                kind = next(k for k in (fit[0].lane, fit[0].plan.model, None) if k in exact)
                total += float(np.mean(exact[kind]))
        if self._running is not None and self._is_open(self._running[0]):
            (cell, *_), began, share = self._running
            spent = time.monotonic() - began
            kind = next(k for k in (cell.lane, cell.plan.model, None) if k in exact)
            usual = float(np.mean(exact[kind]))
            # For the running fit, count only the remaining time, estimated from its epochs if it has any.
            rest = spent / share - spent if share > 0 else max(0.0, usual - spent)
            total += rest - usual
        return max(0.0, total)

    # ------------------------------------------------------------------ telling

    def _show_epoch(self, record: Record, epochs: int | None) -> None:
        if self._running is not None:
            share = (record.epoch + 1) / epochs if epochs else 0.0
            self._running = self._running[0], self._running[1], share
            if time.monotonic() - self._shown >= _SHOW_S:
                self._tell(epoch=f", epoch {record.epoch + 1} of {epochs}" if epochs else "")

    def _tell(self, line: str | None = None, *, problem: bool = False, epoch: str = "") -> None:
        self._shown = time.monotonic()
        running = None if self._running is None else _named(self._running[0][0]) + epoch
        elsewhere = sum(cell not in self.results for fit in self._waiting for cell in fit)
        self.watch(
            Progress(
                total=len(self.cells),
                done=len(self.results),
                reused=self.reused,
                failed=len(self.failed),
                running=running,
                elsewhere=elsewhere,
                seconds=self._shown - self._began,
                seconds_left=self._seconds_left(),
                line=line,
                problem=problem,
            )
        )


def finish(cells: Sequence[Cell], store: CellStore | None, watch: Watch = unwatched) -> dict[Cell, RunResult]:
    """The results of all these cells; raises an error if one fails."""
    work = Worklist(cells, store, watch=watch)
    work.run()
    for cell, reason in work.failed.items():
        raise PurerecError(f"{_named(cell)}: {reason}")
    return work.results


def _named(cell: Cell) -> str:
    how = "" if cell.protocol == "exact" else f", {cell.protocol}"
    return f"{cell.plan.name} on {cell.split.train.name}{how}, seed {cell.seed}"


def _evaluated(first: RunResult, model: Recommender, cell: Cell) -> RunResult:
    """Evaluate another cell's model in the way of this cell."""
    began = time.perf_counter()
    found = evaluate(model, cell.split, **cell.evaluation)
    return replace(first, seed=cell.seed, evaluation=found, evaluate_seconds=time.perf_counter() - began)


def _reason(error: Exception) -> str:
    if isinstance(error, PurerecError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory; use fewer users, items or dimensions"
    what = next(iter(getattr(error, "__notes__", [])), "internal error")  # a note names third-party code
    return f"{what}: {type(error).__name__}: {error}"
