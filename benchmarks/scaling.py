"""Several processes that share a fit: throughput, bytes, and where the time goes; a cost model and its validation.

    python benchmarks/scaling.py [--json FILE] [--epochs 4]

For 1, 2 and 4 workers on this machine (PU-GMF's game on synthetic data): the best epoch of several, as seen by the
first worker, split into computing (CPU time), exchanging blocks (the same exchanges without any work between them),
and waiting (the rest: for other workers, and for a core if others use them). The bytes sent are counted and compared
with what docs/scaling.md predicts.

The cost model has four numbers: CPU seconds per sample, additional seconds per sample for each MB of rows that a
worker goes through (they do not stay in the cache), seconds per byte and per exchange. They are fitted to two sizes,
and checked on two larger ones. It predicts an epoch of workers that each have a core: computing and exchanging,
without waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from purerec.experiments.provenance import write_results

WORKERS = (1, 2, 4)
FITTED = (
    {"users": 4_000, "items": 2_000, "positives": 100_000},
    {"users": 8_000, "items": 8_000, "positives": 200_000},
)
CHECKED = (
    {"users": 12_000, "items": 16_000, "positives": 400_000},
    {"users": 20_000, "items": 24_000, "positives": 700_000},
)
DIM = 32
BYTES_PER_ROW = 4 * (3 * DIM + 4)
"""Three numbers per dimension of the embedding (with Adam's moments), and four for the bias"""


def work(size: dict[str, int], epochs: int) -> None:
    """Run one worker; the first one prints the results."""
    from purerec.data.pairs import Csr
    from purerec.engines.distributed.engine import DistributedEngine
    from purerec.engines.distributed.group import connect
    from purerec.engines.distributed.helping import serve
    from purerec.engines.pure.spec import GameSettings
    from purerec.engines.source import MemorySource

    group = connect()
    if group.rank:
        serve(group)
        group.close()
        return
    rng = np.random.default_rng(0)
    user = rng.integers(0, size["users"], size["positives"])
    item = (size["items"] * rng.random(size["positives"]) ** 2).astype(np.int64)
    positives = Csr.of(user, item, (size["users"], size["items"]))
    settings = GameSettings(dim=DIM, scorer="fm", prior=0.01, unlabeled_per_epoch=4 * len(positives))
    engine, sent = DistributedEngine(MemorySource(positives), settings, seed=0, group=group), [0]
    exchange_arrays = group.exchange

    def counting(out: Any, into: Any) -> None:
        sent[0] += sum(array.nbytes for _, _, array in out)
        exchange_arrays(out, into)

    group.exchange = counting  # type: ignore[method-assign]  # to count what this one group sends
    engine.train_discriminator(learning_rate=0.01)  # compile
    rounds = []
    for _ in range(epochs):
        sent[0], cpu, start = 0, time.process_time(), time.perf_counter()
        engine.train_discriminator(learning_rate=0.01)
        rounds.append((time.perf_counter() - start, time.process_time() - cpu, sent[0]))
    exchanges = []
    for _ in range(10 * epochs if group.size > 1 else 0):
        start = time.perf_counter()
        for turn in range(group.size):
            engine._all("_rotate", turn=turn)
        exchanges.append(time.perf_counter() - start)
    group.tell({"do": "end"})
    group.close()
    whole, compute, exchange = min(r[0] for r in rounds), min(r[1] for r in rounds), min(exchanges, default=0.0)
    found = {"epoch_s": whole, "compute_s": compute, "exchange_s": exchange}
    found |= {"waiting_s": max(0.0, whole - compute - exchange), "sent_bytes": rounds[0][2]}
    print(json.dumps(found | {"samples": 5 * len(positives), "n_positives": len(positives)}))


def measure(size: dict[str, int], n: int, epochs: int) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": n, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    command = [sys.executable, __file__, "--work", json.dumps(size), "--epochs", str(epochs)]
    running = [
        subprocess.Popen(
            command,
            env=os.environ | {k: str(v) for k, v in (shared | {"RANK": rank}).items()},
            stdout=subprocess.PIPE,
        )
        for rank in range(n)
    ]
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit(f"a worker of {n} failed")
    found: dict[str, Any] = json.loads(said[0])
    predicted = size["items"] * BYTES_PER_ROW if n > 1 else 0
    told = {"workers": n, **size, **found, "samples_per_s": found["samples"] / found["epoch_s"]}
    return told | {"predicted_bytes": predicted}


def working_mb(row: dict[str, Any]) -> float:
    """What a worker holds at a time: its users and one block of items."""
    return (row["users"] + row["items"]) / row["workers"] * BYTES_PER_ROW / 2**20


def fit_costs(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Fit the cost model; no cost is negative."""
    per_sample = [row["compute_s"] * row["workers"] / row["samples"] for row in rows]
    at_rest, per_mb = _fitted([[1.0, working_mb(row)] for row in rows], per_sample)
    shared = [row for row in rows if row["workers"] > 1]
    exchanges = [[row["sent_bytes"], row["workers"]] for row in shared]
    per_byte, per_exchange = _fitted(exchanges, [row["exchange_s"] for row in shared])
    return {
        "s_per_sample": at_rest,
        "s_per_sample_and_mb": per_mb,
        "s_per_byte": per_byte,
        "s_per_exchange": per_exchange,
    }


def _fitted(table: list[list[float]], values: list[float]) -> tuple[float, ...]:
    from scipy.optimize import nnls

    columns = np.array(table, dtype=np.float64)
    scale = columns.max(axis=0)
    found, _ = nnls(columns / scale, np.array(values))
    return tuple((found / scale).tolist())


def predict(costs: dict[str, float], row: dict[str, Any]) -> float:
    """Seconds of an epoch without waiting."""
    per_sample = costs["s_per_sample"] + costs["s_per_sample_and_mb"] * working_mb(row)
    compute = per_sample * row["samples"] / row["workers"]
    if row["workers"] == 1:
        return compute
    return compute + costs["s_per_byte"] * row["sent_bytes"] + costs["s_per_exchange"] * row["workers"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(json.loads(options.work), options.epochs)
        return
    cores = len(os.sched_getaffinity(0))
    rows = [measure(size, n, options.epochs) for size in FITTED for n in WORKERS]
    costs = fit_costs(rows)
    checks = [measure(size, n, options.epochs) for size in CHECKED for n in WORKERS]
    for row in checks:
        row["predicted_s"] = predict(costs, row)
        row["measured_over_predicted"] = (row["compute_s"] + row["exchange_s"]) / row["predicted_s"]
    for row in [*rows, *checks]:
        same = next(r for r in [*rows, *checks] if r["positives"] == row["positives"] and r["workers"] == 1)
        row["speedup_without_waiting"] = same["compute_s"] / (row["compute_s"] + row["exchange_s"])
        print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}, file=sys.stderr)
    found = {
        "dim": DIM,
        "cores": cores,
        "load_1min": os.getloadavg()[0],
        "fitted": rows,
        "costs": costs,
        "checked": checks,
    }
    print(json.dumps(costs))
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
