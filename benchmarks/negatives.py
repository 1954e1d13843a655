"""What dynamic negatives cost and what they gain: uniform, DNS and DRNS compared.

    python benchmarks/negatives.py [--quick] [--json FILE]

ML-100k, the train part of u1, of which each seed holds out another validation part; the test part is not used.
Every model has its default settings (chosen with uniform negatives, except for BPR, whose default is DNS with ten
candidates) and d = 5. Time is CPU time, the least of all seeds, so that other work on the machine does not count; a
sample is a pair of a user and an item, for BPR a triple.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from threadpoolctl import threadpool_limits

import purerec as pr
from purerec.experiments.provenance import write_results

MODELS = ("bpr", "gmf", "pugmf", "svd")
WAYS: tuple[tuple[str, int], ...] = (("uniform", 1), ("dns", 3), ("dns", 10), ("drns", 3), ("drns", 10))
METRIC = "P@5"


def measure(model: str, negatives: str, candidates: int, parts: list[pr.Split], **changes: Any) -> dict[str, Any]:
    settings = {"dim": 5, "negatives": negatives, "candidates": candidates} | changes
    pr.make_model(model, **settings | {"epochs": 1}).fit(parts[0].train)  # compile
    found, seconds, n_samples = [], [], 0.0
    for seed, part in enumerate(parts):
        fresh: Any = pr.make_model(model, **settings)
        began = time.process_time()
        fitted = fresh.fit(part.train, seed=seed)
        seconds.append(time.process_time() - began)
        n_samples = part.train.n_positives * samples_per_positive(fresh, part.train.n_items) * fresh.config.epochs
        assert part.valid is not None
        found.append(pr.evaluate(fitted, pr.Split(part.train, None, part.valid)).metrics[METRIC])
    return {
        "model": model,
        "negatives": negatives,
        "candidates": candidates,
        METRIC: [round(x, 5) for x in found],
        "mean": round(mean(found), 5),
        "deviation": round(stdev(found), 5) if len(found) > 1 else None,
        "fit_cpu_s": round(min(seconds), 3),
        "million_samples_per_cpu_s": round(n_samples / min(seconds) / 1e6, 2),
    }


def samples_per_positive(model: Any, n_items: int) -> float:
    """A triple of BPR counts once; for the others, a positive and its unlabeled pairs count."""
    match model.name:
        case "bpr":
            return 1.0
        case "svd":
            return 1.0 + float(model.config.unlabeled_ratio)
    return 1.0 + float(model.config.draws_per_positive(n_items))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed and ten epochs")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    data = pr.load("ml-100k")
    parts = [pr.split(data, "u1", seed=seed) for seed in range(1 if given.quick else 5)]
    changes = {"epochs": 10} if given.quick else {}
    rows = []
    with threadpool_limits(1):
        for model in MODELS:
            for negatives, candidates in WAYS:
                row = measure(model, negatives, candidates, parts, **changes)
                rows.append(row)
                print(
                    f"{model:<6} {negatives:<8} of {candidates:>2}: {METRIC} {row['mean']:.4f}, "
                    f"{row['million_samples_per_cpu_s']:.1f} million samples a second",
                    flush=True,
                )
    if given.json:
        result = {"data": "ml-100k, validation parts of u1's train part", "metric": METRIC, "rows": rows}
        write_results(given.json, result)


if __name__ == "__main__":
    main()
