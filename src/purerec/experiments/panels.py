"""A panel: models side by side on one split, evaluated in the same way. A table may have several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from purerec.data.splits import Split
from purerec.errors import ConfigError, PurerecError
from purerec.evaluation.choosing import MetricNames, check_choice, deciding_metric, default_metrics, parse_all
from purerec.evaluation.protocols import Protocol
from purerec.experiments.cells.cell import Cell, CellStore
from purerec.experiments.cells.work import Watch, Worklist, unwatched
from purerec.experiments.plans import Plan
from purerec.experiments.results import Comparison
from purerec.paper.printed import paper_row


@dataclass(frozen=True, eq=False)
class Panel:
    """Models with their settings, and how they are compared; see `make_panel`."""

    split: Split
    plans: Sequence[Plan]
    seeds: int
    baseline: str
    metric: str
    metrics: tuple[str, ...]
    protocol: Protocol
    pool: int
    notes: Mapping[str, str] = field(default_factory=dict)
    """Footnotes to rows."""

    @cached_property
    def cells(self) -> list[Cell]:
        """Seed by seed, so that every model has an early result."""
        return [
            Cell(plan, self.split, seed, self.protocol, self.pool, self.metrics, self.metric)
            for seed in range(self.seeds)
            for plan in self.plans
            if seed < (plan.seeds or self.seeds)
        ]

    def compared(self, work: Worklist) -> Comparison:
        """The comparison from finished cells. Failed models are left out; stopped ones keep their finished seeds."""
        results, failed, stopped = {}, {}, {}
        for plan in self.plans:
            own = [cell for cell in self.cells if cell.plan is plan]
            bad = [cell for cell in own if cell in work.failed]
            found = [work.results[cell] for cell in own if cell in work.results]
            if bad and bad[0] in work.stopped:
                stopped[plan.name] = work.failed[bad[0]]
            elif bad:
                failed[plan.name] = work.failed[bad[0]]
                continue
            if found:
                results[plan.name] = found
        if not results:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in {**failed, **stopped}.items())
            raise PurerecError(f"no model could be compared: {reasons}")
        against = self.baseline
        if against not in results:
            against = next(iter(results))
            why = failed if self.baseline in failed else stopped
            why[self.baseline] += f"; the others are tested against {against}"
        return Comparison(
            self.split.train.name,
            self.metric,
            against,
            results,
            self._printed(),
            failed,
            stopped,
            self.notes,
        )

    def _printed(self) -> dict[str, dict[str, float]]:
        """The paper's rows for models compared as in its Table 2, the only one made with a sound evaluator."""
        if self.split.train.name != "ml-100k" or self.split.label != "u1" or self.protocol != "exact":
            return {}
        rows = {plan.name: paper_row("ml-100k", plan.name) for plan in self.plans}
        return {name: row for name, row in rows.items() if row is not None}


def make_panel(
    split: Split,
    plans: Sequence[Plan],
    *,
    seeds: int = 5,
    baseline: str | None = None,
    metrics: MetricNames | None = None,
    metric: str | None = None,
    protocol: Protocol = "exact",
    pool: int = 500,
    notes: Mapping[str, str] | None = None,
) -> Panel:
    """A panel with the defaults filled in; errors are reported before anything is fitted.

    `metrics` are reported, and models are tested in `metric`; the defaults of both depend on the data set.
    """
    asked = None if metrics is None else [m.name for m in parse_all(metrics)]
    metric = check_choice(asked, metric, protocol) or deciding_metric(split.train.name, asked)
    names = [plan.name for plan in plans]
    if not names or len(set(names)) < len(names):
        raise ConfigError("give at least one model to compare, and each once")
    for plan in plans:
        plan.make()
    against = ("pure" if "pure" in names else names[0]) if baseline is None else baseline
    if against not in names:
        raise ConfigError(f"{against!r} is not among the models compared ({', '.join(names)})")
    reported = tuple(dict.fromkeys([*(asked or default_metrics(split.train.name)), metric]))
    return Panel(split, tuple(plans), seeds, against, metric, reported, protocol, pool, notes or {})


def compare_panel(
    panel: Panel, *, store: CellStore | None = None, watch: Watch = unwatched, limit_s: float | None = None
) -> Comparison:
    """Fit and evaluate all models of a panel, reusing results in the store.

    A model that fails with any error is reported and left out. If it is the baseline, the first of the others
    replaces it.
    """
    work = Worklist(panel.cells, store, watch=watch, limit_s=limit_s)
    work.run()
    return panel.compared(work)
