"""Write the tables in README.md and docs/ from results/*.json: `make docs`. Figures are never typed.

A table stands between <!-- begin NAME --> and <!-- end NAME -->; NAME is a function below. With --check nothing is
written, and the exit code says whether everything is up to date.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from purerec.experiments import paper_row
from purerec.serving.settings import Limits

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
def table2_short() -> str:
    """One line a model: four metrics, the paper's beside ours, time and memory."""
    found = result("table2")
    metrics = ["P@5", "NDCG@5", "MAP", "MRR"]
    best = {m: max(mean(r["metrics"][m] for r in runs) for runs in found["models"].values()) for m in metrics}
    verdicts = {t["model"]: t["verdict"] for t in found["tests"]}
    rows = []
    for model, runs in found["models"].items():
        printed = paper_row(found["data"], model) or {}
        cells = []
        for m in metrics:
            value = mean(run["metrics"][m] for run in runs)
            ours = f"**{short(value)}**" if value == best[m] else short(value)
            cells.append(f"{ours} ({short(printed[m])})" if m in printed else ours)
        spread = short(stdev(run["metrics"]["P@5"] for run in runs))
        seconds, added = (mean(run[what] for run in runs) for what in ("fit_seconds", "added_mb"))
        sign = {"better": " ▲", "worse": " ▼"}.get(verdicts.get(model, ""), "")
        rows.append([model, f"{cells[0]}{sign}", f"{spread}", *cells[1:], f"{seconds:.1f}", f"{added:.0f}"])
    heads = ["ours (paper's)", "P@5", "± P@5", *metrics[1:], "fit s", "MB"]
    note = f"▲ and ▼: better and worse than {found['baseline']} in P@5 (paired by user, Holm, p < 0.05)."
    return f"{markdown(heads, rows)}\n\n{note}"


@table
def validation() -> str:
    return on_validation("validation")


@table
def dimensions() -> str:
    return on_validation("dimensions")


def on_validation(name: str) -> str:
    found = result(name)
    metrics = ["P@5", "NDCG@10", "MAP", "MRR"]
    rows = [
        [name, *(short(row["metrics"][m]) for m in metrics), f"{row['gain']:+.1%} ± {row['gain_error']:.1%}"]
        for name, row in found["rows"].items()
    ]
    return markdown(["", *metrics, f"gain over {found['baseline']}, all eight metrics"], rows)


@table
def models() -> str:
    found = result("bench-models")
    return markdown(
        ["one fit, default settings", "data", "seconds", "MB added"],
        [[r["model"], r["data"], f"{r['fit_s']:.1f}", str(r["added_mb"])] for r in found],
    )


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
            f"{r['two_threads']['two'] / r['two_threads']['one']:.2f}x" if "two_threads" in r else "",
            *(f"{r[p]:.3g} ({r['cpu_engine'] / r[p]:.2g}x)" for p in peers),
        ]
        for r in found["sizes"]
    ]
    lines = markdown(["", "cpu engine", "with two threads", *titles], rows)
    more = markdown(
        ["d 8, batch 128, with generators", "million a second"],
        [[name, f"{value:.1f}"] for name, value in found["generators"].items()],
    )
    return f"{lines}\n\n{more}"


@table
def negatives() -> str:
    found = result("bench-negatives")
    metric, rows, verdicts, nothing = found["metric"], [], [], []
    for model in dict.fromkeys(r["model"] for r in found["rows"]):
        ways = [r for r in found["rows"] if r["model"] == model]
        plain = next(r for r in ways if r["negatives"] == "uniform")
        for r in ways:
            gains = [a - b for a, b in zip(r[metric], plain[metric], strict=True)]
            rows.append(
                [
                    model if r is plain else "",
                    r["negatives"] + (f", {r['candidates']} candidates" if r is not plain else ""),
                    short(r["mean"]),
                    "" if r is plain else f"{mean(gains):+.4f} ± {stdev(gains) / len(gains) ** 0.5:.4f}",
                    f"{r['million_samples_per_cpu_s']:.1f}",
                    f"{plain['million_samples_per_cpu_s'] / r['million_samples_per_cpu_s']:.1f}x",
                ]
            )
        best = max(ways, key=lambda r: r["mean"])
        paired = [a - b for a, b in zip(best[metric], plain[metric], strict=True)]
        # Three standard errors and not two: it is the best of several.
        sure = len(paired) > 1 and mean(paired) > 3 * stdev(paired) / len(paired) ** 0.5
        if best is not plain and sure:
            gain = mean(paired) / plain["mean"]
            verdicts.append(f"{model} gains {gain:.0%} with {best['negatives']} of {best['candidates']}")
        else:
            nothing.append(model)
    heads = ["", "negatives", f"validation {metric}", "against uniform", "million samples a second", "cost"]
    if nothing:
        verdicts.append(f"{', '.join(nothing)}: no gain that stands out from the noise")
    return f"{markdown(heads, rows)}\n\nAt best, {'; '.join(verdicts)}."


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


@table
def tuned() -> str:
    """What a search found for each model and data set, and what a check on fresh folds said to it."""
    parts = []
    for path in sorted((ROOT / "experiments" / "tuned").glob("*.toml")):
        found = tomllib.loads(path.read_text())
        limits = {unit: found.get(f"{unit}_each") for unit in ("trials", "minutes")}
        budget = " or ".join(f"{limit:g} {unit}" for unit, limit in limits.items() if limit is not None)
        rows = []
        for name, entry in found["models"].items():
            values, fresh = entry["validation"], entry.get("fresh")
            check = ["", "", ""]
            if fresh is not None:
                check = [short(fresh["defaults"]), short(fresh["best"]), f"{fresh['p']:.2g}"]
            rows.append(
                [name, str(entry["trials"]), short(values["defaults"]), short(values["best"]), *check, entry["kept"]]
            )
        headings = ["model", "trials", "defaults", "best", "fresh: defaults", "fresh: best", "p", "kept"]
        parts.append(
            f"**{found['data']}**, {found['split']}: {found['metric']} ({found['protocol']}), {budget} for each; "
            f"{found['folds']} + {found['fresh_folds']} folds.\n\n{markdown(headings, rows)}"
        )
        if "note" in found:
            parts.append(found["note"])
    return "\n\n".join(parts)


@table
def updating() -> str:
    found = result("updating")
    rows = []
    for row in found["rows"]:
        for way, r in row["ways"].items():
            cells = [f"{short(r['metrics'][m])} ± {short(r['spread'][m])}" for m in ("NDCG@10", "MAP")]
            groups = [short(r[group]["NDCG@10"]) if r[group]["NDCG@10"] is not None else "" for group in _GROUPS]
            first = f"{row['data']}, {row['model']}: " if way == "old" else ""
            rows.append([f"{first}{way}", *cells, *groups, f"{r['seconds']:.2f}"])
    sizes = {row["data"]: row for row in found["rows"]}
    note = "; ".join(
        f"{data}: {row['people']:,} people judged, {row['new_people']:,} of them new" for data, row in sizes.items()
    )
    heads = ["", "NDCG@10", "MAP", "of it, people known before", "new people", "seconds"]
    return f"{markdown(heads, rows)}\n\nMeans and deviations over {found['seeds']} seeds. {note}."


_GROUPS = ("returning", "new")


@table
def updating_verdict() -> str:
    """What share of the gain of a refit an update has, and of its time."""
    rows = result("updating")["rows"]
    lines = []
    for row in rows:
        old, updated, refitted = (row["ways"][way]["metrics"]["NDCG@10"] for way in ("old", "updated", "refitted"))
        time_share = row["ways"]["updated"]["seconds"] / row["ways"]["refitted"]["seconds"]
        lines.append(
            [
                f"{row['data']}, {row['model']}",
                f"{updated / old - 1:+.1%}",
                f"{refitted / old - 1:+.1%}",
                f"{time_share:.0%}",
            ]
        )
    return markdown(["NDCG@10 against the old model", "update", "refit", "time of an update, of a refit's"], lines)


@table
def approximate() -> str:
    rows = [
        [
            f"{r['size']}: {r['items']:,} items of {r['dim']} numbers",
            short(r["recall@10"]) if r["recall@10"] < 1 else "1",
            f"{r['index_per_s']:,}",
            f"{r['exact_per_s']:,}",
            f"{r['ratio']:g}",
            f"{r['index_one_ms']:g}",
            f"{r['exact_one_ms']:g}",
            f"{r['build_s']:g}",
        ]
        for r in result("bench-approximate")
    ]
    heads = [
        "",
        "recall@10",
        "users/s, index",
        "users/s, exact",
        "ratio",
        "one user, index, ms",
        "exact, ms",
        "building, s",
    ]
    return markdown(heads, rows)


@table
def serving() -> str:
    found = result("bench-serving")
    rows = []
    for run in found["runs"]:
        for name, who in (("`purerec serve`", "purerec"), ("bare FastAPI, one process", "bare_fastapi")):
            one = run[who]
            many = f", {run['workers']} worker{'s' * (run['workers'] > 1)}" if who == "purerec" else ""
            rows.append(
                [
                    name + many,
                    f"{one['per_s']:,.0f}",
                    f"{one['p50_ms']:.1f}",
                    f"{one['p99_ms']:.1f}",
                    str(one["errors"]),
                    str(one.get("swaps", "")),
                ]
            )
    heads = ["", "requests/s", "p50, ms", "p99, ms", "errors", "swaps"]
    return markdown(heads, rows) + (
        f"\n\nFrom the command to the first list: {found['start_seconds']:.1f} s. When the run began, other "
        f"work kept {found['load_before']:g} processes waiting for the {found['cpus']} cores."
    )


@table
def serving_limits() -> str:
    limits = Limits()
    rows = {
        "items of a list (`k`)": limits.k,
        "people (`users`)": limits.batch,
        "people times `k`": limits.cells,
        "people times `k`, with reasons": limits.explained,
        "items of a `history`": limits.history,
        "ids in `items` or `exclude`": limits.ids,
        "reasons for an item (`explain`)": limits.because,
        "results of a search": limits.found,
        "characters of a search": limits.query,
        "characters of an id": limits.id_length,
        "bytes of the body": limits.body_bytes,
        "bytes of the head": limits.head_bytes,
    }
    return markdown(["of one request", "at most"], [[what, f"{limit:,}"] for what, limit in rows.items()])


@table
def folding() -> str:
    found = result("folding")
    metric = found["metric"]
    rows = [
        [
            f"{r['data']}, **{r['model']}**",
            short(r["metrics"]["trained"][metric]),
            short(r["metrics"]["folded"][metric]),
            f"{r['difference']:+.4f}",
            f"{r['ci'][0]:+.4f} to {r['ci'][1]:+.4f}",
            r["verdict"],
        ]
        for r in found["rows"]
    ]
    return markdown([metric, "trained on them", "folded in", "difference", "95 % interval", ""], rows)


@table
def recommending() -> str:
    rows = []
    for r in result("bench-recommending")["lists"]:
        ms = r["ms_per_1000_users"]
        asked = "" if r["users_asked"] == r["users"] else f", {r['users_asked']:,} of them asked for"
        rows.append(
            [
                f"{r['users']:,} users{asked} x {r['items']:,} items, {r['size'].split(', ')[1]}",
                f"**{ms['purerec']:.1f}**",
                f"{ms['implicit']:.1f} ({r['implicit_over_purerec']:.2g}x)",
                f"{ms['product']:.1f} ({r['product_over_purerec']:.2g}x)",
            ]
        )
    return markdown(["ms per 1,000 users", "purerec", "implicit", "bare product"], rows)


@table
def folding_speed() -> str:
    rows = [
        [f"**{r['model']}**", f"{r['vector_us'] / 1000:.2f}", f"{r['list_us'] / 1000:.2f}"]
        for r in result("bench-recommending")["folding"]
    ]
    return markdown(["ms", "vector", "list"], rows)


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
