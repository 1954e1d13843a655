"""Reading ML-1M's ratings.dat, compared with polars on a tab-separated copy; ten million CSV rows, file to score.

    python benchmarks/reading.py [--json FILE] [--rows 10000000]

Ratios are what counts: the machine is noisy. Each stage of the large file runs in its own process, whose peak memory
is reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import purerec as pr
from purerec.errors import FetchError
from purerec.experiments.provenance import write_results


def small(folder: Path) -> dict[str, float]:
    from purerec.data import catalog

    path = catalog.fetch("ml-1m") / "ratings.dat"
    copy = folder / "ratings.tsv"
    copy.write_bytes(path.read_bytes().replace(b"::", b"\t"))
    ours, polars = [], []
    for _ in range(15):
        start = time.perf_counter()
        pr.read(path, positive_rating=4)
        middle = time.perf_counter()
        pl.read_csv(copy, separator="\t", has_header=False)
        ours.append(middle - start)
        polars.append(time.perf_counter() - middle)
    return {
        "purerec_s": round(statistics.median(ours), 4),
        "polars_s": round(statistics.median(polars), 4),
        "ratio": round(statistics.median(ours) / statistics.median(polars), 2),
    }


STAGES = """
import json, resource, sys, time
import polars as pl
start = time.perf_counter()
path, what = sys.argv[1:]
if what == "polars":
    pl.read_csv(path)
    stages = {"read": time.perf_counter() - start}
else:
    import purerec as pr
    from purerec.models.registry import make_model
    data = pr.read(path); read = time.perf_counter()
    data.positives; index = time.perf_counter()
    split = pr.split(data, "ratio"); parted = time.perf_counter()
    model = make_model("itempop").fit(split.full_train); fitted = time.perf_counter()
    result = pr.evaluate(model, split); done = time.perf_counter()
    stages = {"read": read - start, "index": index - read, "split": parted - index, "fit": fitted - parted,
              "evaluate": done - fitted, "users evaluated": result.n_users_evaluated}
stages["total"] = time.perf_counter() - start
stages["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({k: round(v, 3) for k, v in stages.items()}))
"""


def large(folder: Path, rows: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    path = folder / "large.csv"
    # 200,000 people, 50,000 items, popular ones more often.
    pl.DataFrame(
        {
            "user_id": rng.integers(0, max(1, rows // 50), rows),
            "item_id": (50_000 * rng.random(rows) ** 3).astype(np.int64),
            "rating": rng.integers(1, 6, rows),
            "timestamp": rng.integers(1_000_000_000, 1_600_000_000, rows),
        }
    ).write_csv(path)

    def run(what: str) -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, "-c", STAGES, str(path), what], capture_output=True, text=True, check=True
        )
        found: dict[str, float] = json.loads(done.stdout)
        return found

    polars, ours = run("polars"), run("purerec")
    return {
        "rows": rows,
        "file_mb": round(path.stat().st_size / 2**20),
        "polars": polars,
        "purerec": ours,
        "ratio_read": round(ours["read"] / polars["read"], 2),
        "ratio_total": round(ours["total"] / polars["total"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found: dict[str, object] = {"ml-1m": small(Path(folder))}
        except FetchError as error:
            found = {"ml-1m": str(error)}
        found["large"] = large(Path(folder), options.rows)
    text = json.dumps(found, indent=2)
    print(text)
    if options.json:
        write_results(options.json, found)


if __name__ == "__main__":
    main()
