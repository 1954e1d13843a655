"""Tables of settings: tried on validation parts, found by `purerec tune`, or estimated from data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from statistics import median

from tables import ROOT, markdown, result, short, table


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
        rows.append([_about(log, size), *(_percent(regret[model][log]) for model in models)])
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


@table
def small_logs() -> str:
    """The metric of every model's defaults, and of PURE with the settings that it had for up to 200 users, by log."""
    found = result("small-logs")
    before = "dim 5, history_weight 0.1"
    columns = [("pure", before), *((model, "defaults") for model in found["values"])]
    rows = []
    for log, size in found["logs"].items():
        values = [found["values"][model][log][form] for model, form in columns]
        rows.append([_about(log, size), *_with_best(values)])
    names = [f"{model}, {form}" if form == before else model for model, form in columns]
    return markdown(["log (people x items, positives)", *names], rows)


@table
def shared_draws() -> str:
    """The metric of PURE and GMF with draws for each positive, and with draws that a batch shares, by log."""
    found = result("shared-draws")
    forms = {
        ("pure", "unlabeled per_user"): "pure, draws for each positive",
        ("pure", "defaults"): "pure, 128 shared",
        ("pure", "unlabeled_ratio 256"): "pure, 256 shared",
        ("gmf", "unlabeled per_user"): "gmf, draws for each positive",
        ("gmf", "unlabeled_ratio 128"): "gmf, 128 shared",
        ("gmf", "defaults"): "gmf, 256 shared",
        ("ials", "defaults"): "ials",
    }
    rows = []
    for log, size in found["logs"].items():
        rows.append([_about(log, size), *(short(found["values"][model][log][form]) for model, form in forms)])
    return markdown(["log (people x items, positives)", *forms.values()], rows)


@table
def draws_by_user() -> str:
    """The metric of PU-GMF with draws for each positive, from all pairs, and shared ones, by log."""
    found = result("draws-by-user")
    forms = {"unlabeled per_user": "for each positive", "unlabeled global": "from all pairs", "defaults": "default"}
    rows = []
    for log, size in found["logs"].items():
        values = found["values"]["pugmf"][log]
        rows.append([_about(log, size), *_with_best([values[form] for form in forms])])
    return markdown(["log (people x items, positives)", *forms.values()], rows)


@table
def chosen_width() -> str:
    """The metric of PURE and GMF with the full width, and with the width chosen on held-out pairs, by log."""
    found = result("chosen-width")
    columns = [(model, form) for model in ("pure", "gmf") for form in ("dim x1", "defaults")]
    columns += [("ials", "defaults"), ("itemknn", "defaults")]
    rows = []
    for log, size in found["logs"].items():
        values = [found["values"][model][log][form] for model, form in columns]
        rows.append([_about(log, size), *_with_best(values), f"{values[1] / values[0] - 1:+.1%}"])
    head = [f"{model}, full width" if form == "dim x1" else model for model, form in columns]
    return markdown(["log (people x items, positives)", *head, "gain of pure"], rows)


@table
def long_tail() -> str:
    """The metric of PURE and GMF with the default L2 and with multiples of it, and of other models, by log."""
    found = result("long-tail")
    columns = [
        (model, form)
        for model in ("pure", "gmf")
        for form in ("regularization x0.7", "defaults", "regularization x1.4", "regularization x2")
    ]
    columns += [(model, "defaults") for model in found["values"] if model not in ("pure", "gmf")]
    rows = []
    for log, size in found["logs"].items():
        rows.append([_about(log, size), *_with_best([found["values"][model][log][form] for model, form in columns])])
    head = [model if form == "defaults" else f"{model}, L2 {form.split()[1]}" for model, form in columns]
    return markdown(["log (people x items, positives)", *head], rows)


def _about(log: str, size: Mapping[str, int]) -> str:
    return f"{log} ({size['people']:,} x {size['items']:,}, {size['positives']:,})"


def _with_best(values: Sequence[float]) -> list[str]:
    return [f"**{short(value)}**" if value == max(values) else short(value) for value in values]


def _percent(share: float) -> str:
    return "0" if share < 0.0005 else f"{share:.1%}"


@table
def validation() -> str:
    return on_validation("validation")


@table
def generators() -> str:
    return on_validation("generators")


@table
def other_fakes() -> str:
    return on_validation("other-fakes")


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
def sparse() -> str:
    return on_validation("sparse")


@table
def softmax() -> str:
    found = result("softmax")["rows"]
    metrics = ["P@5", "NDCG@10", "MAP", "Recall@20"]
    rows = [
        [name, *(short(row["metrics"][m]) for m in metrics), f"{row['gain']:+.1%} ± {row['gain_error']:.1%}"]
        for name, row in found.items()
    ]
    return markdown(["", *metrics, "gain over PU, C = 8"], rows)


@table
def softmax_gowalla() -> str:
    found = result("softmax-gowalla")["rows"]
    metrics = ["Recall@20", "NDCG@20", "MRR"]
    return markdown(["", *metrics], [[n, *(short(row["metrics"][m]) for m in metrics)] for n, row in found.items()])


@table
def prior_estimation() -> str:
    """Each estimate of the class prior, where the prior is known."""
    rows = []
    for row in result("prior-estimation")["rows"]:
        found, spread = row["estimates"], row["spread"]
        cells = [f"{found[what]:.3f} ± {spread[what]:.3f}" for what in found if what != "observed"]
        rows.append([row["world"], f"{row['prior']:g}", f"{found['observed']:.3f}", *cells])
    heads = ["world", "true prior", "observed", "`best_bin`", "`elkan_noto`", "`best_bin` of the true relevance"]
    return markdown(heads, rows)


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
    """What a search found for each model and data set, and the result of a check on fresh folds."""
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
                p = f"{fresh['p']:.2g}" if fresh["p"] else "< 1e-5"  # stored with five digits
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
def graph_filters() -> str:
    """The metric of ItemKNN, EASE, GF-CF as published, and the best of the filters tried, by log."""
    rows = []
    for r in result("bench-graph_filters")["rows"]:
        filters = [found["metrics"]["NDCG@20"] for found in r["filters"]]
        values = [*(r[name]["NDCG@20"] for name in ("itemknn", "ease")), filters[0], max(filters)]
        name = r["data"].replace("-last", ", the end of each list held out")
        some = "" if r["people"] is None else f", {r['people']:,} people"
        rows.append([f"{name}{some}", *_with_best(values)])
    return markdown(["NDCG@20", "itemknn", "ease", "GF-CF", "best of six filters"], rows)
