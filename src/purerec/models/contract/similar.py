"""Items that are near to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from purerec.data.indices import index_of
from purerec.data.interactions import Csr
from purerec.models.contract.answering import checked_k
from purerec.ranking.ranks import TopK, top_k_of_scores
from purerec.types import F32

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender


def top_similar(model: Recommender, item_idx: int, k: int) -> TopK:
    """(1, k) by internal index."""
    item_idx = index_of(item_idx, len(model.items), "item")
    near = similarity(model, item_idx)
    k = max(1, min(checked_k(k), len(near) - 1))
    itself = Csr(np.array([0, 1], dtype=np.int64), np.array([item_idx], dtype=np.int32), (1, len(near)))
    return top_k_of_scores(near[None, :], k, excluded=itself, name=model.name)


def similarity(model: Recommender, item_idx: int) -> F32:
    """(n_items,) the model's own weights between items, where it has such; the cosine of their vectors; else that of
    who liked them."""
    own = model._item_weights(item_idx)
    if own is not None:
        return own
    parts = model.derived.factors
    # With one dimension or none (popularity), every cosine is 1, -1 or 0: who liked what says more.
    if parts is None or parts.items.shape[1] < 2:
        return common_fans(model, item_idx)
    vectors = model.derived.directions
    near: F32 = vectors @ vectors[item_idx]
    return near


def common_fans(model: Recommender, item_idx: int) -> F32:
    """(n_items,) cosine between the sets of people who liked them"""
    by_item = model.derived.fans
    shared = (by_item[[item_idx]] @ by_item.T).toarray()[0]
    size = np.maximum(model.derived.popularity, 1)
    near: F32 = (shared / np.sqrt(size * size[item_idx])).astype(np.float32)
    return near
