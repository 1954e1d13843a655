"""ItemKNN: items that were liked by the same people, by cosine.

Sarwar, Karypis, Konstan, Riedl (2001), Item-Based Collaborative Filtering Recommendation Algorithms; shrinkage
as in Bell and Koren (2007).

    s(i, j) = x_i.x_j / (|x_i|^(2a) |x_j|^(2 - 2a) + shrinkage),   a = asymmetry, the cosine at 1/2
    score(u, i) = sum of s(i, j) over u's items j among the `neighbors` most similar to i

x_i is the column of item i in the matrix of positives, in which people who like many items may count less. Implicit
feedback needs nothing more: with ratings one would divide by the sum of the similarities, which here would only
reward items without neighbours. The cost is that of a sparse X'X, the sum over users of (number of positives)^2, in
blocks of bounded memory; 8 bytes are kept for each of n_items * neighbors. Use it where recommendations must be
explained: each comes from a few items that the person knows.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from purerec.data.interactions import Interactions
from purerec.data.pairs import Csr
from purerec.models.contract.config import Config
from purerec.models.contract.explaining import Person
from purerec.models.contract.fitted_on import Known, need_positives
from purerec.models.contract.recommender import Recommender
from purerec.models.contract.search_space import Choices, Floats, Ints, SearchSpace
from purerec.storage import Layout, Part, check_csr
from purerec.training.run import Run
from purerec.types import F32, I32, I64, State

_BLOCK_MB = 16
_LIKED_NEIGHBORS = 2.5
"""How many neighbours of an item a person likes on average. On validation data of ML-100k, ML-1M (both also thinned
to 12 and 25 positives per person) and Yelp this is near the best; 100 neighbours for all are clearly worse on sparse
data."""
_MOST_NEIGHBORS = 1000


def neighbors_for(positives: Csr) -> int:
    """The default number of neighbours."""
    people = np.count_nonzero(positives.counts)
    wanted = _LIKED_NEIGHBORS * positives.shape[1] * people / max(1, len(positives))
    return max(1, min(_MOST_NEIGHBORS, round(wanted)))


class ItemKNNConfig(Config):
    """Settings of ItemKNN."""

    neighbors: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Items whose similarity to an item is kept. None: enough for a person to like two or three of them on average,
    at most 1,000: the sparser the data, the more."""
    shrinkage: float = Field(default=10.0, ge=0, le=1e6)
    """Added to the product of the norms, as a number of people: similarities based on fewer count little."""
    person_weight: Literal["equal", "idf"] = "idf"
    """The weight of a person in the similarity. idf: (log(n_items / their positives))^2, so that those who like
    everything count little; scaled to 1 on average."""
    asymmetry: float = Field(default=0.25, ge=0, le=1)
    """a of |x_i|^(2a) |x_j|^(2-2a), which replaces the product of the norms; i is the item to score (Aiolli, 2013).
    0.5 is the cosine; lower values favour popular items."""

    search_space: ClassVar[SearchSpace] = {
        "neighbors": Ints(10, 1000, start=neighbors_for),
        "shrinkage": Floats(0.1, 1000),
        "person_weight": Choices(("equal", "idf")),
        "asymmetry": Floats(0, 1, log=False),
    }


class NearItems(NamedTuple):
    """What it scores with."""

    liked: Any
    """(n_users, n_items) sparse: who liked what"""
    near: Any
    """(n_items, n_items) sparse: in each row, how much an item adds to those it is near to"""


class ItemKNN(Recommender):
    """Item-based nearest neighbours."""

    name: ClassVar[str] = "itemknn"
    deterministic: ClassVar[bool] = True
    config_class = ItemKNNConfig
    config: ItemKNNConfig
    learned: NearItems

    def _fit(self, train: Interactions, valid: Interactions | None, seed: int, run: Run) -> NearItems:
        config = self.config
        positives = need_positives(train)
        liked = positives.to_scipy()
        x = _weighted(liked, config.person_weight)
        by_item = x.T.tocsr()
        squared = np.asarray(by_item.power(2).sum(axis=1), dtype=np.float32)
        left, right = squared**config.asymmetry, squared ** (1 - config.asymmetry)
        n = train.n_items
        k = min(config.neighbors or neighbors_for(positives), n)
        rows, columns, values = [], [], []
        size = max(1, int(_BLOCK_MB * 1e6 / (4 * n)))
        for start in range(0, n, size):
            dots = (by_item[start : start + size] @ x).toarray()
            near = dots / np.maximum(left[start : start + size, None] * right + np.float32(config.shrinkage), 1e-12)
            own = np.arange(len(near))
            near[own, start + own] = 0
            best = np.argpartition(-near, k - 1, axis=1)[:, :k]
            value = np.take_along_axis(near, best, axis=1)
            row, place = np.nonzero(value > 0)
            rows.append(start + row)
            columns.append(best[row, place])
            values.append(value[row, place])
        return NearItems(liked, _csr(np.concatenate(columns), np.concatenate(rows), np.concatenate(values), n))

    def _score(self, user_idx: I64) -> F32:
        scores: F32 = (self.learned.liked[user_idx] @ self.learned.near).toarray()
        scores[self.seen.counts[user_idx] == 0] = self.popularity()
        return scores

    def _score_history(self, item_idx: I32) -> F32:
        return np.asarray(self.learned.near[item_idx].sum(axis=0), dtype=np.float32)

    def _shares(self, person: Person, target_idx: I64) -> F32 | None:
        shares: F32 = self.learned.near[person.item_idx][:, target_idx].toarray()
        return shares

    def _item_weights(self, item_idx: int) -> F32 | None:
        weights: F32 = self.learned.near[[item_idx]].toarray()[0]
        return weights

    def _layout(self) -> Layout:
        return {"values": Part(("pairs",)), "items": Part(("pairs",), np.int32), "starts": Part(("rows",), np.int64)}

    def _state(self) -> State:
        near = self.learned.near
        return {"values": near.data, "items": near.indices.astype(np.int32), "starts": near.indptr.astype(np.int64)}

    def _from_state(self, state: State, known: Known) -> NearItems:
        from scipy.sparse import csr_array

        n = len(known.items)
        check_csr("near items", state["starts"], state["items"], (n, n), unique=False)
        near = csr_array((state["values"], state["items"], state["starts"]), shape=(n, n))
        return NearItems(known.seen.to_scipy(), near)


def _weighted(x: Any, how: str) -> Any:
    if how == "idf":
        counts = np.diff(x.indptr)
        weight = np.repeat(np.log((x.shape[1] + 1) / np.maximum(counts, 1)), counts)
        x = x.copy()
        x.data = (weight / np.sqrt(np.mean(weight**2))).astype(np.float32)
    return x


def _csr(row: I64, column: I64, value: F32, n: int) -> Any:
    from scipy.sparse import coo_array

    return coo_array((value, (row, column)), shape=(n, n)).tocsr()
