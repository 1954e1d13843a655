"""Why an item is in a person's list.

    liked       a few of the person's own items account for what sets it apart from equally popular
                ones: because you liked these
    like_you    something sets it apart, but not just a few items: popular with people like you
    popular     nothing does: anybody would get it

What sets an item apart is the lift of its score (see `lift`). To be a reason, the three strongest of the person's
items must account for a quarter of it. How much each one contributes is the lift of its share in the score:

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
j gets more weight. For least squares (iALS) the rest is zero. The vector of a person in training was reached by
gradient steps and is near the minimum, not at it; the difference is part of the rest.

**Otherwise** (a network as scorer, co-clusters) the score has no such parts, and no own item is given as a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.vocabulary import Id, indices_of
from purerec.models.contract.answering import checked_k, history_indices, scores_of_history
from purerec.types import F32, F64, I32, I64

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender

ReasonKind = Literal["liked", "like_you", "popular"]

_CLEAR = 0.25
"""A score counts as lifted from this many standard deviations of the person's lifts."""
_FEW = 3
_CARRIED = 0.25
"""The share of a lift that a few own items must account for"""
_STRONG = 0.5
"""An own item may replace the strongest as a reason if its lift is at least this share of the strongest's."""


@dataclass(frozen=True, eq=False)
class Person:
    """A person whose score is to be explained."""

    item_idx: I32
    """(n,) their own items"""
    user_idx: int | None
    """None: not in training"""
    vector: F32 | None
    """(dim,) of a model of factors"""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a score is based on."""

    item: Id
    score: float
    kind: ReasonKind
    lift: float
    """How far the score is above what popularity explains"""
    reason: str
    """A few words for the person: 'because you liked ...', 'popular with people like you', 'popular'"""
    text: str
    """One sentence with the numbers"""
    because: pl.DataFrame
    """item, (label), share, lift: own items that are the reason, largest lift first; none unless `kind` is 'liked'"""
    item_idx: I32
    """The same by internal index"""
    method: Literal["exact", "none"]
    """exact: shares are parts of the score; none: the score has no parts"""
    shares: pl.DataFrame
    """item, (label), share, lift of all own items, largest lift first; they and `rest` add up to the score"""
    rest: float | None
    """The score minus all shares; None if it has no parts"""


@dataclass(frozen=True, eq=False)
class _Parts:
    """What one person's scores of some items consist of."""

    scores: F64
    """(n_targets,)"""
    shares: F64 | None
    """(n_own, n_targets)"""

    def split(self, at: int) -> tuple[_Parts, _Parts]:
        """The first targets, and the others."""
        first, others = (None, None) if self.shares is None else (self.shares[:, :at], self.shares[:, at:])
        return _Parts(self.scores[:at], first), _Parts(self.scores[at:], others)


def person_of(model: Recommender, user_idx: int) -> Person:
    """A person in the training data."""
    parts = model.derived.vector_part
    return Person(model.seen.row(user_idx), user_idx, None if parts is None else parts.users[user_idx])


def somebody_new(model: Recommender, item_idx: I32) -> Person:
    """A new person with this history; repeated items count once."""
    known = history_indices(model, item_idx)
    return Person(known, None, model.derived.vector_of(known))


def explain_list(model: Recommender, person: Person, target_idx: npt.ArrayLike, k: int) -> list[Explanation]:
    """Reasons for a whole list; own items named before give way to others that contribute almost as much."""
    targets, own = indices_of(target_idx, len(model.items), "item"), person.item_idx
    k = checked_k(k)
    level, n_targets = model.derived.level, len(targets)
    both = _parts(model, person, np.concatenate([targets, level.items]))
    at, base = both.split(n_targets)
    lifts, spread, gains = np.zeros(n_targets), 0.0, None
    if len(own) and model.personalised:
        lifts = level.lift(at.scores, base.scores, targets)
        spread = float(level.lift(base.scores, base.scores, level.items).std())
        if at.shares is not None and base.shares is not None:
            gains = level.lift(at.shares, base.shares, targets)
    named = np.zeros(len(own), dtype=np.int64)
    found = []
    for n, target in enumerate(targets.tolist()):
        shares = None if at.shares is None else at.shares[:, n]
        gain = np.zeros(len(own)) if gains is None else gains[:, n]
        carried = gain if shares is None else np.where(shares > 0, gain, 0.0)
        kind = _kind(float(lifts[n]), spread, carried)
        chosen = _named(carried, named, k) if kind == "liked" else np.zeros(0, dtype=np.int64)
        named[chosen] += 1
        found.append(
            _explanation(model, own, target, float(at.scores[n]), float(lifts[n]), kind, shares, gain, chosen)
        )
    return found


def _kind(lift: float, spread: float, gain: F64) -> ReasonKind:
    if lift <= _CLEAR * spread:
        return "popular"
    strongest = np.sort(np.maximum(gain, 0))[::-1][:_FEW]
    return "liked" if strongest.sum() >= _CARRIED * lift else "like_you"


def _named(gain: F64, times: I64, k: int) -> I64:
    """Up to k own items among those that contribute most; the weight of an item halves each time it is named."""
    strong = np.flatnonzero(gain >= _STRONG * gain.max())
    fresh = gain[strong] * 0.5 ** times[strong]
    chosen = strong[np.argsort(-fresh, kind="stable")[:k]]
    return chosen[np.argsort(-gain[chosen], kind="stable")]


def _parts(model: Recommender, person: Person, targets: I64) -> _Parts:
    own, vector = person.item_idx, person.vector
    shares = model._shares(person, targets) if len(own) else None
    parts = model.derived.vector_part
    if vector is not None and parts is not None and shares is None:
        own_parts, history = model.derived.parts_of(own, vector), model._history_part()
        if own_parts is not None:
            shares = own_parts @ parts.items[targets].T
            if history is not None:
                shares = shares + history.shares(own, targets)
    if vector is not None and model.derived.factors is not None:
        factors = model.derived.factors
        scores = factors.items[targets] @ vector
        if factors.item_bias is not None:
            scores = scores + factors.item_bias[targets]
    elif person.user_idx is not None:
        scores = model._score(np.array([person.user_idx]))[0, targets]
    else:
        scores = scores_of_history(model, own)[targets]
    return _Parts(scores.astype(np.float64), None if shares is None else shares.astype(np.float64))


def _explanation(
    model: Recommender,
    own: I32,
    target: int,
    score: float,
    lift: float,
    kind: ReasonKind,
    shares: F64 | None,
    gain: F64,
    chosen: I64,
) -> Explanation:
    rest = None if shares is None else score - float(shares.sum())
    value = np.zeros(len(own)) if shares is None else shares
    order = np.argsort(-gain, kind="stable") if shares is not None else np.zeros(0, dtype=np.int64)
    because = _table(model, own[chosen], value[chosen], gain[chosen])
    return Explanation(
        model.items[target],
        score,
        kind,
        lift,
        _reason(model, kind, own[chosen]),
        _text(kind, lift, float(gain[chosen].sum()), len(own), has_parts=shares is not None),
        because,
        own[chosen],
        "none" if shares is None and len(own) else "exact",
        _table(model, own[order], value[order], gain[order]),
        rest if rest is not None or len(own) else score,
    )


def _table(model: Recommender, item_idx: I32, shares: F64, lifts: F64) -> pl.DataFrame:
    columns: dict[str, object] = {"item": model.items.take(item_idx)}
    if model.labels is not None:
        columns["label"] = model.labels.gather(item_idx)
    return pl.DataFrame({**columns, "share": shares, "lift": lifts})


def _reason(model: Recommender, kind: ReasonKind, item_idx: I32) -> str:
    if kind != "liked":
        return "popular" if kind == "popular" else "popular with people like you"
    titles = [None] * len(item_idx) if model.labels is None else model.labels.gather(item_idx).to_list()
    names = [title or str(model.items[int(idx)]) for title, idx in zip(titles, item_idx, strict=True)]
    return "because you liked " + " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _text(kind: ReasonKind, lift: float, carried: float, n_own: int, *, has_parts: bool) -> str:
    if not n_own:
        return "Nothing is known of this person: the score is the same for everybody."
    if kind == "popular":
        return "The score is no higher than popularity explains."
    above = f"The score is {lift:.3g} above what popularity explains"
    if kind == "liked":
        return f"{above}; of that, these of the person's {n_own:,} items account for {carried:.3g}."
    if not has_parts:
        return f"{above}. It cannot be attributed to single items of theirs."
    return f"{above}, but not because of just a few of the person's {n_own:,} items."
