"""How the cost of each part of PURE grows with the catalogue: one epoch of the embeddings, and the closed form.

    python benchmarks/encoders.py [--items 2000,4000,8000,16000,32000] [--quick] [--json FILE]

Half a million interactions of 20,000 people, whatever the number of items. CPU time, so that other work on the
machine matters little: the best of three for the embeddings (d = 32, 16 draws per positive), one solution for the
weights between items, exact and with 200 neighbours each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from purerec.data.pairs import Csr
from purerec.data.synthetic.world import make_world
from purerec.engines.closed_form import fit_item_weights, mean_diagonal
from purerec.engines.pure.registry import new_engine
from purerec.engines.pure.spec import GameSettings
from purerec.engines.source import MemorySource
from purerec.experiments.provenance import write_results

USERS = 20_000
INTERACTIONS = 500_000
MOST_EXACT = 8_000
DRAWS = 16


def measure(n_items: int, scale: float) -> dict[str, Any]:
    world = make_world(users=int(USERS * scale), items=n_items, prior=0.3, interactions=int(INTERACTIONS * scale))
    positives = world.observed.positives
    settings = GameSettings(dim=32, scorer="mf", unlabeled_per_epoch=DRAWS * len(positives), batch_size=256)
    engine = new_engine("cpu", MemorySource(positives), settings, seed=0)
    found = {
        "items": n_items,
        "interactions": len(positives),
        "epoch_s": min(_seconds(lambda: engine.train_discriminator(learning_rate=0.01)) for _ in range(3)),
        "neighbors_s": _seconds(lambda: _solve(positives, 200)),
    }
    if n_items <= MOST_EXACT:
        found["exact_s"] = _seconds(lambda: _solve(positives, n_items))
    return {name: round(value, 3) for name, value in found.items()}


def _solve(positives: Csr, neighbors: int) -> None:
    size = mean_diagonal(positives, 0.0, 0.2)
    fit_item_weights(positives, [10 * size], item_power=0.2, neighbors=neighbors, memory_mb=1e6)


def _seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="2000,4000,8000,16000,32000")
    parser.add_argument("--quick", action="store_true", help="a tenth of the people, and of the items")
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    scale = 0.1 if given.quick else 1.0
    measure(400, 0.01)  # compile
    rows = []
    for items in given.items.split(","):
        rows.append(measure(int(int(items) * scale), scale))
        print("   ".join(f"{name} {value:,}" for name, value in rows[-1].items()), flush=True)
    if given.json is not None:
        write_results(given.json, rows)


if __name__ == "__main__":
    main()
