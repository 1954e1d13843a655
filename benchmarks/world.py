"""Time and peak memory to make a synthetic world of 1, 3 and 10 million observed interactions, on one thread.

    python benchmarks/world.py [--sizes 1,3,10] [--quick] [--json FILE]

Each size runs in its own process, since a peak cannot be reset; a small world is made first, so that compiling is not
counted. `extra_mb` is the peak beyond what the process already used, `log_mb` the log itself.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from purerec.experiments.provenance import write_results

USERS_PER_MILLION = 10_000
ITEMS = 20_000


def peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def measure(millions: float) -> dict[str, Any]:
    from purerec.data.synthetic.world import make_world

    start = time.perf_counter()
    make_world(users=10, items=10)
    first_s = time.perf_counter() - start
    before_mb = peak_mb()
    users = int(USERS_PER_MILLION * millions)
    start, cpu = time.perf_counter(), time.process_time()
    world = make_world(users=users, items=ITEMS, interactions=int(millions * 1e6))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    log = world.observed
    return {
        "users": users,
        "items": ITEMS,
        "wanted": int(millions * 1e6),
        "interactions": len(log),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "million_per_s": round(len(log) / seconds / 1e6, 2),
        "peak_rss_mb": round(peak_mb()),
        "extra_mb": round(peak_mb() - before_mb),
        "log_mb": round((log.user_idx.nbytes + log.item_idx.nbytes) / 2**20),
        "first_call_s": round(first_s, 2),
    }


def in_own_processes(script: str, doc: str | None, measure: Callable[[float], dict[str, Any]], sizes: str) -> None:
    """The command line of a benchmark over sizes, each in its own process: peak memory cannot be reset."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=sizes, help="millions of interactions")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measure(given.one)))
        return
    rows = []
    for size in given.sizes.split(","):
        one = str(float(size) / (10 if given.quick else 1))
        run = subprocess.run([sys.executable, script, "--one", one], stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(run.stdout))
        print("   ".join(f"{name} {value:,}" for name, value in rows[-1].items()), flush=True)
    if given.json is not None:
        write_results(given.json, rows)


if __name__ == "__main__":
    in_own_processes(__file__, __doc__, measure, "1,3,10")
