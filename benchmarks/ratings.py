"""The rating predictors compared with Surprise on the same ratings: root mean square error and seconds.

    python benchmarks/ratings.py [--seeds 5] [--json FILE]

ML-100k, train and test part of u1, ratings from 1 to 5; Surprise's default settings on both sides, and one start of
co-clustering, not five. A run is a fit and all predictions; seconds are the best of the seeds, errors their mean.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import surprise

import purerec as pr
from purerec.experiments.provenance import write_results

PEERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "slopeone": ("SlopeOne", {}, {}),
    "coclustering": ("CoClustering", {}, {"restarts": 1}),
    "svd": ("SVD", {}, {"dim": 100}),
    "pmf": ("SVD", {"biased": False}, {"dim": 100, "penalty": "per_pair", "regularization": 0.02}),
    "nmf": ("NMF", {}, {"dim": 15}),
}
"""The name in Surprise, and the settings there and here."""


def measure(predict: Callable[[int], np.ndarray], truth: np.ndarray, seeds: int) -> dict[str, float]:
    errors, seconds = [], []
    for seed in range(seeds):
        start = time.perf_counter()
        found = predict(seed)
        seconds.append(time.perf_counter() - start)
        errors.append(np.sqrt(np.mean((found - truth) ** 2)))
    return {"rmse": round(float(np.mean(errors)), 4), "seconds": round(min(seconds), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the results here")
    given = parser.parse_args()
    parts = pr.split(pr.load("ml-100k"), "u1", valid=False)
    train, test = parts.train, parts.test
    table = pandas.DataFrame({"user": train.user_idx, "item": train.item_idx, "rating": train.rating})
    known = surprise.Dataset.load_from_df(table, surprise.Reader(rating_scale=(1, 5))).build_full_trainset()
    pairs = list(zip(test.user_idx.tolist(), test.item_idx.tolist(), test.rating.tolist(), strict=True))
    rows = []
    for name, (peer, theirs, ours) in PEERS.items():

        def by_surprise(seed: int, peer: str = peer, settings: dict[str, Any] = theirs) -> np.ndarray:
            seeded = {} if peer == "SlopeOne" else {"random_state": seed}
            model = getattr(surprise, peer)(**settings, **seeded).fit(known)
            return np.array([guess.est for guess in model.test(pairs)])

        def by_us(seed: int, name: str = name, settings: dict[str, Any] = ours) -> np.ndarray:
            model = pr.make_model(name, target="rating", **settings).fit(train, seed=seed)
            return model.predict(test.user_idx, test.item_idx)

        by_us(0)  # compiled before the clock starts
        rows.append(
            {
                "model": name,
                "peer": f"{peer}({', '.join(f'{k}={v}' for k, v in theirs.items())})" if theirs else peer,
                "ours": measure(by_us, test.rating, given.seeds),
                "surprise": measure(by_surprise, test.rating, 1 if peer == "SlopeOne" else given.seeds),
            }
        )
        print(rows[-1], flush=True)
    if given.json is not None:
        write_results(given.json, rows)


if __name__ == "__main__":
    main()
