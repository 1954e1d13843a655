"""Tables of fits that several workers share."""

from __future__ import annotations

from statistics import mean, stdev

from tables import ROOT, markdown, megabytes, number, result, short, table


@table
def shards() -> str:
    if not (ROOT / "results" / "bench-shards.json").exists():
        return "Not measured yet: `python benchmarks/shards.py --json results/bench-shards.json`."
    found = result("bench-shards")["rows"]
    values = {(r["data"], r["model"], r["shards"], r["seed"]): r["metrics"] for r in found}
    counts, rows = sorted({r["shards"] for r in found} - {0}), []
    for data, model in dict.fromkeys((r["data"], r["model"]) for r in found):
        seeds = [
            seed
            for seed in sorted({r["seed"] for r in found})
            if all((data, model, n, seed) in values for n in (0, *counts))
        ]
        for metric in next(iter(values.values())) if seeds else ():
            plain = [values[data, model, 0, seed][metric] for seed in seeds]
            cells = []
            for n in counts:
                gains = [values[data, model, n, seed][metric] - base for seed, base in zip(seeds, plain, strict=True)]
                error = f" ± {stdev(gains) / len(gains) ** 0.5 / mean(plain):.1%}" if len(gains) > 1 else ""
                cells.append(f"{mean(gains) / mean(plain):+z.1%}{error}")
            rows.append([f"{data}, {model}, {metric}", str(len(seeds)), short(mean(plain)), *cells])
    workers = [f"{n} worker{'s' * (n > 1)}" for n in counts]
    commits = {r["commit"][:10] for r in found if r["commit"]}
    mixed = f"\n\nThe rows come from commits {', '.join(sorted(commits))}." if len(commits) > 1 else ""
    return markdown(["", "seeds", "plain fit", *workers], rows) + mixed


@table
def breakeven() -> str:
    large = max(result("bench-growth"), key=lambda r: r["interactions"])
    alone = (
        f"One process fits {large['interactions']:,} interactions in {number(large['epoch_s'])} s for each epoch, "
        f"with {megabytes(large['peak_mb'])} MB of memory (PU-GMF, d = 16)."
    )
    if not (ROOT / "results" / "bench-breakeven.json").exists():
        return f"{alone} From which size on two workers are faster has not been measured (benchmarks/breakeven.py)."
    found = sorted(result("bench-breakeven"), key=lambda r: r["positives"])
    rows = [[f"{r['positives']:,}", number(r["one_s"]), number(r["two_s"])] for r in found]
    lost = [r["positives"] for r in found if r["one_s"] <= r["two_s"]]
    verdict = "Two workers were always faster."
    if lost:
        verdict = f"Up to {max(lost):,} interactions it was faster than two workers."
    load = max(r["load_1min"] for r in found)
    heads = [f"interactions, PU-GMF, {found[0]['epochs']} epochs", "one process, s", "two workers, s"]
    return (
        f"{alone} {verdict}\n\n{markdown(heads, rows)}\n\nWhole commands, on one machine; at most {load:.1f} "
        "processes wanted its cores at a time."
    )
