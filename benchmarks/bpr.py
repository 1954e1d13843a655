"""How fast BPR trains compared with implicit's, both on one thread and in one run.

    python benchmarks/bpr.py [--json FILE]

Millions of triples (a user, a positive, a negative) per second, the fastest of several epochs: noise on a shared
machine only slows down. The two alternate, so that a quiet moment does not favour one side. implicit runs with its
default, which checks that negatives are unobserved, as ours are.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from purerec.data.pairs import Csr
from purerec.engines.bpr import PairwiseEngine, PairwiseSettings
from purerec.experiments.provenance import write_results
from purerec.sampling.dynamic import RULES
from sampling import random_positives
from training import implicit_bpr

SIZES = (  # users, items, positives, dim
    (6_040, 3_706, 575_000, 8),
    (6_040, 3_706, 575_000, 16),
    (6_040, 3_706, 575_000, 64),
    (25_677, 25_815, 467_000, 16),
)
TURNS = 3


def ours(engine: PairwiseEngine, *, epochs: int) -> float:
    """Triples per second of the fastest epoch, in millions."""
    engine.epoch(0, 0.01)
    best = 0.0
    for number in range(epochs):
        began = time.perf_counter()
        engine.epoch(number, 0.01)
        best = max(best, engine.tables.indices.size / (time.perf_counter() - began) / 1e6)
    return best


def measure(size: tuple[int, int, int, int]) -> dict[str, Any]:
    n_users, n_items, n_positive, dim = size
    indptr, indices = random_positives(n_users, n_items, n_positive)
    positives = Csr(indptr.copy(), indices.copy(), (n_users, n_items))
    engines = {
        name: PairwiseEngine(positives, PairwiseSettings(dim=dim, rule=rule, candidates=10), seed=1)
        for name, rule in RULES.items()
    }
    rates = dict.fromkeys([*engines, "implicit"], 0.0)
    for _ in range(TURNS):
        rates["implicit"] = max(rates["implicit"], implicit_bpr(indptr, indices, n_items, dim))
        for name, engine in engines.items():
            rates[name] = max(rates[name], ours(engine, epochs=8 if name == "uniform" else 3))
    result = dict(zip(("users", "items", "positives", "dim"), size, strict=True))
    return result | rates | {"ratio": rates["uniform"] / rates["implicit"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results here, too")
    args = parser.parse_args()
    results = []
    print("   users    dim | M triples/s: uniform     dns    drns | implicit | uniform / implicit")
    with threadpool_limits(1):
        for size in SIZES:
            r = measure(size)
            results.append(r)
            print(
                f"{r['users']:>8,} {r['dim']:>6} | {r['uniform']:>20.1f} {r['dns']:>7.1f} {r['drns']:>7.1f} | "
                f"{r['implicit']:>8.1f} | {r['ratio']:.2f}",
                flush=True,
            )
    if args.json:
        write_results(args.json, results)


if __name__ == "__main__":
    main()
