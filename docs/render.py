"""Write the tables in README.md and docs/ from results/*.json: `make docs`. Figures are never typed.

A table stands between <!-- begin NAME --> and <!-- end NAME -->; NAME is a function below. With --check nothing is
written, and the exit code says whether everything is up to date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from purerec.experiments import paper_row

ROOT = Path(__file__).parents[1]


def result(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def markdown(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def compared(name: str, *, beside_paper: bool) -> str:
    """Means over seeds of a comparison, the paper's row under each of ours, and the tests below."""
    found = result(name)
    metrics = list(next(iter(found["models"].values()))[0]["metrics"])
    rows = []
    for model, runs in found["models"].items():
        values = {m: [run["metrics"][m] for run in runs] for m in metrics}
        rows.append([f"**{model}**", *(short(mean(v)) for v in values.values())])
        if len(runs) > 1 and any(stdev(v) > 0 for v in values.values()):
            rows.append([f"± over {len(runs)} seeds", *(short(stdev(v)) for v in values.values())])
        printed = paper_row(found["data"], model) if beside_paper else None
        if printed:
            rows.append(["paper", *(short(printed[m]) for m in metrics)])
    return markdown(["", *metrics], rows)


def tests_of(name: str) -> str:
    found = result(name)
    rows = [
        [
            t["model"],
            f"{t['difference']:+.4f}",
            f"{t['ci_low']:+.4f} to {t['ci_high']:+.4f}",
            f"{t['p_holm']:.2g}",
            t["verdict"],
        ]
        for t in found["tests"]
        if t["model"] != found["baseline"]
    ]
    return markdown(
        [f"against {found['baseline']}, {found['metric']}", "difference", "95 % interval", "p (Holm)", ""], rows
    )


TABLES: dict[str, Callable[[], str]] = {}


def table(function: Callable[[], str]) -> Callable[[], str]:
    TABLES[function.__name__] = function
    return function


@table
def ml_100k() -> str:
    return compared("ml-100k-u1", beside_paper=True)


@table
def ml_100k_tests() -> str:
    return tests_of("ml-100k-u1")


@table
def reading() -> str:
    found = result("bench-reading")
    one, large = found["ml-1m"], found["large"]
    rows = [
        [
            "ML-1M's ratings.dat",
            f"{one['purerec_s']} s",
            f"{one['polars_s']} s (tab-separated copy)",
            str(one["ratio"]),
        ],
        [
            f"CSV of {large['rows']:,} rows, read",
            f"{large['purerec']['read']} s",
            f"{large['polars']['read']} s",
            str(large["ratio_read"]),
        ],
        [
            "the same, read, indexed, split, fitted (ItemPop), evaluated",
            f"{large['purerec']['total']} s, peak {large['purerec']['peak_mb']:,.0f} MB",
            f"{large['polars']['total']} s (reading only)",
            str(large["ratio_total"]),
        ],
    ]
    return markdown(["", "purerec", "polars alone", "ratio"], rows)


def render(text: str) -> str:
    def fill(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- begin {name} -->\n{TABLES[name]()}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\w+) -->\n(?:.*?\n)?<!-- end \1 -->", fill, text, flags=re.DOTALL)


def main() -> int:
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        before = page.read_text()
        after = render(before)
        if before != after:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(after)
    print(f"{'stale' if '--check' in sys.argv else 'written'}: {', '.join(stale) or 'nothing'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
