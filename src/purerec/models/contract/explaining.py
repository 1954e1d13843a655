"""Why an item is in somebody's list: the person's own items that carry its score most.

**Linear models between items** (EASE, ItemKNN, SlopeOne): the score is a sum over the person's items, so each has its
exact share.

**Dot-product models**: the score is e.q_i + b_i, and the person's vector e minimises a convex risk with the items
fixed,

    f(e) = sum over own items j of l_j(e)  +  R(e),      R: everything else (unlabeled items, the penalty)

At the minimum the gradient is zero, so with the Hessian H of f there, and A_j that of l_j,

    H e = H e - f'(e) = sum_j (A_j e - l_j'(e)) + (R'' e - R'(e))
    e   = sum_j c_j + c,     c_j = H^-1 (A_j e - l_j'(e)),     c = H^-1 (R'' e - R'(e))

which is how Newton's method sees the problem: as weighted least squares, whose solution is a sum over its
observations. The share of j in the score of i is c_j.q_i, and shares and rest (c.q_i + b_i) add up to the score. For
the PU risk l_j is linear and c_j = H^-1 q_j / n is the influence function: how the vector moves, to first order, if
j gets more weight. For least squares (iALS) the rest is zero. The vector of somebody in training was reached by
gradient steps and is near the minimum, not at it; what is missing is part of the rest.

**Otherwise** (a network as scorer, co-clusters) the score has no such parts; then the person's items most similar to
the item stand in for them, and `method` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from purerec.data.indices import index_of
from purerec.data.vocabulary import Id
from purerec.models.contract.answering import checked_k, history_of, item_indices, scores_of_history
from purerec.models.contract.similar import similarity
from purerec.types import F32, I32

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody whose score is to be explained."""

    item_idx: I32
    """(n,) their own items"""
    user_idx: int | None
    """None: not in training"""
    vector: F32 | None
    """(dim,) of a model of factors"""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a score rests on."""

    item: Id
    score: float
    method: Literal["exact", "similarity"]
    text: str
    """One sentence that says what the shares mean"""
    because: pl.DataFrame
    """item, (label), share: the person's own items that carry the score most, largest first"""
    item_idx: I32
    """The same by internal index"""
    shares: F32
    rest: float | None
    """The score without the shares of all own items, shown or not; None if the shares are no parts of it"""


def explain_user(model: Recommender, user: Id, item: Id, k: int) -> Explanation:
    """See `Recommender.explain`."""
    user_idx, target_idx = model.users.index(user), model.items.index(item)
    parts = model.derived.vector_part
    vector = None if parts is None else parts.users[user_idx]
    return _explain(model, Person(model.seen.row(user_idx), user_idx, vector), target_idx, k)


def explain_new(model: Recommender, history: Iterable[Id] | Id, item: Id, k: int) -> Explanation:
    """See `Recommender.explain_for`."""
    return explain_history(model, history_of(model, history), model.items.index(item), k)


def explain_history(model: Recommender, item_idx: I32, target_idx: int, k: int) -> Explanation:
    """See `Recommender.explain_history`."""
    known, target_idx = item_indices(model, item_idx), index_of(target_idx, len(model.items), "item")
    return _explain(model, Person(known, None, model.derived.vector_of(known)), target_idx, k)


def _explain(model: Recommender, person: Person, target_idx: int, k: int) -> Explanation:
    own, score = person.item_idx, _score(model, person, target_idx)
    shares: F32 | None = np.zeros(0, dtype=np.float32)
    if len(own):
        shares = model._shares(person, target_idx)
        if shares is None and (parts := model.derived.parts_of(own, person.vector)) is not None:
            shares = parts @ model.derived.vectors.items[target_idx]
            if (history := model._history_part()) is not None:
                shares = shares + history.shares(own, target_idx)
    exact = shares is not None
    if shares is None:
        shares = similarity(model, target_idx)[own]
    return _explanation(model, target_idx, score, own, shares, checked_k(k), exact=exact)


def _score(model: Recommender, person: Person, target_idx: int) -> float:
    """The score that a list would show."""
    factors = model.derived.factors
    if person.vector is not None and factors is not None:
        bias = 0.0 if factors.item_bias is None else float(factors.item_bias[target_idx])
        return float(factors.items[target_idx] @ person.vector) + bias
    if person.user_idx is not None:
        return float(model._score(np.array([person.user_idx]))[0, target_idx])
    return float(scores_of_history(model, person.item_idx)[target_idx])


def _explanation(
    model: Recommender, target_idx: int, score: float, own_idx: I32, shares: F32, k: int, *, exact: bool
) -> Explanation:
    """From the share of each own item; the k largest are kept."""
    best = np.argsort(-shares, kind="stable")[:k]
    rest = score - float(shares.sum(dtype=np.float64)) if exact else None
    columns: dict[str, object] = {"item": model.items.take(own_idx[best])}
    if model.labels is not None:
        columns["label"] = model.labels.gather(own_idx[best])
    columns["share"] = shares[best]
    if not len(own_idx):
        text = "Nothing is known of this person: the score is the same for everybody."
    elif rest is not None:
        text = (
            f"Of the score of {score:.3g}, the person's own {len(own_idx):,} items add {score - rest:.3g}, these the "
            f"most; the rest, {rest:.3g}, does not come from single items of theirs."
        )
    else:
        text = "The score has no parts: shown are the person's own items that are most similar to this one."
    return Explanation(
        model.items[target_idx],
        score,
        "exact" if exact else "similarity",
        text,
        pl.DataFrame(columns),
        own_idx[best],
        shares[best],
        rest,
    )
