"""Lists with rules compared with the plain list of the same person.

    python benchmarks/rules.py [--json FILE] [--people 100]

One person at a time, ten items, as in a service. A ratio is the median over people of the CPU time with a rule over
that without, measured one after the other. The first call of each kind, which fills the caches, is left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from purerec.data.items.reading import read_items
from purerec.experiments.provenance import write_results
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.rules import ListRules, RuleOptions
from recommending import make_factors

K = 10
SIZES = {
    "3,706 items, d 64": (6_040, 3_706, 64, 165),
    "25,815 items, d 16": (25_677, 25_815, 16, 20),
    "200,000 items, d 64": (20_000, 200_000, 64, 10),
}
RULES: dict[str, RuleOptions] = {
    "one condition": {"where": ["genre=g3"]},
    "three conditions": {"where": ["genre=g3|g4|g5", "year>=1980", "in_stock"]},
    "a cap": {"at_most": {"genre": 2}},
    "diversity": {"diversity": 0.3},
    "a discount": {"popularity_discount": 0.3},
    "a cold item": {"cold_items": 1},
    "all of these": {
        "where": ["genre=g3|g4|g5", "year>=1980", "in_stock"],
        "at_most": {"genre": 2},
        "diversity": 0.3,
        "popularity_discount": 0.3,
        "cold_items": 1,
    },
}


def with_items(model: Recommender, n_items: int) -> Recommender:
    """A tenth as many cold items; two of twenty genres each."""
    rng = np.random.default_rng(1)
    n = n_items + n_items // 10
    genres = rng.integers(0, 20, (n, 2))
    frame = pl.DataFrame(
        {
            "item": np.arange(n),
            "genre": [f"g{a}|g{b}" for a, b in genres.tolist()],
            "year": rng.integers(1930, 2025, n),
            "in_stock": rng.random(n) < 0.8,
        }
    )
    return model.set_items(read_items(frame))


def measure(name: str, people: int) -> dict[str, Any]:
    n_users, n_items, dim, per_user = SIZES[name]
    model = with_items(make_factors(n_users, n_items, dim, per_user)[0], n_items)
    row: dict[str, Any] = {"size": name, "rules": {}}
    plain_us: list[float] = []
    for what, options in RULES.items():
        rules, ratios = ListRules.of(options), []
        for person in range(people + 1):
            user = np.array([person], dtype=np.int64)
            start = time.process_time()
            model.top_for_users(user, K)
            middle = time.process_time()
            model.top_for_users(user, K, rules=rules)
            end = time.process_time()
            if person:
                ratios.append((end - middle) / (middle - start))
                plain_us.append((middle - start) * 1e6)
        row["rules"][what] = round(statistics.median(ratios), 2)
    row["plain_us"] = round(statistics.median(plain_us), 1)
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--people", type=int, default=100)
    options = parser.parse_args()
    found = [measure(name, options.people) for name in SIZES]
    for row in found:
        print(row)
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
