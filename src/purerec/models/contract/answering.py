"""Lists for somebody known or new, from a fitted model.

Functions with external ids give tables; `top_*` have internal indices and arrays only, for a service that answers
many requests. Lists of dot-product models are made from the factors, without a table of all scores; the rest goes
through `purerec.ranking`, in panels of bounded memory. Scores rank the items of one person: they may differ from
those of `score` by a constant for each person.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.indices import indices_of
from purerec.data.interactions import Csr
from purerec.data.vocabulary import Id
from purerec.errors import ConfigError, DataError
from purerec.ranking.ranks import TopK, top_k, top_k_of_scores
from purerec.ranking.scorers import Factors
from purerec.types import F32, I32, I64

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender

_LISTED = 1 << 22
"""The most places in lists that are held at once: 32 MB, and a table of them is some ten times as large."""


@dataclass(frozen=True)
class ListRules:
    """What may be in a list, by external id: see `Recommender.recommend`."""

    exclude_seen: bool = True
    items: Iterable[Id] | None = None
    exclude: Iterable[Id] | None = None


def blocks_for_users(
    model: Recommender, users: Iterable[Id] | Id | None, k: int, rules: ListRules, block_users: int | None
) -> Iterator[pl.DataFrame]:
    """See `Recommender.recommend_blocks`."""
    k = checked_k(k)
    if users is None:
        index = np.arange(len(model.users), dtype=np.int64)
    else:
        index = model.users.indices(_listed(users)).astype(np.int64)
    whole = isinstance(block_users, int | np.integer) and not isinstance(block_users, bool)
    if block_users is not None and (not whole or block_users < 1):
        raise ConfigError(f"block_users must be at least 1, not {block_users!r}")
    size = block_users or max(1, _LISTED // k)
    allowed, barred = _given(model, rules.items), _barred(model, rules.exclude)

    def blocks() -> Iterator[pl.DataFrame]:
        for start in range(0, max(len(index), 1), size):
            part = index[start : start + size]
            found = top_for_users(model, part, k, exclude_seen=rules.exclude_seen, items=allowed, exclude=barred)
            yield table(model, found, user=model.users.take(np.repeat(part, found.items.shape[1])))

    return blocks()


def for_history(model: Recommender, history: Iterable[Id] | Id, k: int, rules: ListRules) -> pl.DataFrame:
    """See `Recommender.recommend_for`."""
    found = top_for_history(
        model,
        history_of(model, history),
        k,
        exclude_seen=rules.exclude_seen,
        items=_given(model, rules.items),
        exclude=_barred(model, rules.exclude),
    )
    return table(model, found)


def top_for_users(
    model: Recommender, user_idx: I64, k: int, *, exclude_seen: bool, items: I32 | None, exclude: I32 | None
) -> TopK:
    """See `Recommender.top_for_users`."""
    scorer = _Scorer(model.name, model.derived.factors, model.score)
    user_idx = indices_of(user_idx, len(model.users), "user")
    candidates = _candidates(model, items, exclude)
    k = min(checked_k(k), len(model.items))
    return top_k(scorer, user_idx, k, excluded=model.seen if exclude_seen else None, candidates=candidates)


def top_for_history(
    model: Recommender, item_idx: I32, k: int, *, exclude_seen: bool, items: I32 | None, exclude: I32 | None
) -> TopK:
    """See `Recommender.top_for_history`."""
    n, known = len(model.items), np.unique(item_indices(model, item_idx))
    own = Csr(np.array([0, len(known)], dtype=np.int64), known, (1, n)) if exclude_seen else None
    candidates = _candidates(model, items, exclude)
    k = min(checked_k(k), n)
    vector, parts = model.derived.vector_of(known), model.derived.factors
    if vector is not None and parts is not None:
        one = Factors(vector[None, :], parts.items, parts.item_bias)
        return top_k(_Scorer(model.name, one, model.score), [0], k, excluded=own, candidates=candidates)
    scores = scores_of_history(model, known)
    return top_k_of_scores(scores[None, :], k, excluded=own, candidates=candidates, name=model.name)


def scores_of_history(model: Recommender, known: I32) -> F32:
    """(n_items,) scores for a new person with this history, each item once."""
    if not len(known):
        return model.derived.popularity
    vector = model.derived.vector_of(known)
    if vector is None:
        return model._score_history(known)
    parts, history = model.derived.vectors, model._history_part()
    scores: F32 = parts.items @ vector
    if parts.item_bias is not None:
        scores += parts.item_bias
    if history is not None:
        scores += history.of_history(known)
    return scores


# ---------------------------------------------------------------------- ids at the door, tables on the way out


def checked_k(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"k must be at least 1, not {k!r}")
    return int(k)


def item_indices(model: Recommender, given: npt.ArrayLike) -> I32:
    return indices_of(given, len(model.items), "item").astype(np.int32)


def history_of(model: Recommender, history: Iterable[Id] | Id) -> I32:
    """Internal indices of a history, each once; items that nobody knows are told."""
    asked = _listed(history)
    found = [model.items.find(item) for item in asked]
    unknown = [item for item, idx in zip(asked, found, strict=True) if idx is None]
    if unknown:
        more = f" and {len(unknown) - 10:,} more" if len(unknown) > 10 else ""
        names = ", ".join(map(repr, unknown[:10])) + more
        warnings.warn(f"not in training, left out of the history: {names}", stacklevel=4)
    return np.array(sorted({idx for idx in found if idx is not None}), dtype=np.int32)


def table(model: Recommender, found: TopK, *, user: pl.Series | None = None) -> pl.DataFrame:
    """Lists as a table of (user), item, (label), score, rank."""
    n, k = found.items.shape
    flat = found.items.ravel()
    there = flat >= 0
    whole = bool(there.all())
    kept = flat if whole else flat[there]
    columns: dict[str, Any] = {} if user is None else {"user": user if whole else user.filter(there)}
    columns["item"] = model.items.take(kept)
    if model.labels is not None:
        columns["label"] = model.labels.gather(kept)
    columns["score"] = found.scores.ravel()[there]
    columns["rank"] = np.tile(np.arange(1, k + 1, dtype=np.int32), n)[there]
    return pl.DataFrame(columns)


def _given(model: Recommender, items: Iterable[Id] | None) -> I32 | None:
    return None if items is None else model.items.indices(_listed(items))


def _barred(model: Recommender, items: Iterable[Id] | None) -> I32 | None:
    if items is None:
        return None
    return np.array([i for item in _listed(items) if (i := model.items.find(item)) is not None], dtype=np.int32)


def _candidates(model: Recommender, items: I32 | None, exclude: I32 | None) -> I32 | None:
    """What may be in a list: None for everything."""
    only = None if items is None else item_indices(model, items)
    barred = np.zeros(0, dtype=np.int32) if exclude is None else item_indices(model, exclude)
    if not len(barred):
        return only
    allowed = np.zeros(len(model.items), dtype=np.bool_)
    allowed[slice(None) if only is None else only] = True
    allowed[barred] = False
    return np.flatnonzero(allowed).astype(np.int32)


def _listed(ids: Iterable[Id] | Id) -> list[Id]:
    if isinstance(ids, str | int | np.integer):
        return [ids]
    if not isinstance(ids, Iterable):
        raise DataError(f"ids are integers or text, or a list of them, not {ids!r}")
    return list(ids)


@dataclass(frozen=True)
class _Scorer:
    """A model as ranking wants it, with factors that were made before."""

    name: str
    parts: Factors | None
    score: Callable[[Any], F32]

    def factors(self) -> Factors | None:
        return self.parts
