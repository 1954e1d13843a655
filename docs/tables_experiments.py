"""Tables of what models are worth, from `purerec reproduce` and `purerec tune`."""

from __future__ import annotations

import tomllib
from statistics import mean, median, stdev

from tables import ROOT, markdown, result, short, table

from purerec.paper.printed import paper_row


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
    """The one column of the paper's that compares, and what the paired test of it says."""
    found = result(name)
    tests = {t["model"]: t for t in found["tests"] if t["model"] != found["baseline"]}
    rows = []
    for model, runs in found["models"].items():
        printed = paper_row(found["data"], model) or {}
        cells = [short(mean(run["metrics"]["MRR"] for run in runs)), short(printed["MRR"]) if printed else ""]
        test = tests.get(model)
        against = ["", "", ""]
        if test is not None:
            against = [f"{test['difference']:+.4f}", f"{test['p_holm']:.2g}", test["verdict"]]
        rows.append([model, *cells, *against])
    return markdown(["MRR, the column that compares", "purerec", "paper", "against pure", "p (Holm)", ""], rows)


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
    """What the quick models reach with their defaults on four data sets, each in the metric it is tested in."""
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
    """Ours beside what others have published for the same split."""
    found = result("defaults-gowalla")["models"] | result("gowalla-before")["models"]
    rows = [
        [model, *(short(mean(run["metrics"][m] for run in runs)) for m in ("Recall@20", "NDCG@20")), "", ""]
        for model, runs in found.items()
    ]
    published = tomllib.loads((ROOT / "experiments" / "published.toml").read_text())["gowalla"]
    rows += [[name, "", "", *map(short, values)] for name, values in published.items()]
    return markdown(["Gowalla", "Recall@20", "NDCG@20", "published Recall@20", "published NDCG@20"], rows)


@table
def leave_one_out() -> str:
    """How far the defaults are behind the best of the other settings that were tried, by log and model."""
    found = result("leave-one-out")
    models = [model for model, values in found["values"].items() if len(next(iter(values.values()))) > 1]
    regret = {
        model: {log: c["regret_of_defaults"] for log, c in found["left_out"][model].items()} for model in models
    }
    rows = []
    for log, size in found["logs"].items():
        about = f"{log} ({size['people']:,} x {size['items']:,}, {size['positives']:,})"
        rows.append([about, *(_percent(regret[model][log]) for model in models)])
    chosen = {model: [c["regret"] for c in found["left_out"][model].values()] for model in models}
    for name, of in (("median", median), ("worst", max)):
        rows.append([f"**{name}**", *(_percent(of(regret[model].values())) for model in models)])
        rows.append([f"{name}, settings chosen on the other logs", *(_percent(of(chosen[m])) for m in models)])
    return markdown(["log (people x items, positives)", *models], rows)


@table
def behind_best() -> str:
    """How far each model's defaults are behind the best settings of any model, by log."""
    found = result("leave-one-out")
    behind = found["behind_best"]
    rows = [[log, *(_percent(values[log]) for values in behind.values())] for log in found["logs"]]
    for name, of in (("median", median), ("worst", max)):
        rows.append([f"**{name}**", *(_percent(of(values.values())) for values in behind.values())])
    return markdown(["behind the best there", *behind], rows)


def _percent(share: float) -> str:
    return "0" if share < 0.0005 else f"{share:.1%}"


def in_brief(name: str) -> str:
    """One line a model: four metrics, the paper's beside ours, time and memory."""
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


@table
def widths_ml_1m() -> str:
    return on_validation("widths-ml-1m")


@table
def widths_yelp() -> str:
    return on_validation("widths-yelp")


@table
def in_time() -> str:
    """Means and deviations over seeds, without a row of the paper's to stand beside."""
    found = result("in-time")
    metrics = ["P@5", "NDCG@10", "MAP", "MRR"]
    rows = []
    for model, runs in found["models"].items():
        values = [[run["metrics"][m] for run in runs] for m in metrics]
        rows.append([model, *(f"{short(mean(v))} ± {short(stdev(v))}" for v in values)])
    return markdown(["", *metrics], rows)


@table
def sparse() -> str:
    return on_validation("sparse")


def on_validation(name: str) -> str:
    found = result(name)
    metrics = ["P@5", "NDCG@10", "MAP", "MRR"]
    rows = [
        [name, *(short(row["metrics"][m]) for m in metrics), f"{row['gain']:+.1%} ± {row['gain_error']:.1%}"]
        for name, row in found["rows"].items()
    ]
    return markdown(["", *metrics, f"gain over {found['baseline']}, all eight metrics"], rows)


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
                p = f"{fresh['p']:.2g}" if fresh["p"] else "< 1e-5"  # written with five digits
                check = [short(fresh["defaults"]), short(fresh["best"]), p]
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
        f"{data}: {row['people']:,} people evaluated, {row['new_people']:,} of them new"
        for data, row in sizes.items()
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
