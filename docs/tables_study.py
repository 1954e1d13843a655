"""The verdicts on the paper's claims, and all figures."""

from __future__ import annotations

from tables import ROOT, markdown, table

from purerec.output.study.claims import as_table, claim_specs, judge, summary
from purerec.output.study.figures import charts_of, figure_specs
from purerec.output.study.results import read


@table
def claims() -> str:
    found = judge(claim_specs(), read(ROOT / "results"))
    made = as_table([one for one in found if one.finding.verdict != "no results yet"])
    rows = [[text.replace("|", "\\|") for text in row] for row in made.rows]
    return f"{summary(found)}\n\n{markdown(list(made.headings), rows, words=5)}"


@table
def figures() -> str:
    """Every figure with its title and caption."""
    results = read(ROOT / "results")
    parts = []
    for spec in figure_specs():
        if charts := charts_of(spec, results):
            alt = " ".join(chart.alt for chart in charts).replace("]", ")").replace("[", "(")
            parts.append(f"### {spec.title}\n\n![{alt}](figures/{spec.name}.svg)\n\n{spec.caption}")
    return "\n\n".join(parts)
