"""Items that are similar to a given one.

Vectors of items that only a handful of people liked point in arbitrary directions, some by chance exactly where a
well-known one does. So a cosine counts only as far as it is supported: it is multiplied by n / (n + 50), where n
people liked the other item. The value 50 was best at finding items that held-out people like together
(docs/recommending.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from purerec.data.vocabulary import index_of
from purerec.models.contract.answering import checked_k
from purerec.ranking.ranks import TopK, top_k_of_row
from purerec.types import F32

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender

SUPPORT = 50.0
"""The number of fans at which an item's cosine counts half."""


def top_similar(model: Recommender, item_idx: int, k: int) -> TopK:
    """(1, k) by internal index."""
    item_idx = index_of(item_idx, len(model.items), "item")
    near = similarity(model, item_idx)
    k = max(1, min(checked_k(k), len(near) - 1))
    return top_k_of_row(near, k, excluded=item_idx, name=model.name)


def similarity(model: Recommender, item_idx: int) -> F32:
    """(n_items,) the cosine of vectors, shrunk by support; without vectors, the model's own weights between items,
    which are already regularised; else the cosine of who liked them, shrunk as well."""
    if not model.derived.has_vectors:
        own = model._item_weights(item_idx)
        if own is not None:
            return own
    return shrunk(cosine(model, item_idx), model.derived.popularity, SUPPORT)


def cosine(model: Recommender, item_idx: int) -> F32:
    """(n_items,) of the items' vectors, or of the sets of people who liked them"""
    if not model.derived.has_vectors:
        return common_fans(model, item_idx)
    vectors = model.derived.directions
    near: F32 = vectors @ vectors[item_idx]
    return near


def shrunk(near: F32, support: F32, by: float) -> F32:
    """Similarities times support / (support + by); negative ones are left as they are."""
    if not by:
        return near
    return np.where(near > 0, near * (support / (support + np.float32(by))), near)


def common_fans(model: Recommender, item_idx: int) -> F32:
    """(n_items,) cosine between the sets of people who liked them"""
    size = np.maximum(model.derived.popularity, 1)
    near: F32 = (liked_both(model, item_idx) / np.sqrt(size * size[item_idx])).astype(np.float32)
    return near


def liked_both(model: Recommender, item_idx: int) -> F32:
    """(n_items,) how many people liked this item and the other"""
    by_item = model.derived.fans
    found: F32 = (by_item[[item_idx]] @ by_item.T).toarray()[0]
    return found
