"""PURE's whole run on ML-1M in the paper's form: pre-training, 100 rounds with 10 generator epochs each, validation.

    python benchmarks/paper_run.py [--json FILE] [--rounds 100]

The goal is under five minutes on two cores. Where the time goes is taken from the records of the run.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import purerec as pr
from purerec.experiments.provenance import write_results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    split = pr.split(pr.load("ml-1m"))
    pr.PURE.paper("ml-1m", epochs=2, pretrain_epochs=1).fit(split.train)  # compile
    model = pr.PURE.paper("ml-1m", epochs=2 * given.rounds, pretrain_epochs=given.rounds)
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(split.train, valid=split.valid)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert model.history is not None
    records = model.history.records
    result = {
        "positives": split.train.n_positives,
        "rounds": given.rounds,
        "seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "pretraining_seconds": records[given.rounds - 1].seconds,
        "game_seconds": round(records[-1].seconds - records[given.rounds - 1].seconds, 1),
        "valid P@5, end of pre-training": records[given.rounds - 1].values["P@5"],
        "valid P@5, end of the game": records[-1].values["P@5"],
    }
    print(json.dumps(result, indent=2))
    if given.json is not None:
        write_results(given.json, result)


if __name__ == "__main__":
    main()
