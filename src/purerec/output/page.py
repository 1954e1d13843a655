"""Report pages: one self-contained HTML file, readable on a phone, in dark mode and on paper."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from purerec.output import palette, svg
from purerec.output.charts import Chart

_STYLE = """
* { box-sizing: border-box } html { color-scheme: light dark }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 80rem; margin: 0 auto; padding: 1.5rem 1rem 3rem }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.05rem; margin: 0 0 .5rem }
p { margin: .3rem 0; max-width: 60rem }
a { color: var(--c0) } .dim, .none { color: var(--dim) } .good { color: var(--good) } .part { color: var(--part) }
.bad { color: var(--bad) } .good, .part, .bad { font-weight: 600 }
td.good, td.part, td.bad { white-space: nowrap }
.grid { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)) }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem;
  margin-top: 1rem; min-width: 0 } figure { margin: 0 } figcaption { color: var(--dim); margin-top: .3rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .3rem 0 }
td, th { padding: .15rem .9rem .15rem 0; text-align: left; vertical-align: top } th { font-weight: 600 }
td.n, th.n { text-align: right; white-space: nowrap } thead th { border-bottom: 1px solid var(--line) }
td.best { font-weight: 700 } tr.below td { color: var(--dim); font-size: .87em }
svg.chart { width: 100%; height: auto; display: block } svg.chart :hover > title { cursor: default }
nav ul { columns: 16rem; padding-left: 1.1rem; margin: .3rem 0 } nav li { break-inside: avoid }
@media print { body { font-size: 10pt } section { border: 0; padding: .5rem 0; background: none }
  section, figure, tr { break-inside: avoid } section.long { break-inside: auto } nav { display: none }
  .wide { overflow: visible } td, th { padding-right: .5rem } }
"""


def page(title: str, body: Sequence[str]) -> str:
    """The whole file."""
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>\n{palette.style()}{_STYLE}</style></head>\n"
        "<body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"
    )


def section(title: str, *content: str, name: str = "") -> str:
    """A card; `name` is its anchor for links."""
    where = f" id='{escape(name)}'" if name else ""
    long = " class='long'" if sum(map(len, content)) > 8000 else ""
    return f"<section{where}{long}><h2>{escape(title)}</h2>{''.join(content)}</section>"


def grid(parts: Sequence[str]) -> str:
    """Parts side by side, if there is room."""
    return "<div class='grid'>" + "".join(parts) + "</div>"


def figure(charts: Sequence[Chart], caption: str = "") -> str:
    """Charts with a caption."""
    drawn = [svg.element(chart) for chart in charts]
    said = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{drawn[0] if len(drawn) == 1 else grid(drawn)}{said}</figure>"


def facts(rows: Mapping[str, Any]) -> str:
    """A table of names and values."""
    cells = "".join(f"<tr><th>{escape(str(k))}</th><td>{escape(str(v))}</td></tr>" for k, v in rows.items())
    return f"<div class='wide' tabindex='0'><table>{cells}</table></div>"


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: Collection[int] = (0,), caption: str = ""
) -> str:
    """A table of texts. Columns are aligned to the right, except for those in `words`.

    `**text**` marks the best of its column; rows that start with a space add details to the row above.
    """
    side = ["" if n in words else " class='n'" for n in range(len(headings))]
    head = "".join(f"<th{side[n]}>{escape(text)}</th>" if text else "<td></td>" for n, text in enumerate(headings))
    lines = []
    for row in rows:
        below = " class='below'" if row[0].startswith(" ") else ""
        cells = "".join(_cell(text, words=n in words) for n, text in enumerate(row))
        lines.append(f"<tr{below}>{cells}</tr>")
    said = f"<p class='dim'>{escape(caption)}</p>" if caption else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f"<div class='wide' tabindex='0'><table>{body}</table></div>{said}"


def _cell(text: str, *, words: bool) -> str:
    bare = text.replace("**", "")
    kinds = ([] if words else ["n"]) + (["best"] if bare != text else [])
    shape = f" class='{' '.join(kinds)}'" if kinds else ""
    return f"<td{shape}>{escape(bare)}</td>"
