"""Lists of ten items from factors, compared with the bare matrix product and with implicit; and one new person.

    python benchmarks/recommending.py [--json FILE] [--repeats 5] [--sizes ml-1m,yelp] [--large-users 4000]

Ours: `top_for_users` of a fitted model, seen items excluded. implicit: one batch call of its `recommend` with
`filter_already_liked_items` on the same factors. The product (numpy, OpenBLAS) only computes the same scores in
blocks. Both use one BLAS thread or as many as there are CPUs, whichever is faster in a trial; implicit and we also
have our own threads. At the largest size only a sample of the users is requested, the same for all three. All
alternate; a ratio is the median over the rounds. Goal: at least as fast as implicit.

Folding in: a history of 50 items at Yelp size, d = 16; the vector alone, and the whole call up to the list of ten;
median of 200.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.data.vocabulary import Vocabulary
from purerec.experiments.provenance import write_results
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.trained import Trained
from purerec.models.registry import make_model

F32 = npt.NDArray[np.float32]
K = 10
SIZES = {
    "ml-1m, d 8": (6_040, 3_706, 8, 165),
    "ml-1m, d 64": (6_040, 3_706, 64, 165),
    "yelp, d 16": (25_677, 25_815, 16, 20),
    "large, d 64": (1_000_000, 200_000, 64, 10),
}
"""n_users, n_items, dim, positives per user"""
FOLDED = ("pugmf", "gmf", "bpr", "ials", "svd", "nmf")


def make_factors(n_users: int, n_items: int, dim: int, seen: int) -> tuple[Recommender, Csr]:
    """A BPR model with random factors and random positives."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(n_users, dtype=np.int32), seen)
    item = rng.integers(0, n_items, len(user), dtype=np.int32)
    log = Interactions(Vocabulary.of(range(n_users), "user"), Vocabulary.of(range(n_items), "item"), user, item)
    model = make_model("bpr", epochs=0, dim=dim)
    params = {
        "user": rng.normal(size=(n_users, dim)).astype(np.float32),
        "item": rng.normal(size=(n_items, dim)).astype(np.float32),
        "item_bias": np.zeros(n_items, dtype=np.float32),
    }
    model._finish_fit(Trained(params), log, 0, 0.0)
    return model, log.positives


def product(users: F32, items: F32, block: int = 256) -> Callable[[], object]:
    turned = np.ascontiguousarray(items.T)
    buffer = np.empty((block, turned.shape[1]), dtype=np.float32)

    def run() -> None:
        for a in range(0, len(users), block):
            part = users[a : a + block]
            np.matmul(part, turned, out=buffer[: len(part)])

    return run


def implicit_lists(users: F32, items: F32, seen: Csr, user_idx: npt.NDArray[np.int64]) -> Callable[[], Any] | None:
    try:
        from implicit.cpu.als import AlternatingLeastSquares
    except ImportError:
        return None
    from scipy.sparse import csr_matrix

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends one BLAS thread, which `with_best_blas` tries
        peer = AlternatingLeastSquares(factors=items.shape[1], num_threads=0)
    peer.user_factors, peer.item_factors = users, items
    ones = np.ones(len(seen), dtype=np.float32)
    liked = csr_matrix((ones, seen.indices, seen.indptr), shape=seen.shape)[user_idx]
    return lambda: peer.recommend(user_idx, liked, N=K, filter_already_liked_items=True)


def with_best_blas(run: Callable[[], object]) -> Callable[[], object]:
    """The same call, with one BLAS thread or several, whichever is faster here."""

    def limited(threads: int | None) -> Callable[[], object]:
        def limited_run() -> object:
            with threadpool_limits(threads, "blas"):
                return run()

        return limited_run

    choices = [limited(1), limited(None)]
    taken = []
    for choice in choices:
        choice()
        start = time.perf_counter()
        choice()
        taken.append(time.perf_counter() - start)
    return choices[int(np.argmin(taken))]


def in_turns(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:
                taken[name].append(time.perf_counter() - start)
    return taken


def measure(name: str, repeats: int, large_users: int) -> dict[str, Any]:
    n_users, n_items, dim, per_user = SIZES[name]
    model, seen = make_factors(n_users, n_items, dim, per_user)
    user_idx = np.arange(n_users) if n_users < 100_000 else np.linspace(0, n_users - 1, large_users).astype(np.int64)
    parts = model.factors()
    assert parts is not None
    runs: dict[str, Callable[[], object]] = {
        "purerec": lambda: model.top_for_users(user_idx, K),
        "product": with_best_blas(product(np.ascontiguousarray(parts.users[user_idx]), parts.items)),
    }
    peer = implicit_lists(parts.users, parts.items, seen, user_idx)
    if peer is not None:
        runs["implicit"] = with_best_blas(peer)
        ours, theirs = model.top_for_users(user_idx[:100], K).scores, peer()[1][:100]
        assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-3), "implicit has other lists"
    times = in_turns(runs, repeats)
    row: dict[str, Any] = {
        "size": name,
        "users": n_users,
        "items": n_items,
        "users_asked": len(user_idx),
        "ms_per_1000_users": {k: round(statistics.median(v) / len(user_idx) * 1e6, 2) for k, v in times.items()},
    }
    for other in ("product", "implicit"):
        if other in times:
            ratios = [b / a for a, b in zip(times["purerec"], times[other], strict=True)]
            row[f"{other}_over_purerec"] = round(statistics.median(ratios), 2)
    return row


def measure_folding() -> list[dict[str, Any]]:
    _, n_items, dim, per_user = SIZES["yelp, d 16"]
    rng = np.random.default_rng(1)
    user = np.repeat(np.arange(2_000, dtype=np.int32), per_user)
    item = rng.integers(0, n_items, len(user), dtype=np.int32)
    log = Interactions(Vocabulary.of(range(2_000), "user"), Vocabulary.of(range(n_items), "item"), user, item)
    history = np.sort(rng.choice(n_items, 50, replace=False)).astype(np.int32)
    rows = []
    for name in FOLDED:
        model = make_model(name, dim=dim, epochs=3).fit(log, seed=0)

        def median_us(run: Callable[[], object]) -> float:
            run()
            taken = []
            for _ in range(200):
                start = time.perf_counter()
                run()
                taken.append(time.perf_counter() - start)
            return round(statistics.median(taken) * 1e6, 1)

        rows.append(
            {
                "model": name,
                "vector_us": median_us(lambda model=model: model.fold_in(history)),
                "list_us": median_us(lambda model=model: model.top_for_history(history, K)),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the rows here ('-': standard output)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", help="names as in SIZES, separated by semicolons; all if not given")
    parser.add_argument("--large-users", type=int, default=4_000, help="users asked for at the largest size")
    args = parser.parse_args()
    names = (
        list(SIZES)
        if args.sizes is None
        else [n for n in SIZES if any(n.startswith(a) for a in args.sizes.split(","))]
    )
    found = {
        "cpus": len(os.sched_getaffinity(0)),
        "lists": [measure(name, args.repeats, args.large_users) for name in names],
        "folding": measure_folding(),
    }
    if args.json == "-":
        print(json.dumps(found, indent=2))
        return
    for row in found["lists"]:
        print(row)
    for row in found["folding"]:
        print(row)
    if args.json:
        write_results(args.json, found)


if __name__ == "__main__":
    main()
