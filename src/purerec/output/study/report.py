"""The report of a study: one page with a summary, verdicts on the paper's claims, and every figure and table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from purerec.output import page
from purerec.output.charts import Chart
from purerec.output.study.claims import Judged, as_table, claim_specs, judge, summary
from purerec.output.study.figures import FigureSpec, charts_of, figure_specs
from purerec.output.study.results import StudyResults, panels
from purerec.output.study.tables import change, short, tables_of

_CLASSES = {"holds": "good", "holds in part": "part", "does not hold": "bad", "no results yet": "dim"}
_TITLE = "PURE and its rivals: a study"


def study_report(results: Mapping[str, StudyResults], sources: Mapping[str, str] | None = None) -> str:
    """The page as text. `sources` gives the origin of each experiment's results."""
    verdicts = judge(claim_specs(), results)
    figures = [(spec, charts) for spec in figure_specs() if (charts := charts_of(spec, results))]
    tables = {name: made for name, found in results.items() if (made := tables_of(name, found))}
    return page.page(
        _TITLE,
        [
            f"<h1>{_TITLE}</h1><p class='dim'>Made by purerec from the results of {len(results)} experiments.</p>",
            _summary(verdicts, results),
            _contents(figures, {name: str(results[name]["title"]) for name in tables}),
            *(_figure(spec, charts) for spec, charts in figures),
            *(_tables(name, results[name], (sources or {}).get(name, "")) for name in tables),
            _claims(verdicts),
        ],
    )


def _summary(verdicts: Sequence[Judged], results: Mapping[str, StudyResults]) -> str:
    lines = []
    for one in verdicts:
        verdict = one.finding.verdict
        lines.append(
            f"<tr><td class='{_CLASSES[verdict]}'>{escape(verdict)}</td><td>{escape(one.claim.claim)}</td></tr>"
        )
    quick = [name for name, found in results.items() if found.get("quick")]
    warning = ""
    if quick:
        warning = "<p class='part'>A quick run: one seed, small data. It shows that everything works, no more.</p>"
    leaders = "".join(f"<li>{escape(line)}</li>" for line in _leaders(results))
    return page.section(
        "In a minute",
        warning,
        f"<p>{escape(summary(verdicts))}</p>",
        f"<ul>{leaders}</ul>" if leaders else "",
        f"<div class='wide'><table>{''.join(lines)}</table></div>",
        "<p class='dim'>What was found, and by which test, is <a href='#claims'>at the end</a>.</p>",
        name="summary",
    )


def _leaders(results: Mapping[str, StudyResults]) -> list[str]:
    """The best model of every comparison without varied settings, and the gap to the baseline."""
    said = []
    for name, found in results.items():
        for panel in panels(name, found):
            if panel.varied or len(panel.models) < 4 or panel.protocol == "as_published":
                continue
            means = {model: panel.mean(model, panel.metric) for model in panel.models}
            best = max(means, key=means.__getitem__)
            text = f"{name}, {panel.data} ({panel.label}): {best} has the best {panel.metric}, {short(means[best])}"
            if best != panel.baseline:
                behind = means[panel.baseline] / means[best] - 1
                text += f"; {panel.baseline} {change(behind)}"
            said.append(text)
    return said


def _contents(figures: Sequence[tuple[FigureSpec, Sequence[Chart]]], tables: Mapping[str, str]) -> str:
    links = [(f"figure-{spec.name}", f"Figure: {spec.title}") for spec, _ in figures]
    links += [(f"table-{name}", f"Table: {title}") for name, title in tables.items()]
    items = "".join(f"<li><a href='#{escape(name)}'>{escape(title)}</a></li>" for name, title in links)
    return f"<nav aria-label='Contents'>{page.section('Contents', f'<ul>{items}</ul>')}</nav>"


def _figure(spec: FigureSpec, charts: Sequence[Chart]) -> str:
    return page.section(spec.title, page.figure(charts, spec.caption), name=f"figure-{spec.name}")


def _tables(name: str, found: StudyResults, source: str) -> str:
    made = [
        (f"<h3>{escape(table.title)}</h3>" if table.title != found["title"] else "")
        + page.table(table.headings, table.rows, caption=table.note)
        for table in tables_of(name, found)
    ]
    command = f"<p class='dim'>purerec reproduce {escape(name)}. {escape(source)}</p>"
    return page.section(str(found["title"]), *made, command, name=f"table-{name}")


def _claims(verdicts: Sequence[Judged]) -> str:
    table = as_table(verdicts)
    cells = page.table(table.headings, table.rows, words=range(5))
    return page.section("What was found about each claim", cells, name="claims")
