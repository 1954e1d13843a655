"""Approximate search in an exported index compared with exact lists: how much is found, and how quickly.

    python benchmarks/approximate.py [--json FILE] [--sizes ml-1m,yelp,200k] [--repeats 5]

ml-1m and yelp: iALS with its default settings on the data. 200k: synthetic vectors, 200,000 items of 64 numbers in
200 overlapping groups with a bias for popular items. Queries are 2,000 users, ten items each, nothing excluded; the
two methods use all cores and alternate. `one` is a single user at a time, as in a service.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.experiments.provenance import write_results
from purerec.output.vectors import Dots, make_index, search_graph, vectors
from purerec.ranking.ranks import top_k

F32 = npt.NDArray[np.float32]
QUERIES, K, ONES = 2_000, 10, 50
GROUPS, DIM = 200, 64


def of_data(name: str) -> tuple[F32, F32]:
    from purerec.data import catalog
    from purerec.models.registry import make_model

    return vectors(make_model("ials").fit(catalog.load(name), seed=0))


def of_nothing(n_items: int) -> tuple[F32, F32]:
    """Users and items around the same group centres; the last element is the items' bias."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((GROUPS, DIM), dtype=np.float32)

    def around(n: int) -> F32:
        own = rng.standard_normal((n, DIM), dtype=np.float32)
        return (0.7 * centres[rng.integers(0, GROUPS, n)] + 0.7 * own) / np.float32(np.sqrt(DIM) / 3)

    bias = rng.standard_exponential(n_items, dtype=np.float32)
    users, items = around(QUERIES), around(n_items)
    return np.column_stack([users, np.ones(QUERIES, np.float32)]), np.column_stack([items, bias])


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(users: F32, items: F32, repeats: int) -> dict[str, Any]:
    start = time.perf_counter()
    graph, recall = make_index(users, items)
    build_s = time.perf_counter() - start
    some = np.ascontiguousarray(users[:: max(1, len(users) // QUERIES)][:QUERIES])
    dots, everyone = Dots(some, items), np.arange(len(some))
    turns: dict[str, list[float]] = {"exact": [], "index": [], "exact_one": [], "index_one": []}
    top_k(dots, everyone[:64], K)  # compile
    for _ in range(repeats):
        turns["exact"].append(seconds(lambda: top_k(dots, everyone, K)))
        turns["index"].append(seconds(lambda: search_graph(graph, some, K)))
        turns["exact_one"].append(seconds(lambda: [top_k(dots, [n], K) for n in range(ONES)]))
        turns["index_one"].append(seconds(lambda: [search_graph(graph, some[n : n + 1], K) for n in range(ONES)]))
    exact, index = statistics.median(turns["exact"]), statistics.median(turns["index"])
    return {
        "items": len(items),
        "dim": items.shape[1],
        "build_s": round(build_s, 2),
        "recall@10": round(recall, 4),
        "exact_per_s": round(len(some) / exact),
        "index_per_s": round(len(some) / index),
        "ratio": round(statistics.median(a / b for a, b in zip(turns["exact"], turns["index"], strict=True)), 2),
        "exact_one_ms": round(1e3 * statistics.median(turns["exact_one"]) / ONES, 3),
        "index_one_ms": round(1e3 * statistics.median(turns["index_one"]) / ONES, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", default="ml-1m,yelp,200k", help="data sets, or a number of thousand items: 20k")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    found = []
    for size in args.sizes.split(","):
        users, items = of_nothing(1_000 * int(size[:-1])) if size[:-1].isdigit() else of_data(size)
        found.append({"size": size, **measure(users, items, args.repeats)})
        print(json.dumps(found[-1]), flush=True)
    if args.json:
        write_results(args.json, found)


if __name__ == "__main__":
    main()
