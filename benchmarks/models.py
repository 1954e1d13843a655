"""How long one fit of every model takes, and how much memory, on the paper's three data sets.

    python benchmarks/models.py [--data ml-1m] [--models all] [--json FILE]

Default settings, on the train part of each table's split; after a fit of a small log, so that compiling is not
counted. `added_mb` is what the fit added to the process. Results are written as they come; those already in the file
are skipped. No metrics: those are in the tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import purerec as pr
from purerec.data.memory import Peak
from purerec.experiments.provenance import read_results, write_results
from purerec.models.registry import REGISTRY

SPLITS: dict[str, dict[str, Any]] = {
    "ml-100k": {"how": "official"},
    "ml-1m": {"how": "leave_n_out", "n": 10},
    "yelp": {"how": "leave_n_out", "n": 5},
}


def small_log() -> pr.Interactions:
    rng = np.random.default_rng(0)
    return pr.Interactions.from_columns(rng.integers(0, 50, 1000), rng.integers(0, 40, 1000), name="small")


def measure(name: str, train: pr.Interactions) -> dict[str, Any]:
    pr.make_model(name).fit(small_log())
    peak = Peak()
    model = pr.make_model(name).fit(train)
    return {
        "data": train.name,
        "model": name,
        "fit_s": model.fitted_on.fit_seconds,
        "added_mb": round(peak.mb - peak.before_mb),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", default="all")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    rows = read_results(given.json) if given.json is not None and given.json.exists() else []
    names = list(REGISTRY) if given.models == "all" else given.models.split(",")
    for data in given.data.split(","):
        train = pr.split(pr.load(data), **SPLITS[data]).full_train
        for name in names:
            if any((row["data"], row["model"]) == (train.name, name) for row in rows):
                continue
            rows.append(measure(name, train))
            print(rows[-1], flush=True)
            if given.json is not None:
                write_results(given.json, rows)


if __name__ == "__main__":
    main()
