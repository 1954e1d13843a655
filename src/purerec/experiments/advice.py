"""The conclusion of a comparison: which model to use, how certain that is, and the caveats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from purerec.errors import counted
from purerec.evaluation.metrics import parse
from purerec.experiments.cells.limits import duration

if TYPE_CHECKING:
    from purerec.evaluation.significance import Row
    from purerec.experiments.results import Comparison

FEW_USERS = 100
"""A result based on fewer users comes with a warning"""
_SHORT_S = 2
"""Fits up to this long are fast enough."""


def advice(found: Comparison) -> str:
    """One sentence."""
    best = found.best
    if len(found.results) == 1:
        return f"Only {best} was tried."
    rivals = [row for row in found.tests(best) if row.model != best]
    level = [row.model for row in rivals if row.verdict == "no difference"]
    if not level:
        what = f"it beats every other model in {found.metric} over {counted(found.users, 'person', 'people')}"
        return f"Use {best}: {what}; {_next(rivals)}."
    quick = min([best, *level], key=found.fit_seconds)
    also = ""
    if found.fit_seconds(quick) < found.fit_seconds(best) / 2 and found.fit_seconds(best) > _SHORT_S:
        times = duration(found.fit_seconds(quick)), duration(found.fit_seconds(best))
        also = f"; {quick} takes {times[0]} to fit where {best} takes {times[1]}"
    return (
        f"Use {best}, though {_listed(level)} {'is' if len(level) == 1 else 'are'} not significantly different in "
        f"{found.metric} over {counted(found.users, 'person', 'people')}{also}."
    )


def doubts(found: Comparison) -> list[str]:
    """What to know before following the advice."""
    said = []
    if disagreement := _other_winners(found):
        said.append(disagreement)
    if found.users < FEW_USERS:
        said.append(f"based on {counted(found.users, 'user')}; with so few, only large differences are significant")
    said += [f"{name} failed and is left out: {reason}" for name, reason in found.failed.items()]
    for name, reason in found.stopped.items():
        runs = len(found.results.get(name, ()))
        what = f"has {runs} of {found.seeds} seeds" if runs else "is left out"
        said.append(f"{name} {what}: {reason}")
    return said


def costs_and_tests(found: Comparison) -> tuple[list[str], list[list[Any]]]:
    """For each model, its difference from the baseline with interval and verdict, its time and its memory."""
    tests = {row.model: row for row in found.tests()}
    headings = ["model", f"{found.metric} - {found.baseline}", "95 % interval", "p (Holm)", "verdict"]
    lines = []
    for name, results in found.results.items():
        test = tests.get(name)
        cells = ["", "", "", "baseline" if name == found.baseline else ""]
        if test is not None and name != found.baseline:
            interval = f"[{_signed(test.ci_low)}, {_signed(test.ci_high)}]"
            cells = [_signed(test.difference), interval, p_value(test.p_holm), test.verdict]
        peak, added = (max(0.0, *(getattr(r, what) for r in results)) for what in ("peak_rss_mb", "added_mb"))
        lines.append([name, *cells, f"{found.fit_seconds(name):.2f}", f"{peak:,.0f}", f"{added:,.0f}"])
    return [*headings, "fit s", "peak MB", "added MB"], lines


def _signed(value: float) -> str:
    text = f"{value:+.4f}"
    return text if float(text) else "0.0000"


def p_value(p: float) -> str:
    """A p-value as it is usually written."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _next(rivals: Sequence[Row]) -> str:
    second = max(rivals, key=lambda row: row.difference)
    p = p_value(second.p_holm)
    return (
        f"next is {second.model}, {-second.difference:.4f} [{-second.ci_high:.4f}, {-second.ci_low:.4f}] behind, "
        f"p {p if p.startswith('<') else f'= {p}'} (Holm)"
    )


def _other_winners(found: Comparison) -> str | None:
    """Metrics in which another model is ahead, and whether that is significant."""
    if len(found.results) < 2:
        return None
    best, winners = found.best, dict[str, list[str]]()
    for metric in found.metrics:
        if parse(metric).needs_lists:  # for these, higher is not better
            continue
        first = max(found.results, key=lambda name: found.mean(name, metric))
        if found.mean(first, metric) > found.mean(best, metric):
            test = next(row for row in found.tests(best, metric) if row.model == first)
            winners.setdefault(first, []).append(metric + ("*" if test.verdict == "better" else ""))
    if not winners:
        return None
    said = "; ".join(f"{name} is ahead in {_listed(metrics)}" for name, metrics in winners.items())
    sure = any(metric.endswith("*") for metrics in winners.values() for metric in metrics)
    note = "* significantly" if sure else "none significantly"
    return f"the metrics disagree: {best} has the best {found.metric}, but {said} ({note})"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
