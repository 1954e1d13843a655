"""Results as tables of text, for both pages and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from purerec.output.study.results import PanelResults, StudyResults, panels
from purerec.paper.printed import paper_row


@dataclass(frozen=True)
class TextTable:
    """Headings and rows; `**` marks the best of a column."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def short(value: float) -> str:
    """A metric with four digits."""
    return f"{value:.4f}".removeprefix("0")


def seconds(value: float) -> str:
    """A time for people."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.3f}"


def change(share: float) -> str:
    """A relative difference for people."""
    text = f"{share:+.1%}"
    return text.lstrip("+-") if float(text.rstrip("%")) == 0 else text


def p_value(p: float | None) -> str:
    """A probability for people."""
    return "" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def tables_of(name: str, found: StudyResults) -> list[TextTable]:
    """The tables of a results file; empty for kinds that are only shown as figures."""
    if compared := panels(name, found):
        return [table for panel in compared for table in _of_panel(panel)]
    if "left_out" in found:
        return _leave_one_out(found)
    rows = found.get("rows")
    for key, make in _KINDS.items():
        if isinstance(rows, dict) and key == "gain":
            return make(found)
        if isinstance(rows, list) and rows and key in rows[0]:
            return make(found)
    return []


def _of_panel(panel: PanelResults) -> list[TextTable]:
    metrics = panel.metrics
    best = {m: max(panel.mean(model, m) for model in panel.models) for m in metrics}
    verdicts = {test["model"]: test for test in panel.found["tests"]}
    rows: list[list[str]] = []
    for model, runs in panel.models.items():
        means = {m: panel.mean(model, m) for m in metrics}
        sign = {"better": " ▲", "worse": " ▼"}.get(verdicts.get(model, {}).get("verdict", ""), "")
        cells = [f"**{short(v)}**" if v == best[m] else short(v) for m, v in means.items()]
        cells = [cell + sign if m == panel.metric else cell for cell, m in zip(cells, metrics, strict=True)]
        rows.append([model, *cells, seconds(panel.seconds(model))])
        if len(runs) > 1 and any(panel.deviation(model, m) for m in metrics):
            rows.append([f" ± over {len(runs)} seeds", *(short(panel.deviation(model, m) or 0) for m in metrics), ""])
        printed = paper_row(panel.data, model)
        if printed is not None and (panel.data, panel.protocol) in _PRINTED:
            rows.append([" paper", *(short(printed[m]) if m in printed else "" for m in metrics), ""])
    note = (
        f"{panel.label}. ▲ and ▼: better and worse than {panel.baseline} in {panel.metric} "
        "(paired by user, Holm, p < 0.05)."
    )
    notes = "".join(f" {model}: {said}." for model, said in panel.found.get("notes", {}).items())
    return [TextTable(f"{panel.data}, {panel.label}", ["", *metrics, "fit s"], rows, note + notes)]


_PRINTED = {("ml-100k", "exact"), ("ml-1m", "as_published"), ("yelp", "as_published")}
"""(data, protocol) for which the paper's rows were measured in the same way."""


def _validation(found: StudyResults) -> list[TextTable]:
    rows = found["rows"]
    metrics = list(next(iter(rows.values()))["metrics"])
    lines = [
        [name, *(short(row["metrics"][m]) for m in metrics), f"{change(row['gain'])} ± {row['gain_error']:.1%}"]
        for name, row in rows.items()
    ]
    return [TextTable(found["title"], ["", *metrics, f"gain over {found['baseline']}"], lines)]


def _exposure(found: StudyResults) -> list[TextTable]:
    names = list(found["rows"][0]["metrics"])
    lines = [
        [
            f"{row['exposure']:g}",
            *(f"{short(row['metrics'][n][found['metric']])} ± {short(row['spread'][n])}" for n in names),
        ]
        for row in found["rows"]
    ]
    return [TextTable(found["title"], ["exposure bias", *names], lines, found["metric"])]


def _folding(found: StudyResults) -> list[TextTable]:
    metric = found["metric"]
    lines = [
        [
            f"{r['data']}, {r['model']}",
            *(short(r["metrics"][way][metric]) for way in ("trained", "folded")),
            f"{r['difference']:+.4f}",
            r["verdict"],
        ]
        for r in found["rows"]
    ]
    return [TextTable(found["title"], [metric, "trained on them", "folded in", "difference", ""], lines)]


def _updating(found: StudyResults) -> list[TextTable]:
    metric = found["metric"]
    lines = [
        [f"{r['data']}, {r['model']}: {way}", short(one["metrics"][metric]), seconds(one["seconds"])]
        for r in found["rows"]
        for way, one in r["ways"].items()
    ]
    return [TextTable(found["title"], ["", metric, "seconds"], lines)]


def _statistics(found: StudyResults) -> list[TextTable]:
    own = [key for key in found["rows"][0] if key not in ("data", "paper")]
    lines = []
    for row in found["rows"]:
        lines.append([row["data"], *(_number(row[key]) for key in own)])
        lines.append([" paper", *(_number(row["paper"].get(key)) for key in own)])
    return [TextTable(found["title"], ["", *(key.replace("_", " ") for key in own)], lines)]


def _relevance(found: StudyResults) -> list[TextTable]:
    names = list(found["rows"][0]["distance"])
    lines = [[f"{row['bias']:g}", *(short(row["distance"][name]) for name in names)] for row in found["rows"]]
    note = "Mean distance of the estimated from the true relevance of pairs that were not observed."
    return [TextTable(found["title"], ["exposure bias", *names], lines, note)]


def _leave_one_out(found: StudyResults) -> list[TextTable]:
    """The result of each change to the defaults on each log."""
    logs = list(next(iter(found["values"].values())))
    lines = [
        [f"{model}, {candidate}", *(short(each[log][candidate]) for log in logs)]
        for model, each in found["values"].items()
        for candidate in each[logs[0]]
    ]
    return [TextTable(found["title"], [found["metric"], *logs], lines)]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _priors(found: StudyResults) -> list[TextTable]:
    names = list(found["rows"][0]["estimates"])
    lines = [
        [
            row["world"],
            short(row["prior"]),
            *(f"{short(row['estimates'][n])} ± {short(row['spread'][n])}" for n in names),
        ]
        for row in found["rows"]
    ]
    return [TextTable(found["title"], ["world", "true prior", *names], lines)]


def _similar(found: StudyResults) -> list[TextTable]:
    ways = list(found["rows"][0]["runs"][0]["test"])
    lines = [
        [f"{row['data']}, {row['model']}", *(short(mean(run["test"][way] for run in row["runs"])) for way in ways)]
        for row in found["rows"]
    ]
    return [TextTable(found["title"], ["", *ways], lines, f"Liked together in held-out data, first {found['k']}.")]


_KINDS: dict[str, Callable[[StudyResults], list[TextTable]]] = {
    "estimates": _priors,
    "runs": _similar,
    "gain": _validation,
    "exposure": _exposure,
    "difference": _folding,
    "ways": _updating,
    "paper": _statistics,
    "distance": _relevance,
}
"""Keyed by a name that only the rows of such an experiment have."""
