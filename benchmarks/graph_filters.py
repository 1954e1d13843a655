"""Do graph filters deserve a place among the models? GF-CF compared with ItemKNN and EASE on validation splits.

    python benchmarks/graph_filters.py [--json FILE] [--data ml-100k,ml-1m,yelp,gowalla,gowalla-last]

Shen et al. (2021), How Powerful is Graph Convolution for Recommendation?, in a dozen lines of scipy:

    scores = x R'R + weight x D^-p V V' D^p,   R = N^-1/2 X D^-p,   V the first `rank` singular vectors of R
    scores - sharpening scores R'R             as in Choi et al. (2023), Blurring-Sharpening Process Models

N and D hold the numbers of positives of each person and item; GF-CF has a p of 1/2, a weight of .3 and a rank of 256.
Samples are drawn from the train parts; a fifth is held out at random, for gowalla-last the end of each list, which is
the latest. ItemKNN and EASE use their defaults.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import diags_array
from scipy.sparse.linalg import svds

import purerec as pr
from purerec.data.splits import Split
from purerec.experiments.provenance import write_results
from purerec.types import F32, I64

PEOPLE = {"ml-100k": None, "ml-1m": 2000, "yelp": 8000, "gowalla": 8000, "gowalla-last": None}
METRICS = "NDCG@20,Recall@20"


@dataclass(frozen=True)
class Settings:
    power: float = 0.5
    weight: float = 0.3
    rank: int = 256
    sharpening: float = 0.0


TRIED = (
    Settings(),
    Settings(weight=0.0),
    Settings(rank=64),
    Settings(power=0.3),
    Settings(power=0.0, weight=0.0),
    Settings(sharpening=0.3),
)
"""The first one is GF-CF"""


class GraphFilter:
    """A fixed operator between items, in the form that `evaluate` accepts."""

    def __init__(self, train: pr.Interactions, settings: Settings) -> None:
        self.settings, self._x = settings, train.positives.to_scipy()
        of_people, of_items = (np.maximum(self._x.sum(axis), 1).astype(np.float32) for axis in (1, 0))
        self._scale = of_items**settings.power
        self._r = (diags_array(of_people**-0.5) @ self._x @ diags_array(1 / self._scale)).tocsr()
        self._v = svds(self._r, k=settings.rank, rng=0)[2].T if settings.weight else None

    def score(self, user_idx: I64) -> F32:
        own, s = self._x[user_idx], self.settings
        scores = (own @ self._r.T @ self._r).toarray()
        if self._v is not None:
            scores += s.weight * (own @ (self._v / self._scale[:, None])) @ (self._v * self._scale[:, None]).T
        if s.sharpening:
            scores -= s.sharpening * (self._r.T @ (self._r @ scores.T)).T
        return np.asarray(scores, np.float32)


def parts_of(name: str) -> Split:
    log = pr.split(pr.load(name.removesuffix("-last")), "auto").full_train
    if (people := PEOPLE[name]) is not None:
        some = np.random.default_rng(0).choice(np.unique(log.user_idx), people, replace=False)
        log = log.subset(np.isin(log.user_idx, some)).compact()
    if not name.endswith("-last"):
        return pr.split(log, "ratio", test=0.2, valid=False, seed=0)
    order = np.argsort(log.user_idx, kind="stable")
    counts = np.bincount(log.user_idx, minlength=log.n_users)
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    late = np.zeros(len(log), np.bool_)
    late[order] = place >= np.ceil(0.8 * np.repeat(counts, counts))
    return Split(log.subset(~late), None, log.subset(late))


def measured(model: Any, parts: Split) -> dict[str, float]:
    return {name: round(value, 5) for name, value in pr.evaluate(model, parts, metrics=METRICS).metrics.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", default=",".join(PEOPLE))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.data.split(","):
        parts = parts_of(name)
        row: dict[str, Any] = {"data": name, "people": PEOPLE[name], "filters": []}
        for other in ("itemknn", "ease"):
            row[other] = measured(pr.make_model(other).fit(parts.train), parts)
        for settings in TRIED:
            began = time.perf_counter()
            found = measured(GraphFilter(parts.train, settings), parts)
            row["filters"].append(asdict(settings) | {"metrics": found, "seconds": time.perf_counter() - began})
            print(name, settings, found, file=sys.stderr, flush=True)
        rows.append(row)
        if options.json:
            write_results(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
