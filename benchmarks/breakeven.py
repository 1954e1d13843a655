"""The size from which sharing a fit pays off: the same command with one process and with two workers.

    python benchmarks/breakeven.py [--json FILE] [--sizes 10000,100000,1000000] [--epochs 30]

Whole commands on this machine, from the start, workers included, to the saved model (PU-GMF on synthetic logs, read
from data sets in parts). The best of `--times` alternating runs each. Rows are written as they come; sizes already
there are skipped. If others use the cores, two workers lose more than one process: see `load_1min`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import purerec as pr
from purerec.experiments.provenance import provenance, read_results, write_results

PER_USER, PER_ITEM = 50, 100
"""Positives per user and per item"""


def made(positives: int, folder: Path) -> Path:
    rng = np.random.default_rng(0)
    user = rng.integers(0, positives // PER_USER, positives)
    item = (positives // PER_ITEM * rng.random(positives) ** 2).astype(np.int64)
    pl.DataFrame({"user": user, "item": item}).write_parquet(folder / "log.parquet")
    pr.ingest(folder / "log.parquet", folder / "data")
    return folder / "data"


def seconds(data: Path, out: Path, epochs: int, *words: str) -> float:
    command = [sys.executable, "-m", "purerec.cli", "fit", str(data), "--model", "pugmf", "--set", f"epochs={epochs}"]
    began = time.perf_counter()
    subprocess.run([*command, "--quiet", "--out", str(out), *words], check=True)
    return time.perf_counter() - began


def measure(positives: int, epochs: int, times: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        data, out = made(positives, Path(place)), Path(place, "model")
        both = [(seconds(data, out, epochs), seconds(data, out, epochs, "--workers", "2")) for _ in range(times)]
    one, two = (round(min(column), 2) for column in zip(*both, strict=True))
    return {"positives": positives, "epochs": epochs, "one_s": one, "two_s": two}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sizes", default="10000,100000,300000,1000000,3000000")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--times", type=int, default=2)
    options = parser.parse_args()
    rows = read_results(options.json) if options.json and options.json.exists() else []
    for positives in map(int, options.sizes.split(",")):
        if any(row["positives"] == positives for row in rows):
            continue
        row = measure(positives, options.epochs, options.times)
        made_at = provenance()
        rows.append(row | {"load_1min": os.getloadavg()[0], "commit": made_at["commit"], "clean": made_at["clean"]})
        print(rows[-1], file=sys.stderr, flush=True)
        if options.json:
            write_results(options.json, rows)


if __name__ == "__main__":
    main()
