"""Exact evaluation of a factor model, compared with a bare matrix product and with ranx.

    python benchmarks/evaluating.py [--json FILE] [--repeats 9] [--sizes ml-1m,yelp] [--no-ranx]

Ours: from factors to all eight metrics of every user, seen items excluded. The product (numpy, OpenBLAS) only
computes the same scores in blocks in a preallocated buffer: a bound, not a rival. ranx is timed on 1,000 users,
twice: `ranx_all` does the same as ours (scores, top-1,000 lists by argpartition, its Run, its metrics),
`ranx_metrics` is given the Run. Lists of ten items are compared with numpy's argpartition and a sort of the ten, on
precomputed scores.

All alternate; a ratio is the median over the rounds. Goals: at most 8 times the product at ML-1M size and 3 times
at Yelp size, at least 10 times faster than ranx.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.data.vocabulary import Vocabulary
from purerec.evaluation.protocols import evaluate
from purerec.experiments.provenance import write_results
from purerec.ranking.ranks import ranks, top_k
from purerec.ranking.scorers import Factors

F32 = npt.NDArray[np.float32]
SIZES = {"ml-1m": (6_040, 3_706, 8, 10), "yelp": (25_677, 25_815, 16, 5)}
"""n_users, n_items, dim, test positives per user"""
RANX_USERS = 1_000
RANX_METRICS = [
    "precision@3",
    "precision@5",
    "precision@10",
    "ndcg@3",
    "ndcg@5",
    "ndcg@10",
    "map",
    "mrr",
]


class FactorModel:
    name = "factors"

    def __init__(self, n_users: int, n_items: int, dim: int) -> None:
        rng = np.random.default_rng(0)
        self.parts = Factors(
            rng.normal(size=(n_users, dim)).astype(np.float32), rng.normal(size=(n_items, dim)).astype(np.float32)
        )

    def score(self, user_idx: Any, /) -> F32:
        return np.asarray(self.parts.users[user_idx] @ self.parts.items.T)

    def factors(self) -> Factors:
        return self.parts


def make_split(n_users: int, n_items: int, n_positives: int) -> Split:
    """Each user has 20 to 100 train items and some test positives, all at random."""
    rng = np.random.default_rng(1)
    n_train = rng.integers(20, 101, n_users)
    user = np.repeat(np.arange(n_users), n_train + n_positives)
    key = np.unique(user * n_items + rng.integers(0, n_items, len(user)))
    user, item = np.divmod(key, n_items)
    order = np.lexsort((rng.random(len(key)), user))
    first = np.searchsorted(user, np.arange(n_users))
    is_test = np.zeros(len(key), dtype=bool)
    is_test[order[np.arange(len(key)) - first[user[order]] < n_positives]] = True
    log = Interactions(
        Vocabulary.of(range(n_users), "user"),
        Vocabulary.of(range(n_items), "item"),
        user.astype(np.int32),
        item.astype(np.int32),
    )
    return Split(log.subset(~is_test), None, log.subset(is_test))


def product(model: FactorModel, block: int) -> Callable[[], None]:
    users, items = model.parts.users, np.ascontiguousarray(model.parts.items.T)
    buffer = np.empty((block, items.shape[1]), dtype=np.float32)

    def run() -> None:
        for a in range(0, len(users), block):
            part = users[a : a + block]
            np.matmul(part, items, out=buffer[: len(part)])

    return run


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    for run in runs.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            taken[name].append(seconds(run))
    return taken


def ratio(times: dict[str, list[float]], a: str, b: str) -> float:
    return statistics.median(x / y for x, y in zip(times[a], times[b], strict=True))


def ranx_seconds(model: FactorModel, split: Split, threads: int, repeats: int) -> dict[str, float]:
    """Seconds for RANX_USERS users; empty without ranx."""
    try:
        import numba
        import ranx
    except ImportError:
        return {}
    numba.set_num_threads(threads)
    users, seen = np.arange(RANX_USERS), split.train.positives
    user_names = [f"u{u}" for u in users]
    item_names = [f"i{i}" for i in range(split.train.n_items)]
    qrels = ranx.Qrels({user_names[u]: {item_names[i]: 1 for i in split.test.positives.row(u)} for u in users})

    def make_run() -> Any:
        scores = model.score(users)
        for u in users:
            scores[u, seen.row(u)] = -np.inf
        items = argpartition(scores, 1_000)
        values = np.take_along_axis(scores, items, axis=1)
        return ranx.Run(
            {
                user_names[u]: dict(zip([item_names[i] for i in items[u]], values[u].tolist(), strict=True))
                for u in users
            }
        )

    run = make_run()
    taken = in_turns(
        {
            "ranx_metrics": lambda: ranx.evaluate(qrels, run, RANX_METRICS),
            "ranx_all": lambda: ranx.evaluate(qrels, make_run(), RANX_METRICS),
        },
        min(repeats, 3),
    )
    return {name: statistics.median(values) for name, values in taken.items()}


def argpartition(scores: F32, k: int) -> npt.NDArray[np.int64]:
    best = np.argpartition(scores, -k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
    return np.take_along_axis(best, order, axis=1)


def measure(name: str, threads: int, repeats: int, *, with_ranx: bool) -> dict[str, Any]:
    n_users, n_items, dim, n_positives = SIZES[name]
    model, split = FactorModel(n_users, n_items, dim), make_split(n_users, n_items, n_positives)
    seen, wanted = split.train.positives, split.test.positives
    everybody = np.arange(n_users)
    with threadpool_limits(threads):
        blocks = {block: min(seconds(product(model, block)) for _ in range(3)) for block in (64, 256, 1024)}
        best_block = min(blocks, key=lambda block: blocks[block])
        times = in_turns(
            {
                "product": product(model, best_block),
                "evaluate": lambda: evaluate(model, split, threads=threads),
                "ranks": lambda: ranks(model, wanted, excluded=seen, threads=threads),
                "top_10": lambda: top_k(model, everybody, 10, excluded=seen, threads=threads),
            },
            repeats,
        )
    some = min(2_000, n_users)
    scores = model.score(everybody[:some])
    partition = statistics.median(in_turns({"x": lambda: argpartition(scores, 10)}, 3)["x"]) / some
    per_1000 = {key: statistics.median(values) / n_users * 1e6 for key, values in times.items()}
    row = {
        "size": name,
        "threads": threads,
        "product_block": best_block,
        "ms_per_1000_users": {key: round(value, 3) for key, value in per_1000.items()}
        | {"argpartition_10": round(partition * 1e6, 3)},
        "evaluate_over_product": round(ratio(times, "evaluate", "product"), 2),
        "top_10_over_product": round(ratio(times, "top_10", "product"), 2),
        "argpartition_over_top_10": round(partition * 1e6 / per_1000["top_10"], 1),
    }
    if with_ranx:
        with threadpool_limits(threads):
            found = ranx_seconds(model, split, threads, repeats)
        for key, taken in found.items():
            row["ms_per_1000_users"][key] = round(taken / RANX_USERS * 1e6, 1)
            row[f"{key}_over_evaluate"] = round(taken / RANX_USERS * 1e6 / per_1000["evaluate"], 1)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the rows here ('-': standard output)")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--no-ranx", action="store_true", help="ranx takes a minute or two to compile")
    args = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    rows = [
        measure(name, threads, args.repeats, with_ranx=not args.no_ranx)
        for name in args.sizes.split(",")
        for threads in sorted({1, min(2, cpus)})
    ]
    if args.json == "-":
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['size']}, {row['threads']} thread(s); ms per 1,000 users: {row['ms_per_1000_users']}")
        print(
            f"    evaluate / product {row['evaluate_over_product']}; ranx / evaluate "
            f"{row.get('ranx_all_over_evaluate', 'not measured')} (its metrics alone "
            f"{row.get('ranx_metrics_over_evaluate', 'not measured')}); argpartition / top-10 "
            f"{row['argpartition_over_top_10']} (one thread, scores given)"
        )
    if args.json:
        write_results(args.json, rows)


if __name__ == "__main__":
    main()
