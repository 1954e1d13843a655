"""Measures every model on the validation part of ML-100k u1, over seeds; writes the file that the quality test reads.

    python tests/quality/measure.py [--seeds 6]

Run it when a change is meant to affect quality, and look at the differences. The test part is not used.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import purerec as pr
from purerec.models.registry import REGISTRY, make_model

FILE = Path(__file__).with_name("ml-100k-valid.json")
METRIC = "NDCG@10"
CASES: dict[str, dict[str, Any]] = {
    **{name: {} for name in REGISTRY},
    # Fakes this heavy make the generators matter; by default they change the metric by less than a seed does.
    "pure, heavy fakes": {
        "fake_weight": 1.0,
        "fake_ratio": 0.25,
        "generator_epochs": 0.2,
        "constraint": "recolour",
        "pretrain_epochs": 20,
        "users": "free",
    },
}
"""Settings in addition to the defaults."""


def validation_part(data: pr.Interactions) -> pr.Split:
    parts = pr.split(data, "u1")
    return pr.Split(parts.train, None, parts.valid)


def reached(case: str, parts: pr.Split, seed: int) -> float:
    model = make_model(case.partition(",")[0], **CASES[case]).fit(parts.train, seed=seed)
    return pr.evaluate(model, parts, metrics=(METRIC,)).metrics[METRIC]


def summary(values: list[float]) -> dict[str, Any]:
    return {
        "mean": round(statistics.mean(values), 5),
        "deviation": round(statistics.stdev(values), 5),
        "seeds": [round(value, 5) for value in values],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    given = parser.parse_args()
    parts = validation_part(pr.load("ml-100k"))
    found = {}
    for case in CASES:
        found[case] = summary([reached(case, parts, seed) for seed in range(given.seeds)])
        print(case, found[case], file=sys.stderr, flush=True)
    whole = {"data": "ml-100k u1, validation part", "metric": METRIC, "purerec": pr.__version__, "models": found}
    FILE.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
