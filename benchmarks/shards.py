"""What is lost by sharing a fit: metrics of a plain fit, and of fits in 1, 2 and 4 shards.

    python benchmarks/shards.py [--json FILE] [--data ml-100k] [--models pugmf,pure] [--seeds 3]

One process takes the steps of as many workers as there are shards, to the same bits (tests/cli/test_workers.py), so
that nothing has to be started.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import purerec as pr
from purerec.engines.distributed.group import Group, sharing_with
from purerec.experiments.provenance import write_results

SHARDS = (0, 1, 2, 4)
"""0: a plain fit"""
METRICS = "NDCG@10,Recall@20"


def measure(log: Any, name: str, n_shards: int, seed: int) -> dict[str, float]:
    split, model = pr.split(log, "ratio", seed=seed), pr.make_model(name)
    if n_shards:
        group = Group()
        group.shards = n_shards
        with sharing_with(group):
            model.fit(split.full_train, seed=seed)
    else:
        model.fit(split.full_train, seed=seed)
    return dict(pr.evaluate(model, split, metrics=METRICS, seed=seed).metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--models", default="pugmf,pure")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    log, rows = pr.load(options.data), []
    for seed in range(options.seeds):
        for name in options.models.split(","):
            for n_shards in SHARDS:
                row = {"model": name, "shards": n_shards, "seed": seed, **measure(log, name, n_shards, seed)}
                print(row, file=sys.stderr, flush=True)
                rows.append(row)
    if options.json:
        write_results(options.json, {"data": options.data, "rows": rows})


if __name__ == "__main__":
    main()
