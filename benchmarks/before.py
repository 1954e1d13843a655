"""How fast the cpu engine trains compared with an earlier commit: million samples per second on one thread.

    python benchmarks/before.py [COMMIT] [--sizes 1,2,3] [--turns 3] [--json FILE]

The two alternate, each in its own processes, with the source and the benchmarks/training.py of its commit. The best
of all turns counts, since noise only slows down. COMMIT is by default the last one before the stratified risk.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from purerec.experiments.provenance import write_results
from training import SIZES

ROOT = Path(__file__).parents[1]
BEFORE, NOW = "before", "now"
MEASURE = """
import sys
from training import SIZES, cpu_engine, random_positives, rate
n_users, n_items, n_positive, dim, batch = SIZES[int(sys.argv[1])]
engine = cpu_engine(*random_positives(n_users, n_items, n_positive), n_items, dim, batch)
print(rate(lambda: engine.train_discriminator(learning_rate=0.01).samples))
"""


def measured(tree: Path, size: int) -> float:
    paths = os.pathsep.join([str(tree / "src"), str(tree / "benchmarks")])
    said = subprocess.run(
        [sys.executable, "-c", MEASURE, str(size)],
        env=os.environ | {"PYTHONPATH": paths},
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    return float(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="3078b8b")
    parser.add_argument("--sizes", default=",".join(map(str, range(len(SIZES)))))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output([*git, "rev-parse", options.commit], text=True).strip()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place, "tree")
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            for size in map(int, options.sizes.split(",")):
                best = {BEFORE: 0.0, NOW: 0.0}
                for _ in range(options.turns):
                    for side, of in ((BEFORE, tree), (NOW, ROOT)):
                        best[side] = max(best[side], measured(of, size))
                row = dict(zip(("users", "items", "positives", "dim", "batch"), SIZES[size], strict=True))
                rows.append(row | {"commit_before": commit, **best, "ratio": best[NOW] / best[BEFORE]})
                print(rows[-1], file=sys.stderr, flush=True)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)
    if options.json is not None:
        write_results(options.json, rows)


if __name__ == "__main__":
    main()
