"""What sharing a fit costs in quality: metrics of a plain fit, and of fits by 1, 2 and 4 workers.

    python benchmarks/shards.py [--json FILE] [--data ml-1m,yelp,gowalla] [--models pugmf,pure] [--seeds 5]

One process takes the steps of as many workers as there are shards, bit for bit (tests/cli/test_workers.py), so that
no workers have to be started. Each data set is split as published: ten rows of each user of ML-1M and five of
Yelp are held out, Gowalla has its given parts. All items are ranked. The split is the same for all seeds.

Rows are written to the file as they come, each with its commit; those already there are not measured again.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import purerec as pr
from purerec.engines.distributed.group import Group, sharing_with
from purerec.experiments.provenance import provenance, read_results, write_results

SHARDS = (0, 1, 2, 4)
"""0: a plain fit"""
METRICS = "NDCG@10,Recall@20"
_KEYS = ("data", "model", "shards", "seed")


@cache
def parts(data: str) -> pr.Split:
    return pr.split(pr.load(data), "auto", seed=0)


def measure(data: str, name: str, n_shards: int, seed: int) -> dict[str, Any]:
    split, model, group = parts(data), pr.make_model(name), Group()
    group.shards = n_shards
    with sharing_with(group) if n_shards else nullcontext():
        model.fit(split.full_train, seed=seed)
    found = pr.evaluate(model, split, metrics=METRICS, seed=seed).metrics
    return {"split": split.label, "metrics": dict(found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", default="ml-1m,yelp,gowalla")
    parser.add_argument("--models", default="pugmf,pure")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    rows = read_results(options.json)["rows"] if options.json and options.json.exists() else []
    there = {tuple(row[key] for key in _KEYS) for row in rows}
    for seed, data, name, n_shards in product(
        range(options.seeds), options.data.split(","), options.models.split(","), SHARDS
    ):
        key = (data, name, n_shards, seed)
        if key in there:
            continue
        row = dict(zip(_KEYS, key, strict=True)) | measure(data, name, n_shards, seed)
        made = provenance()
        rows.append(row | {name: made[name] for name in ("commit", "clean", "date")})
        print(row, file=sys.stderr, flush=True)
        if options.json:
            write_results(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
