"""Unlabeled pairs per second: draws that a batch shares, compared with draws for each positive and bare products.

python benchmarks/shared.py [--json FILE]

The bound is three matrix products of the same sizes by BLAS on one thread, without draws, sigmoids or Adam.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from purerec.data.pairs import Csr
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import GameSettings, Unlabeled
from purerec.engines.source import MemorySource
from purerec.experiments.provenance import write_results
from sampling import best_rate, random_positives

SIZES = ((25_677, 25_815, 467_000), (29_858, 40_981, 810_000))
BATCH, SHARED, EACH = 256, 256, 16


def rate(source: MemorySource, dim: int, how: Unlabeled, each: int, threads: Literal[1, 2]) -> float:
    """Millions of unlabeled pairs per second, in a whole epoch."""
    n = len(source.positives())
    settings = GameSettings(
        dim=dim, scorer="fm", prior=0.001, observed=0.0009, regularization=0.1, batch_size=BATCH, unlabeled=how,
        unlabeled_per_epoch=each * n,
    )  # fmt: skip
    engine = CpuEngine(source, settings, seed=0, threads=threads)
    return best_rate(partial(engine.train_discriminator, learning_rate=0.01), each * n, repeats=2)


def bound(dim: int) -> float:
    rng = np.random.default_rng(0)
    users, items = (rng.random((n, dim), dtype=np.float32) for n in (BATCH, SHARED))

    def products() -> None:
        for _ in range(100):
            scores = users @ items.T
            scores @ items
            scores.T @ users

    with threadpool_limits(1):
        return best_rate(products, 100 * BATCH * SHARED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the results here")
    target: Path | None = parser.parse_args().json
    rows: list[dict[str, Any]] = []
    for n_users, n_items, n in SIZES:
        source = MemorySource(Csr(*random_positives(n_users, n_items, n), (n_users, n_items)))
        for dim in (32, 64):
            row = {
                "users": n_users,
                "items": n_items,
                "positives": n,
                "dim": dim,
                "each_million_per_s": rate(source, dim, "per_user", EACH, 1),
                "shared_million_per_s": rate(source, dim, "shared", SHARED, 1),
                "shared_two_threads_million_per_s": rate(source, dim, "shared", SHARED, 2),
                "products_million_per_s": bound(dim),
            }
            rows.append(row)
            shared = row["shared_million_per_s"]
            print(
                f"{n_users:>7} x {n_items:<6} d {dim}: {shared:.0f} M/s, {shared / row['each_million_per_s']:.1f} "
                f"times draws for each positive, {shared / row['products_million_per_s']:.2f} of bare products"
            )
    if target is not None:
        write_results(target, rows)


if __name__ == "__main__":
    main()
