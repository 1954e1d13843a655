"""How fast the cpu engine trains compared with the alternatives, all on one thread and in one run.

    python benchmarks/training.py [--sizes 1,2,3] [--quick] [--json FILE]

A sample is one pair of a user and an item: PU-GMF with one unlabeled pair per positive, drawn inside the
kernel. implicit's BPR is counted in triples (a user, a positive, a negative). The torch loop is what RecBole and
most research code do: embeddings, autograd, Adam, one Python step per batch. Two of our threads are measured
alternately with one, and compared only with it. Absolute figures depend on the machine, ratios much less so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
import torch
from threadpoolctl import threadpool_limits

from purerec.data.pairs import Csr
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import GameSettings
from purerec.engines.source import MemorySource
from purerec.experiments.provenance import write_results
from sampling import random_positives

SIZES = (  # users, items, positives, dim, batch
    (943, 1_682, 44_000, 5, 128),
    (6_040, 3_706, 575_000, 8, 128),
    (25_677, 25_815, 467_000, 16, 512),
    (25_677, 25_815, 467_000, 64, 8_192),
    (1_000_000, 200_000, 2_000_000, 64, 8_192),
)
BYTES_PER_DIM, FLOPS_PER_DIM = 48, 31
"""The least that a sample has to move and compute, per dimension (two rows with moments, read and written)."""


def rate(run: Callable[[], int], *, least_s: float = 1.0, least_runs: int = 3) -> float:
    """Millions per second of the fastest run: noise on a shared machine only slows down."""
    run()
    best, runs, start = 0.0, 0, time.perf_counter()
    while runs < least_runs or time.perf_counter() - start < least_s:
        began = time.perf_counter()
        n = run()
        best = max(best, n / (time.perf_counter() - began) / 1e6)
        runs += 1
    return best


def cpu_engine(
    indptr: Any, indices: Any, n_items: int, dim: int, batch: int, *, threads: Literal[1, 2] = 1, **changes: Any
) -> CpuEngine:
    settings = GameSettings(dim=dim, batch_size=batch, unlabeled_per_epoch=indices.size, **changes)
    return CpuEngine(source_of(indptr, indices, n_items), settings, seed=1, threads=threads)


def source_of(indptr: Any, indices: Any, n_items: int) -> MemorySource:
    return MemorySource(Csr(indptr, indices, (len(indptr) - 1, n_items)))


def in_turn(one: Callable[[], int], two: Callable[[], int], *, turns: int) -> tuple[float, float]:
    """Rates of one thread and of two, measured alternately, so that a quiet moment of the machine favours neither."""
    rates = [(rate(one, least_s=0, least_runs=1), rate(two, least_s=0, least_runs=1)) for _ in range(turns)]
    return max(a for a, _ in rates), max(b for _, b in rates)


def implicit_bpr(indptr: Any, indices: Any, n_items: int, dim: int) -> float:
    """Triples per second of implicit's BPR, the fastest of several epochs."""
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    shape = (indptr.size - 1, n_items)
    ones = np.ones(indices.size, np.float32)
    # It rejects read-only arrays.
    matrix = scipy.sparse.csr_matrix((ones, indices, indptr), shape=shape, copy=True)
    seconds: list[float] = []
    epochs = max(3, min(40, int(8e6 / indices.size)))
    model = BayesianPersonalizedRanking(factors=dim, iterations=epochs, num_threads=1, random_state=1)
    model.fit(matrix, show_progress=False, callback=lambda epoch, elapsed, *rest: seconds.append(elapsed))
    return float(indices.size / min(seconds) / 1e6)


def torch_loop(indptr: Any, indices: Any, n_items: int, dim: int, batch: int, *, sparse: bool) -> float:
    """Samples per second of PU-GMF as an eager torch loop, with dense Adam or SparseAdam on the embeddings."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n_users = indptr.size - 1
    user, item = (torch.nn.Embedding(n, dim, sparse=sparse) for n in (n_users, n_items))
    relation, bias = torch.ones(dim, requires_grad=True), torch.full((), -9.2, requires_grad=True)
    embeddings = [user.weight, item.weight]
    optimizers = [torch.optim.Adam([relation, bias] if sparse else [relation, bias, *embeddings], lr=0.01)]
    if sparse:
        optimizers.append(torch.optim.SparseAdam(embeddings, lr=0.01))
    users = np.repeat(np.arange(n_users), np.diff(indptr))

    def step() -> int:
        chosen = rng.integers(0, indices.size, batch)
        u, positive = torch.from_numpy(users[chosen]), torch.from_numpy(indices[chosen].astype(np.int64))
        unlabeled = torch.from_numpy(rng.integers(0, n_items, batch))
        e_u = user(u) * relation
        phi_p = (e_u * item(positive)).sum(1) + bias
        phi_u = (e_u * item(unlabeled)).sum(1) + bias
        loss = torch.nn.functional.softplus(phi_u).mean() * 1e4 - phi_p.mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return 2 * batch

    return rate(step, least_s=0.5)


def torch_engine(indptr: Any, indices: Any, n_items: int, dim: int, batch: int) -> float:
    """Our readable engine, on given steps: its own sampling is not counted."""
    from purerec.engines.pure.spec import Batch
    from purerec.engines.pure.torch.engine import TorchEngine

    settings = GameSettings(dim=dim, batch_size=batch, unlabeled_per_epoch=len(indices))
    engine = TorchEngine(source_of(indptr, indices, n_items), settings, seed=0)
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
    none = np.zeros((0, dim), dtype=np.float32)

    def step() -> int:
        at = rng.integers(0, len(indices), batch)
        items = rng.integers(0, n_items, batch, dtype=np.int32)
        engine.step_discriminator(Batch(users[at], indices[at], users[at], items, none, none), learning_rate=0.01)
        return 2 * batch

    return rate(step)


def bound(n_users: int, n_items: int, dim: int) -> float:
    """Samples per second (millions) that memory of the tables' size and a matrix product's speed would allow."""
    n_bytes = (n_users + n_items) * dim * 12
    source = np.ones(n_bytes // 4, np.float32)
    target = np.empty_like(source)

    def copy() -> int:
        np.copyto(target, source)
        return 2 * source.nbytes

    square = np.ones((1024, 1024), np.float32)

    def multiply() -> int:
        square @ square
        return 2 * 1024**3

    by_memory = rate(copy, least_s=0.3) / (BYTES_PER_DIM * dim)
    by_arithmetic = rate(multiply, least_s=0.3) / (FLOPS_PER_DIM * dim)
    return min(by_memory, by_arithmetic)


def measure(size: tuple[int, int, int, int, int]) -> dict[str, Any]:
    n_users, n_items, n_positive, dim, batch = size
    data = random_positives(n_users, n_items, n_positive)
    engines = [cpu_engine(*data, n_items, dim, batch, threads=threads) for threads in (1, 2)]
    one, two = (lambda e=e: e.train_discriminator(learning_rate=0.01).samples for e in engines)
    result: dict[str, Any] = dict(zip(("users", "items", "positives", "dim", "batch"), size, strict=True))
    # Before and after the others, so that a quiet moment of the machine does not favour one side.
    before = rate(one, least_s=1.5)
    peers = {
        "implicit_bpr": max(implicit_bpr(*data, n_items, dim) for _ in range(2)),
        "our_torch_engine": torch_engine(*data, n_items, dim, batch),
        "torch_dense_adam": torch_loop(*data, n_items, dim, batch, sparse=False),
        "torch_sparse_adam": torch_loop(*data, n_items, dim, batch, sparse=True),
        "bound": bound(n_users, n_items, dim),
    }
    alone, together = in_turn(one, two, turns=4)
    result["cpu_engine"], result["two_threads"] = max(before, alone), {"one": alone, "two": together}
    result |= peers
    result["ratios"] = {name: result["cpu_engine"] / value for name, value in peers.items()}
    return result


def with_generators(size: tuple[int, int, int, int, int]) -> dict[str, float]:
    """Million samples per second (positives, unlabeled and fakes) with generators on."""
    n_users, n_items, n_positive, dim, batch = size
    data = random_positives(n_users, n_items, n_positive)
    games: dict[str, dict[str, Any]] = {
        "both sides, as in the paper": {"generators": "both"},
        "item side, conditional, recoloured": {
            "generators": "item",
            "conditional": True,
            "output": "linear",
            "constraint": "recolour",
        },
    }
    rates = {}
    for name, changes in games.items():
        engine = cpu_engine(*data, n_items, dim, batch, fake_weight=0.01, **changes)
        rates[f"discriminator, {name}"] = rate(lambda e=engine: e.train_discriminator(learning_rate=0.01).samples)
        rates[f"generator steps, {name}"] = rate(
            lambda e=engine: e.train_generators(learning_rate=0.001, steps=500).samples
        )
        if changes["generators"] == "both":
            other = cpu_engine(*data, n_items, dim, batch, fake_weight=0.01, threads=2, **changes)
            rates[f"generator steps, {name}, two threads"] = in_turn(
                lambda e=engine: e.train_generators(learning_rate=0.001, steps=500).samples,
                lambda e=other: e.train_generators(learning_rate=0.001, steps=500).samples,
                turns=10,
            )[1]
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1,2,3,4,5", help="which rows of the table, from 1")
    parser.add_argument("--quick", action="store_true", help="the first three sizes, with a tenth of the positives")
    parser.add_argument("--json", type=Path, help="write the results here")
    args = parser.parse_args()
    if args.quick:
        args.sizes = ",".join(k for k in args.sizes.split(",") if int(k) <= 3)
    torch.set_num_threads(1)
    results: dict[str, Any] = {"sizes": [], "generators": {}}
    with threadpool_limits(1):
        print("million samples a second, one thread; in brackets: the cpu engine's multiple of it")
        for k in map(int, args.sizes.split(",")):
            users, items, positives, dim, batch = SIZES[k - 1]
            row = measure((users, items, positives // 10 if args.quick else positives, dim, batch))
            results["sizes"].append(row)
            others = "".join(f"   {name} {row[name]:.3g} ({ratio:.3g}x)" for name, ratio in row["ratios"].items())
            gain = row["two_threads"]["two"] / row["two_threads"]["one"]
            print(
                f"{row['users']:>8} users, d {row['dim']}, batch {row['batch']}: {row['cpu_engine']:.1f}"
                f" (two threads: {gain:.2f} times that){others}",
                flush=True,
            )
        results["generators"] = with_generators(SIZES[1])
        for name, value in results["generators"].items():
            print(f"d 8, batch 128, {name}: {value:.1f}")
    if args.json:
        write_results(args.json, results)


if __name__ == "__main__":
    main()
