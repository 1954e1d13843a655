"""How fast unlabeled pairs are drawn, compared with a bare numpy draw of as many integers (a bound, not a rival).

python benchmarks/sampling.py [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from purerec.experiments.provenance import write_results
from purerec.sampling.unlabeled import UnlabeledSampler

SIZES = ((943, 1682, 44_000), (6040, 3706, 575_000), (25_677, 25_815, 467_000))


def random_positives(
    n_users: int, n_items: int, n_positive: int, seed: int = 0
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """CSR positives with a long tail of items and of user activity, about `n_positive` of them."""
    rng = np.random.default_rng(seed)
    activity = rng.lognormal(0.0, 1.0, n_users)
    popularity = 1.0 / (10.0 + rng.permutation(n_items)) ** 0.8
    user_cdf, item_cdf = np.cumsum(activity) / activity.sum(), np.cumsum(popularity) / popularity.sum()
    pairs = np.zeros(0, np.int64)
    while pairs.size < n_positive:
        users = np.minimum(np.searchsorted(user_cdf, rng.random(n_positive)), n_users - 1)
        items = np.minimum(np.searchsorted(item_cdf, rng.random(n_positive)), n_items - 1)
        pairs = np.unique(np.concatenate([pairs, users * np.int64(n_items) + items]))
    pairs = np.sort(rng.choice(pairs, n_positive, replace=False))
    indptr = np.searchsorted(pairs, np.arange(n_users + 1, dtype=np.int64) * n_items)
    return indptr.astype(np.int64), (pairs % n_items).astype(np.int32)


def best_rate(run: Callable[[], object], n: int, repeats: int = 7) -> float:
    """Millions per second; the best of a few runs, since noise on a shared machine only slows down."""
    run()
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return n / best / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the results here")
    target: Path | None = parser.parse_args().json
    n = 2_000_000
    rows = []
    for n_users, n_items, n_positive in SIZES:
        indptr, indices = random_positives(n_users, n_items, n_positive)
        rng = np.random.default_rng(1)
        users = np.repeat(np.arange(n_users), np.diff(indptr))[rng.integers(0, indices.size, n)].astype(np.int32)
        bound = best_rate(lambda r=rng, high=n_items: r.integers(0, high, n, dtype=np.int32), n)
        for memory_mb in (256.0, 0.0):
            sampler = UnlabeledSampler(indptr, indices, n_items, memory_mb=memory_mb, full_users="skip")
            name = "bitmap" if sampler.has_bitmap else "bloom"
            if memory_mb == 0.0 and rows[-1]["users"] == n_users and rows[-1]["filter"] == name:
                continue  # the sampler already chose Bloom filters
            runs: dict[str, Callable[[], object]] = {
                "per_user": lambda s=sampler, u=users: s.items_for(u, seed=1),
                "global": lambda s=sampler: s.pairs(n, seed=1),
                "popularity": lambda s=sampler, u=users: s.popular_items_for(u, seed=1),
            }
            for draw, run in runs.items():
                rate = best_rate(run, n)
                rows.append(
                    {
                        "users": n_users,
                        "items": n_items,
                        "positives": n_positive,
                        "filter": name,
                        "draw": draw,
                        "million_per_s": round(rate, 1),
                        "numpy_integers_million_per_s": round(bound, 1),
                        "ratio": round(rate / bound, 3),
                    }
                )
    if target is not None:
        write_results(target, rows)
    for row in rows:
        print(
            f"{row['users']:>7} x {row['items']:<6} {row['filter']:<7} {row['draw']:<11}"
            f"{row['million_per_s']:>8} M/s   {row['ratio']:>6} of numpy's bare integers"
        )


if __name__ == "__main__":
    main()
