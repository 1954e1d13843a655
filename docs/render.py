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
def table2() -> str:
    return compared("table2", beside_paper=True)


@table
def table2_tests() -> str:
    return tests_of("table2")


@table
def table3() -> str:
    return compared("table3", beside_paper=False) + "\n\n" + mrr_beside_paper("table3")


@table
def table4() -> str:
    return compared("table4", beside_paper=False) + "\n\n" + mrr_beside_paper("table4")


def mrr_beside_paper(name: str) -> str:
    found = result(name)
    rows = []
    for model, runs in found["models"].items():
        printed = paper_row(found["data"], model)
        if printed:
            rows.append([model, short(mean(run["metrics"]["MRR"] for run in runs)), short(printed["MRR"])])
    return markdown(["MRR, the column that compares", "purerec", "paper"], rows)


@table
def exposure() -> str:
    found = result("exposure")
    names = list(found["rows"][0]["metrics"])
    rows = []
    for row in found["rows"]:
        tests = {t["model"]: t for t in row["tests"]}
        cells = []
        for name in names:
            text = f"{short(row['metrics'][name][found['metric']])} ± {short(row['spread'][name])}"
            verdict = tests[name]["verdict"] if name in tests else ""
            cells.append(text + {"better": " ▲", "worse": " ▼"}.get(verdict, ""))
        rows.append([f"{row['exposure']:g}", *cells])
    table_ = markdown(["exposure bias", *names], rows)
    note = f"{found['metric']}; ▲ and ▼: better and worse than '{found['baseline']}' (paired by user, Holm)."
    return f"{table_}\n\n{note}"


@table
def validation() -> str:
    found = result("validation")
    metrics = ["P@5", "NDCG@10", "MAP", "MRR"]
    rows = [
        [name, *(short(row["metrics"][m]) for m in metrics), f"{row['gain']:+.1%} ± {row['gain_error']:.1%}"]
        for name, row in found["rows"].items()
    ]
    return markdown(["", *metrics, f"gain over {found['baseline']}, all eight metrics"], rows)


@table
def training() -> str:
    found = result("bench-training")
    peers = ["our_torch_engine", "torch_dense_adam", "torch_sparse_adam", "implicit_bpr", "bound"]
    titles = [
        "our torch engine",
        "eager torch, dense Adam",
        "eager torch, SparseAdam",
        "implicit BPR (triples)",
        "bound",
    ]
    rows = [
        [
            f"{r['users']:,} users, d {r['dim']}, batch {r['batch']}",
            f"**{r['cpu_engine']:.1f}**",
            *(f"{r[p]:.3g} ({r['cpu_engine'] / r[p]:.2g}x)" for p in peers),
        ]
        for r in found["sizes"]
    ]
    lines = markdown(["", "cpu engine", *titles], rows)
    more = markdown(
        ["d 8, batch 128, with generators", "million a second"],
        [[name, f"{value:.1f}"] for name, value in found["generators"].items()],
    )
    return f"{lines}\n\n{more}"


@table
def paper_run() -> str:
    found = result("bench-paper_run")
    return markdown(["PURE.paper('ml-1m'), whole run", ""], [[str(k), str(v)] for k, v in found.items()])


@table
def sampling() -> str:
    rows = [
        [
            f"{r['users']:,} x {r['items']:,}, {r['filter']}, {r['draw']}",
            f"{r['million_per_s']}",
            f"{r['numpy_integers_million_per_s']}",
            f"{r['ratio']}",
        ]
        for r in result("bench-sampling")
    ]
    return markdown(["", "purerec", "rng.integers", "ratio"], rows)


@table
def evaluating() -> str:
    rows = []
    for r in result("bench-evaluating"):
        ms = r["ms_per_1000_users"]
        rows.append(
            [
                f"{r['size']}, {r['threads']} thread{'s' * (r['threads'] > 1)}",
                f"{ms['evaluate']:.1f}",
                f"{ms['product']:.1f} ({ms['evaluate'] / ms['product']:.2g} of it)",
                f"{ms['ranx_all']:.0f} ({ms['ranx_all'] / ms['evaluate']:.2g}x)",
                f"{ms['ranx_metrics']:.0f} ({ms['ranx_metrics'] / ms['evaluate']:.2g}x)",
                f"{ms['top_10']:.1f}",
            ]
        )
    heads = [
        "ms per 1,000 users",
        "purerec",
        "bare product",
        "ranx, lists made and judged",
        "ranx, lists given",
        "top-10 lists",
    ]
    return markdown(heads, rows)


@table
def growth() -> str:
    rows = [
        [f"{r['interactions']:,}", f"{r['users']:,}", f"{r['epoch_s']}", f"{r['fit_mb']}", f"{r['peak_mb']}"]
        for r in result("bench-growth")
    ]
    return markdown(["interactions", "users", "seconds an epoch", "MB for the fit", "MB in all"], rows)


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
