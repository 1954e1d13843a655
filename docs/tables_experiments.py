"""Tables of model quality, from `purerec reproduce` and `purerec tune`."""

from __future__ import annotations

import tomllib
from statistics import mean, stdev
from typing import Any

from tables import ROOT, markdown, megabytes, panel, result, short, table

from purerec.experiments.advice import p_value
from purerec.paper.printed import paper_row


def compared(found: Any, *, beside_paper: bool) -> str:
    """Means over seeds of a comparison, the paper's row below each of ours, and notes on the names."""
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
    return markdown(["", *metrics], rows) + notes_of(found)


def notes_of(found: Any) -> str:
    """Notes on the names of rows; older results have none."""
    lines = [f"- **{model}**: {note}" for model, note in found.get("notes", {}).items()]
    return "\n\n" + "\n".join(lines) if lines else ""


def tests_of(name: str) -> str:
    found = result(name)
    rows = [
        [
            t["model"],
            f"{t['difference']:+.4f}",
            f"{t['ci_low']:+.4f} to {t['ci_high']:+.4f}",
            p_value(t["p_holm"]),
            t["verdict"],
        ]
        for t in found["tests"]
        if t["model"] != found["baseline"]
    ]
    return markdown(
        [f"against {found['baseline']}, {found['metric']}", "difference", "95 % interval", "p (Holm)", ""], rows
    )


@table
def table1() -> str:
    """The sizes of the data sets; the paper's in parentheses."""
    rows = []
    for row in result("table1")["rows"]:
        printed = row["paper"]
        sizes = [
            f"{row[what]:,}" + (f" ({printed[what]:,})" if printed[what] is not None else "")
            for what in ("users", "items", "interactions")
        ]
        said = f" ({printed['density']:.4f})" if printed["density"] is not None else ""
        rows.append([row["data"], *sizes, f"{row['positives']:,}", f"{row['density']:.4f}{said}"])
    return markdown(["ours (paper's)", "users", "items", "interactions", "positives", "density"], rows)


@table
def table2() -> str:
    return compared(result("table2"), beside_paper=True)


@table
def table2_tests() -> str:
    return tests_of("table2")


@table
def table3() -> str:
    return in_three_ways("table3")


@table
def table4() -> str:
    return in_three_ways("table4")


def in_three_ways(name: str) -> str:
    """Sampled, with the one comparable column; exact and as published, if these were run."""
    sampled = panel(name, "sampled")
    parts = [compared(sampled, beside_paper=False), mrr_beside_paper(sampled)]
    for protocol in ("exact", "as_published"):
        if (found := panel(name, protocol)) is not None:
            parts += [f"**{found['label']}**", compared(found, beside_paper=protocol == "as_published")]
    return "\n\n".join(parts)


def mrr_beside_paper(found: Any) -> str:
    """The paper's one comparable column, and its paired test."""
    tests = {t["model"]: t for t in found["tests"] if t["model"] != found["baseline"]}
    rows = []
    for model, runs in found["models"].items():
        printed = paper_row(found["data"], model) or {}
        cells = [short(mean(run["metrics"]["MRR"] for run in runs)), short(printed["MRR"]) if printed else ""]
        test = tests.get(model)
        against = ["", "", ""]
        if test is not None:
            against = [f"{test['difference']:+.4f}", p_value(test["p_holm"]), test["verdict"]]
        rows.append([model, *cells, *against])
    return markdown(["MRR, the column that compares", "purerec", "paper", "against pure", "p (Holm)", ""], rows)


@table
def table5() -> str:
    """A part for each data set and evaluator; notes on the names once."""
    panels = result("table5")["panels"]
    parts = [part for found in panels for part in (f"**{found['data']}, {found['label']}**", _pretraining(found))]
    return "\n\n".join(parts) + notes_of(panels[0])


def _pretraining(found: Any) -> str:
    """Both metrics with their spread, the paper's, and the test of the first against the first row."""
    first, second = metrics = list(next(iter(found["models"].values()))[0]["metrics"])
    tests = {t["model"]: t for t in found["tests"] if t["model"] != found["baseline"]}
    rows = []
    for model, runs in found["models"].items():
        values = {m: [run["metrics"][m] for run in runs] for m in metrics}
        own = [f"{short(mean(v))} ± {short(stdev(v))}" for v in values.values()]
        printed = paper_row(found["data"], model) if found["protocol"] != "sampled" else None
        theirs = [short(printed[m]) for m in metrics] if printed else ["", ""]
        test = tests.get(model)
        against = ["", "", ""]
        if test is not None:
            against = [f"{test['difference']:+.4f}", p_value(test["p_holm"]), test["verdict"]]
        rows.append([model, *own, *theirs, *against])
    headings = ["", first, second, f"paper's {first}", second, f"{first} against {found['baseline']}", "p (Holm)", ""]
    return markdown(headings, rows)


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
    return in_brief("table2")


@table
def defaults() -> str:
    return in_brief("defaults")


_EVERYWHERE = {
    "defaults": ("ML-100k", "P@5"),
    "defaults-ml-1m": ("ML-1M", "NDCG@10"),
    "defaults-yelp": ("Yelp", "NDCG@10"),
    "defaults-gowalla": ("Gowalla", "Recall@20"),
}


@table
def everywhere() -> str:
    """Results of the quick models with their defaults on four data sets, each in the metric it is tested in."""
    found = {name: result(name) for name in _EVERYWHERE}
    models = list(found["defaults-ml-1m"]["models"])
    rows = []
    for model in models:
        cells = []
        for name, (_, metric) in _EVERYWHERE.items():
            runs = found[name]["models"].get(model)
            if runs is None:
                cells.append("")
                continue
            verdicts = {t["model"]: t["verdict"] for t in found[name]["tests"]}
            values = [run["metrics"][metric] for run in runs]
            shown = [own for other, own in found[name]["models"].items() if other in models]
            best = max(mean(run["metrics"][metric] for run in own) for own in shown)
            text = short(mean(values))
            text = f"**{text}**" if mean(values) == best else text
            spread = f" ± {short(stdev(values))}" if len(values) > 1 and stdev(values) > 0 else ""
            cells.append(text + spread + {"better": " ▲", "worse": " ▼"}.get(verdicts.get(model, ""), ""))
        rows.append([model, *cells])
    heads = [f"{data}, {metric}" for data, metric in _EVERYWHERE.values()]
    note = "▲ and ▼: better and worse than pure (paired by user, Holm over all models of the comparison, p < 0.05)."
    return markdown(["", *heads], rows) + f"\n\n{note}"


@table
def gowalla_beside_published() -> str:
    """Ours compared with what others have published for the same split."""
    every = (ROOT / "results" / "gowalla-published.json").exists()  # all eighteen models, if somebody had the time
    ours = result("gowalla-published" if every else "defaults-gowalla")
    found = ours["models"] | result("gowalla-before")["models"]
    rows = [
        [model, *(short(mean(run["metrics"][m] for run in runs)) for m in ("Recall@20", "NDCG@20")), "", ""]
        for model, runs in found.items()
    ]
    published = tomllib.loads((ROOT / "experiments" / "published.toml").read_text())["gowalla"]
    rows += [[name, "", "", *map(short, values)] for name, values in published.items()]
    return markdown(["Gowalla", "Recall@20", "NDCG@20", "published Recall@20", "published NDCG@20"], rows)


def in_brief(name: str) -> str:
    """One line per model: four metrics, the paper's next to ours, time and memory."""
    found = result(name)
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
        spread = short(stdev(run["metrics"]["P@5"] for run in runs)) if len(runs) > 1 else ""
        seconds, added = (mean(run[what] for run in runs) for what in ("fit_seconds", "added_mb"))
        sign = {"better": " ▲", "worse": " ▼"}.get(verdicts.get(model, ""), "")
        rows.append([model, f"{cells[0]}{sign}", f"{spread}", *cells[1:], f"{seconds:.1f}", megabytes(added)])
    heads = ["ours (paper's)", "P@5", "± P@5", *metrics[1:], "fit s", "MB"]
    note = f"▲ and ▼: better and worse than {found['baseline']} in P@5 (paired by user, Holm, p < 0.05)."
    return f"{markdown(heads, rows)}\n\n{note}{notes_of(found)}"


@table
def in_time() -> str:
    """Means and deviations over seeds; the paper has no such row."""
    found = result("in-time")
    metrics = ["P@5", "NDCG@10", "MAP", "MRR"]
    rows = []
    for model, runs in found["models"].items():
        values = [[run["metrics"][m] for run in runs] for m in metrics]
        rows.append([model, *(f"{short(mean(v))} ± {short(stdev(v))}" for v in values)])
    return markdown(["", *metrics], rows)


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
        f"{data}: {row['people']:,} people evaluated, {row['new_people']:,} of them new"
        for data, row in sizes.items()
    )
    heads = ["", "NDCG@10", "MAP", "of it, people known before", "new people", "seconds"]
    return f"{markdown(heads, rows)}\n\nMeans and deviations over {found['seeds']} seeds. {note}."


_GROUPS = ("returning", "new")


@table
def updating_verdict() -> str:
    """The share of a refit's gain that an update achieves, and of its time."""
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
    return markdown(["NDCG@10 against the old model", "update", "refit", "update time / refit time"], lines)


@table
def similar() -> str:
    found = result("similar")
    rows = []
    for r in found["rows"]:
        test = {way: [run["test"][way] for run in r["runs"]] for way in ("raw", "shrunk", "popular")}
        gains = [b - a for a, b in zip(test["raw"], test["shrunk"], strict=True)]
        fewest = {way: mean(run["fewest"][way] for run in r["runs"]) for way in ("raw", "shrunk")}
        rows.append(
            [
                f"{r['data']}, **{r['model']}**",
                short(mean(test["raw"])),
                short(mean(test["shrunk"])),
                f"{mean(gains):+.4f} ± {stdev(gains) / len(gains) ** 0.5:.4f}",
                short(mean(test["popular"])),
                f"{fewest['raw']:.0f}",
                f"{fewest['shrunk']:.0f}",
            ]
        )
    headings = [
        "",
        "raw",
        f"shrunk by {found['support']:g}",
        "difference",
        "popular items",
        "fewest fans, raw",
        "shrunk",
    ]
    return markdown(headings, rows)


@table
def similar_choice() -> str:
    found = result("similar")
    scores: dict[tuple[str, float], list[float]] = {}
    for run in (run for r in found["rows"] for run in r["runs"]):
        for choice in run["valid"]:
            scores.setdefault((choice["support"], choice["by"]), []).append(choice["score"])
    words = {"fans": "people who liked the other item", "both": "people who liked both"}
    rows = [[words[way], *(short(mean(scores[way, by])) for by in found["shrinkages"])] for way in words]
    return markdown(["validation; support is", *(f"by {by:g}" for by in found["shrinkages"])], rows)


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
