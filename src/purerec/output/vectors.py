"""A model's vectors for other programs: Parquet files, and an index for approximate search.

    vectors/items.parquet    id, label (if there are any), vector
    vectors/users.parquet    id, vector
    vectors/items.usearch    with `index=True`: an HNSW graph of the items; position n in it is row n of items.parquet
    vectors/manifest.json    what it is, of which model, and the recall of the index

Vectors are fixed-size lists of float32. The dot product of a user's and an item's is the model's score, up to a
constant for each user, which does not affect the ranking. An item bias is the last element of the items' vectors,
matched by a one in the users'.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from purerec import storage
from purerec.errors import ConfigError, MissingExtraError, ScoreError, StoreError
from purerec.ranking.ranks import TopK, top_k
from purerec.ranking.scorers import Factors
from purerec.types import F32

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender

WITH_VECTORS = (
    "itempop", "coclustering", "svd", "nmf", "pmf", "ials", "bpr", "lambdafm", "graphgan", "irgan", "cfgan",
    "multvae", "gmf", "pugmf",
)  # fmt: skip
"""Models whose score is a dot product, at least with their default settings"""

KIND = "vectors"
ITEMS, USERS, INDEX = "items.parquet", "users.parquet", "items.usearch"
CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 16, 128, 128
"""Settings of HNSW: links per item, and the candidates kept while building and while searching"""
ENOUGH = 0.97
"""Recall at which the first method of building the graph is good enough"""
SAMPLE = 1000
"""Users whose lists are compared with exact ones"""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    path: Path
    users: int
    items: int
    dim: int
    recall: float | None
    """Share of the exact ten best items that the index finds, over a sample of users; None without an index"""


def vectors(model: Recommender) -> tuple[F32, F32]:
    """(n_users, dim) and (n_items, dim), whose dot product is the score up to a constant for each user."""
    parts = model.factors()
    if parts is None:
        if model._history_part() is not None:
            raise ConfigError(
                f"{model.name} has no vectors: it scores by a person's items, too, not only by a dot product",
                f"fit it with users='free', or use one of {', '.join(WITH_VECTORS)}",
                command=f"fit it with --set users=free, or use one of {', '.join(WITH_VECTORS)}",
            )
        why = "with these settings " if model.name in WITH_VECTORS else ""
        raise ConfigError(
            f"{model.name} {why}has no vectors: its score is not a dot product; models that have them are "
            f"{', '.join(WITH_VECTORS)}"
        )
    users, items = (np.ascontiguousarray(side, dtype=np.float32) for side in (parts.users, parts.items))
    if parts.item_bias is not None:
        users = np.column_stack([users, np.ones(len(users), dtype=np.float32)])
        items = np.column_stack([items, parts.item_bias.astype(np.float32)])
    if not (np.isfinite(users).all() and np.isfinite(items).all()):
        raise ScoreError(f"{model.name} has vectors that are not finite; fit it again with a lower learning_rate")
    return users, items


def export_vectors(model: Recommender, path: str | os.PathLike[str], *, index: bool = False) -> Exported:
    """Write users' and items' vectors, and with `index` a graph for approximate search (extra `ann`), to a folder."""
    if index:
        _usearch()  # before any work is done
    storage.check_target(path, kind=KIND)
    users, items = vectors(model)
    graph, recall = make_index(users, items) if index else (None, None)
    with storage.new_folder(path, kind=KIND) as work:
        with _disk_errors(path):
            _table(model.items.ids, model.labels, items).write_parquet(work / ITEMS)
            _table(model.users.ids, None, users).write_parquet(work / USERS)
            if graph is not None:
                graph.save(str(work / INDEX))
        about = None
        if graph is not None:
            about = {"file": INDEX, "sha256": _sha256(work / INDEX), "recall@10": recall, "dim": graph.ndim}
        manifest = {
            "model": model.name,
            "fitted_on": model.fitted_on.to_dict(),
            "dim": items.shape[1],
            "score": "dot product of a user's and an item's vector, up to a constant for each user",
            "index": about,
            "sha256": {name: _sha256(work / name) for name in (ITEMS, USERS)},
        }
        storage.write_manifest(work, kind=KIND, facts=manifest)
    return Exported(Path(path), len(users), len(items), items.shape[1], recall)


@contextmanager
def _disk_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Handle a full disk, which Polars and usearch each report in their own way."""
    try:
        yield
    except (pl.exceptions.PolarsError, RuntimeError) as error:
        raise StoreError(f"cannot write {path}: {error}; nothing was changed") from None


def _table(ids: pl.Series, labels: pl.Series | None, rows: F32) -> pl.DataFrame:
    columns = [ids.alias("id")] + ([] if labels is None else [labels.alias("label")])
    vector = pl.Series("vector", rows, dtype=pl.Array(pl.Float32, rows.shape[1]))
    return pl.DataFrame([*columns, vector])


# ---------------------------------------------------------------------- approximate search


class ItemIndex:
    """The graph of an exported folder, and the ids of its items."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        folder = Path(path)
        about = storage.read_manifest(folder, kind=KIND)
        if about["index"] is None:
            raise StoreError(f"{folder} has no index; export it again with --index (or index=True)")
        library = _usearch()
        file = folder / INDEX
        # Format 1 only has a checksum of the index.
        digests = {INDEX: about["index"]["sha256"], ITEMS: about.get("sha256", {}).get(ITEMS)}
        try:
            damaged = [name for name, known in digests.items() if known and _sha256(folder / name) != known]
            items = pl.DataFrame() if damaged else pl.read_parquet(folder / ITEMS)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise StoreError(f"{folder} cannot be read ({error}); export it again") from None
        if damaged:
            raise StoreError(
                f"{folder / damaged[0]} is damaged (its checksum differs from the manifest's); export it again"
            )
        self._graph = library.restore(str(file))
        if self._graph is None or len(self._graph) != len(items):
            raise StoreError(f"{file} is not an index of the {len(items):,} items in {ITEMS}; export it again")
        self._graph.expansion_search = EXPANSION_SEARCH  # not stored in the file
        self.dim = int(about["dim"])
        self.ids = items["id"]
        self.labels = items["label"] if "label" in items.columns else None

    def search(self, users: F32, k: int = 10) -> TopK:
        """The k best items of each user vector (n, dim), as positions in `ids`, with their scores."""
        rows = np.atleast_2d(np.asarray(users, dtype=np.float32))
        if rows.shape[1] != self.dim:
            raise ConfigError(f"the index has vectors of {self.dim} numbers, not of {rows.shape[1]}")
        if k < 1:
            raise ConfigError(f"k must be a whole number of at least 1, not {k!r}")
        return search_graph(self._graph, rows, min(k, len(self.ids)))


def search_index(path: str | os.PathLike[str], users: F32, k: int = 10) -> pl.DataFrame:
    """The k best items of each user vector (n, dim), approximately: a table of query, item, (label), score, rank.

    `path` is a folder that was exported with an index; `users` are vectors as in its users.parquet. For more than one
    query, keep an `ItemIndex`.
    """
    index = ItemIndex(path)
    found = index.search(users, k)
    n, width = found.items.shape
    flat = found.items.ravel()
    there = flat >= 0
    columns: dict[str, Any] = {
        "query": np.repeat(np.arange(n), width)[there],
        "item": index.ids.gather(flat[there]),
    }
    if index.labels is not None:
        columns["label"] = index.labels.gather(flat[there])
    columns["score"] = found.scores.ravel()[there]
    columns["rank"] = np.tile(np.arange(1, width + 1, dtype=np.int32), n)[there]
    return pl.DataFrame(columns)


def make_index(users: F32, items: F32) -> tuple[Any, float]:
    """A graph of the items for inner products, and its recall for these users.

    A graph that links items by inner product suits the models measured here, but can lose short vectors, since long
    ones are close to all. If recall is too low, another is built from items with an extra element that gives all of
    them the same length: ordering by inner product is then ordering by distance, for which such graphs are designed,
    and a zero in users' vectors leaves the scores unchanged (Bachrach et al. 2014). The better of the two is kept.
    """
    graph = build_graph(items)
    recall = measure_recall(graph, users, items)
    if recall < ENOUGH:
        squared = np.einsum("nd,nd->n", items, items)
        rest = np.sqrt(np.maximum(squared.max() - squared, 0))
        other = build_graph(np.column_stack([items, rest]))
        if (found := measure_recall(other, users, items)) > recall:
            return other, found
    return graph, recall


def build_graph(rows: F32) -> Any:
    """An HNSW graph of vectors (n, dim), by inner product."""
    graph = _usearch()(
        ndim=rows.shape[1],
        metric="ip",
        dtype="f32",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
    )
    graph.add(np.arange(len(rows), dtype=np.uint64), rows)
    return graph


def search_graph(graph: Any, users: F32, k: int) -> TopK:
    """The k best items of each user vector (n, dim); if the graph's vectors are wider, users get a zero there."""
    queries = np.pad(users, ((0, 0), (0, graph.ndim - users.shape[1])))
    found = graph.search(queries, k)
    if len(queries) == 1:  # for one query, the result is a single list without its length
        keys, distances, counts = found.keys[None], found.distances[None], np.array([len(found.keys)])
    else:
        keys, distances, counts = found.keys, found.distances, found.counts
    missing = np.arange(keys.shape[1]) >= counts[:, None]
    scores = 1 - np.where(missing, np.inf, distances).astype(np.float32)
    return TopK(np.where(missing, -1, keys.astype(np.int64)).astype(np.int32), scores)


def measure_recall(graph: Any, users: F32, items: F32, *, k: int = 10) -> float:
    """The share of the exact k best items that the graph finds, over at most `SAMPLE` evenly spaced users."""
    k = min(k, len(items))
    some = users[np.unique(np.linspace(0, len(users) - 1, min(SAMPLE, len(users))).astype(np.int64))]
    exact = top_k(Dots(some, items), np.arange(len(some)), k)
    found = search_graph(graph, some, k)
    # Compare scores, so that either of two equally good items counts.
    worst = exact.scores[:, -1:]
    return float(np.mean(found.scores >= worst - 1e-5 * np.maximum(1, np.abs(worst))))


class Dots:
    name = "vectors"

    def __init__(self, users: F32, items: F32) -> None:
        self._factors = Factors(users, items)

    def score(self, user_idx: Any, /) -> F32:
        scores: F32 = self._factors.users[user_idx] @ self._factors.items.T
        return scores

    def factors(self) -> Factors:
        return self._factors


def _usearch() -> Any:
    try:
        from usearch.index import Index
    except ImportError:
        raise MissingExtraError("usearch", "ann", purpose="an index for approximate search") from None
    return Index


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
