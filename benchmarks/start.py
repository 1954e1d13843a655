"""The time a new process needs to fit a small PU-GMF with cached kernels, compared with its imports alone.

    python benchmarks/start.py [--json FILE]

Wall-clock seconds, the median of several processes; a first one, which may have to compile, is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from purerec.experiments.provenance import write_results

IMPORTS = "import numpy as np, purerec as pr; from purerec.models.pugmf import PUGMF"
FIT = """
rng = np.random.default_rng(0)
log = pr.Interactions.from_columns(rng.integers(0, 50, 1000), rng.integers(0, 40, 1000))
PUGMF(epochs=1).fit(log)
"""
RUNS = 7


def seconds(program: str) -> float:
    taken = []
    for _ in range(RUNS + 1):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        taken.append(time.perf_counter() - begun)
    return round(statistics.median(taken[1:]), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    found = {"imports_s": seconds(IMPORTS), "small_fit_s": seconds(IMPORTS + FIT)}
    print(found)
    if given.json is not None:
        write_results(given.json, found)


if __name__ == "__main__":
    main()
