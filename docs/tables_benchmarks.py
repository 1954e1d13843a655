"""Tables of speed and memory, from `make bench`."""

from __future__ import annotations

from statistics import mean, stdev

from tables import markdown, megabytes, number, result, short, table, times

from purerec.serving.process.settings import Limits


@table
def models() -> str:
    found = result("bench-models")
    return markdown(
        ["one fit, default settings", "data", "seconds", "MB added"],
        [[r["model"], r["data"], f"{r['fit_s']:.1f}", megabytes(r["added_mb"])] for r in found],
    )


@table
def ratings() -> str:
    rows = []
    for r in result("bench-ratings"):
        ours, theirs = r["ours"], r["surprise"]
        ratio = times(theirs["seconds"] / ours["seconds"])
        cells = [
            f"{ours['rmse']:.4f}",
            f"{theirs['rmse']:.4f}",
            number(ours["seconds"]),
            number(theirs["seconds"]),
            ratio,
        ]
        rows.append([f"{r['model']}, Surprise's {r['peer']}", *cells])
    return markdown(["ML-100k u1", "RMSE", "Surprise's", "seconds", "Surprise's", "faster"], rows)


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
            *(f"{number(r[p])} ({times(r['cpu_engine'] / r[p])})" for p in peers),
        ]
        for r in found["sizes"]
    ]
    lines = markdown(["", "cpu engine", "with two threads", *titles], rows)
    more = markdown(
        ["d 8, batch 128, with generators", "million per second"],
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
                    times(plain["million_samples_per_cpu_s"] / r["million_samples_per_cpu_s"]),
                ]
            )
        best = max(ways, key=lambda r: r["mean"])
        paired = [a - b for a, b in zip(best[metric], plain[metric], strict=True)]
        # Three standard errors, not two: it is the best of several.
        sure = len(paired) > 1 and mean(paired) > 3 * stdev(paired) / len(paired) ** 0.5
        if best is not plain and sure:
            gain = mean(paired) / plain["mean"]
            verdicts.append(f"{model} gains {gain:.0%} with {best['negatives']} of {best['candidates']}")
        else:
            nothing.append(model)
    heads = ["", "negatives", f"validation {metric}", "against uniform", "million samples per second", "cost"]
    if nothing:
        verdicts.append(f"{', '.join(nothing)}: no gain beyond noise")
    return f"{markdown(heads, rows)}\n\nAt best, {'; '.join(verdicts)}."


@table
def start() -> str:
    found = result("bench-start")
    rows = [
        ["imports alone", f"{number(found['imports_s'])} s"],
        ["with a small fit of PU-GMF", f"{number(found['small_fit_s'])} s"],
    ]
    return markdown(["a new process, kernels in the cache", ""], rows)


@table
def paper_run() -> str:
    found = result("bench-paper_run")
    return markdown(
        ["PURE.paper('ml-1m'), whole run", ""],
        [[k.replace("_", " "), f"{v:,}" if isinstance(v, int) else number(v)] for k, v in found.items()],
    )


@table
def sampling() -> str:
    rows = [
        [
            f"{r['users']:,} x {r['items']:,}, {r['filter']}, {r['draw']}",
            number(r["million_per_s"]),
            number(r["numpy_integers_million_per_s"]),
            number(r["ratio"]),
        ]
        for r in result("bench-sampling")
    ]
    return markdown(["", "purerec", "rng.integers", "ratio"], rows)


@table
def shared() -> str:
    rows = []
    for r in result("bench-shared"):
        each, own, two = (r[f"{name}_million_per_s"] for name in ("each", "shared", "shared_two_threads"))
        bound = r["products_million_per_s"]
        rows.append(
            [
                f"{r['users']:,} x {r['items']:,}, d {r['dim']}",
                number(each),
                f"**{number(own)}** ({times(own / each)})",
                times(two / own),
                f"{number(bound)} ({times(own / bound)})",
            ]
        )
    return markdown(["", "for each positive", "shared", "with two threads", "bare products"], rows)


@table
def proposals() -> str:
    found = result("bench-proposals")
    names = list(found[0]["variance"])
    rows = [
        [f"{r['data']} ({r['items']:,} items), epoch {r['epochs']}", *(f"{r['variance'][n]:.2f}" for n in names)]
        for r in found
    ]
    return markdown(["", *names], rows)


@table
def training_before() -> str:
    rows = [
        [
            f"{r['users']:,} users, d {r['dim']}, batch {r['batch']}",
            number(r["before"]),
            number(r["now"]),
            f"{r['ratio']:.2f}x",
        ]
        for r in result("bench-before")
    ]
    return markdown(["", "before", "now", "ratio"], rows)


@table
def evaluating() -> str:
    rows = []
    for r in result("bench-evaluating"):
        ms = r["ms_per_1000_users"]
        rows.append(
            [
                f"{r['size']}, {r['threads']} thread{'s' * (r['threads'] > 1)}",
                f"{ms['evaluate']:.1f}",
                f"{ms['product']:.1f} ({times(ms['evaluate'] / ms['product'])} of it)",
                f"{ms['ranx_all']:.0f} ({times(ms['ranx_all'] / ms['evaluate'])})",
                f"{ms['ranx_metrics']:.0f} ({times(ms['ranx_metrics'] / ms['evaluate'])})",
                f"{ms['top_10']:.1f}",
            ]
        )
    heads = [
        "ms per 1,000 users",
        "purerec",
        "bare product",
        "ranx, ranking and metrics",
        "ranx, metrics only",
        "top-10 lists",
    ]
    return markdown(heads, rows)


@table
def growth() -> str:
    rows = [
        [
            f"{r['interactions']:,}",
            f"{r['users']:,}",
            number(r["epoch_s"]),
            megabytes(r["fit_mb"]),
            megabytes(r["peak_mb"]),
        ]
        for r in result("bench-growth")
    ]
    return markdown(["interactions", "users", "seconds per epoch", "MB for the fit", "MB in total"], rows)


@table
def encoders() -> str:
    rows = [
        [
            f"{r['items']:,}",
            number(r["epoch_s"]),
            number(r["exact_s"]) if "exact_s" in r else "",
            number(r["neighbors_s"]),
        ]
        for r in result("bench-encoders")
    ]
    return markdown(["items", "an epoch of the embeddings, s", "exact weights, s", "200 neighbours, s"], rows)


@table
def reading() -> str:
    found = result("bench-reading")
    one, large = found["ml-1m"], found["large"]
    rows = [
        [
            "ML-1M's ratings.dat",
            f"{number(one['purerec_s'])} s",
            f"{number(one['polars_s'])} s (tab-separated copy)",
            number(one["ratio"]),
        ],
        [
            f"CSV of {large['rows']:,} rows, read",
            f"{number(large['purerec']['read'])} s",
            f"{number(large['polars']['read'])} s",
            number(large["ratio_read"]),
        ],
        [
            "the same, read, indexed, split, fitted (ItemPop), evaluated",
            f"{number(large['purerec']['total'])} s, peak {large['purerec']['peak_mb']:,.0f} MB",
            f"{number(large['polars']['total'])} s (reading only)",
            number(large["ratio_total"]),
        ],
    ]
    return markdown(["", "purerec", "polars alone", "ratio"], rows)


@table
def approximate() -> str:
    rows = [
        [
            f"{r['size']}: {r['items']:,} items of {r['dim']} numbers",
            short(r["recall@10"]) if r["recall@10"] < 1 else "1",
            f"{r['index_per_s']:,}",
            f"{r['exact_per_s']:,}",
            times(r["ratio"]),
            number(r["index_one_ms"]),
            number(r["exact_one_ms"]),
            number(r["build_s"]),
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
def hostile() -> str:
    found = result("bench-hostile")
    rows = []
    for run in found["runs"]:
        memory = run["memory_mb"]
        rows.append(
            [
                f"{run['seconds']:g} s, {run['workers']} worker{'s' * (run['workers'] > 1)}",
                f"{run['good']:,}",
                str(run["failed"]),
                f"{run['p50_ms']:.0f}",
                f"{run['p99_ms']:.0f}",
                f"{sum(run['hostile'].values()):,}",
                f"{memory['before']:.0f}",
                f"{memory['first_third']:.0f}",
                f"{memory['last_third']:.0f}",
                f"{memory['peak']:.0f}",
            ]
        )
    heads = ["", "good requests", "failed", "p50, ms", "p99, ms", "hostile connections"]
    heads += ["MB before", "first third", "last third", "peak"]
    kinds = [kind.replace("_", " ") for kind in found["runs"][0]["hostile"]]
    return markdown(heads, rows) + (
        f"\n\nHostile: {', '.join(kinds)}. When the run began, other work kept {found['load_before']:g} processes "
        f"waiting for the {found['cpus']} cores."
    )


@table
def serving_limits() -> str:
    limits = Limits()
    rows = {
        "items of a list (`k`)": limits.k,
        "people (`users`)": limits.batch,
        "people times `k`": limits.cells,
        "people times `k`, with reasons or attributes": limits.explained,
        "people times `k`, with caps, diversity, discount or cold items": limits.arranged,
        "conditions, caps or columns": limits.conditions,
        "characters of a condition": limits.condition,
        "places for cold items": limits.cold,
        "items of a `history`": limits.history,
        "ids in `items` or `exclude`": limits.ids,
        "reasons for an item (`explain`)": limits.because,
        "results of a search": limits.found,
        "characters of a search": limits.query,
        "characters of an id": limits.id_length,
        "bytes of the body": limits.body_bytes,
        "bytes of the head": limits.head_bytes,
        "fields of the head": limits.fields,
        "bytes of a body in chunks, with their sizes, extensions and trailers": limits.body_bytes + limits.head_bytes,
    }
    return markdown(["of one request", "at most"], [[what, f"{limit:,}"] for what, limit in rows.items()])


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
                f"{ms['implicit']:.1f} ({times(r['implicit_over_purerec'])})",
                f"{ms['product']:.1f} ({times(r['product_over_purerec'])})",
            ]
        )
    return markdown(["ms per 1,000 users", "purerec", "implicit", "bare product"], rows)


@table
def rules() -> str:
    found = result("bench-rules")
    names = list(found[0]["rules"])
    rows = [[r["size"], *(f"{r['rules'][name]:.1f}x" for name in names)] for r in found]
    return markdown(["time relative to a plain list", *names], rows)


@table
def folding_speed() -> str:
    rows = [
        [f"**{r['model']}**", f"{r['vector_us'] / 1000:.2f}", f"{r['list_us'] / 1000:.2f}"]
        for r in result("bench-recommending")["folding"]
    ]
    return markdown(["ms", "vector", "list"], rows)
