"""How much noise a draw of an unlabeled pair adds, depending on its distribution.

    python benchmarks/proposals.py [--json FILE] [--data ml-1m,yelp,gowalla]

The unlabeled part of the risk is a mean over all unobserved items of a person. With items drawn from q and weighted
by p / q, p uniform, its expectation stays the same, and the variance of its gradient in the person's embedding is

    sum_i p_i^2 / q_i |D(u, i) e_i|^2  -  |sum_i p_i D(u, i) e_i|^2

exactly: this sums over all items and draws nothing. D is that of PU-GMF after a few and after many epochs, and the
people are those of random positives. `best` is the q with the least variance, which needs all scores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import purerec as pr
from purerec.experiments.provenance import write_results
from purerec.paper.risks import sigmoid
from purerec.types import F64

EPOCHS = (3, 30)
PEOPLE = 500
SHARES = (0.0, 0.25, 0.5, 0.75)
"""Shares of draws by popularity; the others are uniform"""


def variances(model: pr.PUGMF, train: pr.Interactions) -> dict[str, float]:
    """Mean over people, relative to uniform draws."""
    positives, factors = train.positives, model.factors()
    assert factors is not None
    rng = np.random.default_rng(0)
    n_items = positives.shape[1]
    popularity = np.bincount(positives.indices, minlength=n_items) / len(positives)
    items = factors.items.astype(np.float64)
    lengths = np.linalg.norm(items, axis=1)
    names = {share: f"{share:.0%} by popularity" if share else "uniform" for share in SHARES}
    found = dict.fromkeys([*names.values(), "best"], 0.0)
    for user in rng.choice(positives.users, PEOPLE).astype(np.int64):
        free = np.ones(n_items, dtype=np.bool_)
        free[positives.row(int(user))] = False
        weights = sigmoid(model.score([user])[0].astype(np.float64))[free]
        size = weights * lengths[free]
        n_free = len(size)
        mean = weights @ items[free] / n_free
        for share, name in names.items():
            q: F64 = (1 - share) / n_items + share * popularity[free]
            found[name] += float(np.sum(size**2 / (q / q.sum()))) / n_free**2 - float(mean @ mean)
        found["best"] += float(size.mean()) ** 2 - float(mean @ mean)
    return {name: value / found["uniform"] for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--data", default="ml-1m,yelp,gowalla")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for data in options.data.split(","):
        train = pr.split(pr.load(data)).train
        for epochs in EPOCHS:
            model = pr.PUGMF(epochs=epochs, dim=32).fit(train)
            row = {"data": data, "items": train.n_items, "epochs": epochs, "variance": variances(model, train)}
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    if options.json is not None:
        write_results(options.json, rows)


if __name__ == "__main__":
    main()
