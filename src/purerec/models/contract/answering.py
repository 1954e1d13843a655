"""Lists for known or new people, from a fitted model, by internal index; `listing` works with external ids.

Lists of dot-product models are made from the factors, without a table of all scores; the rest goes through
`purerec.ranking`, in panels of bounded memory. Scores rank the items of one person: they may differ from those of
`score` by a constant for each person.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from purerec.data.pairs import Csr
from purerec.data.vocabulary import indices_of
from purerec.errors import ConfigError
from purerec.models.contract.rules import ListRules
from purerec.ranking.ranks import TopK, top_k, top_k_of_row
from purerec.ranking.scorers import Factors
from purerec.types import F32, I32, I64

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender


class TopOptions(TypedDict, total=False):
    """What may be in a list, by internal index."""

    exclude_seen: bool
    items: I32 | None
    exclude: I32 | None
    rules: ListRules | None


def top_for_users(
    model: Recommender,
    user_idx: I64,
    k: int,
    *,
    exclude_seen: bool = True,
    items: I32 | None = None,
    exclude: I32 | None = None,
    rules: ListRules | None = None,
) -> TopK:
    """See `Recommender.top_for_users`."""
    scorer = _Scorer(model.name, model.derived.factors, model.score)
    user_idx = indices_of(user_idx, len(model.users), "user")
    candidates = _candidates(model, items, exclude, rules)
    k, pool = _sizes(model, k, rules)
    found = top_k(
        scorer, user_idx, pool, excluded=model.known.touched if exclude_seen else None, candidates=candidates
    )
    return found if rules is None else rules.arrange(model, found, [model.seen.row(int(u)) for u in user_idx], k)


def top_for_history(
    model: Recommender,
    item_idx: I32,
    k: int,
    *,
    exclude_seen: bool = True,
    items: I32 | None = None,
    exclude: I32 | None = None,
    rules: ListRules | None = None,
) -> TopK:
    """See `Recommender.top_for_history`."""
    known = history_indices(model, item_idx)
    own = known if exclude_seen else known[:0]
    candidates = _candidates(model, items, exclude, rules)
    k, pool = _sizes(model, k, rules)
    vector, parts = model.derived.vector_of(known), model.derived.factors
    if vector is not None and parts is not None:
        one = Factors(vector[None, :], parts.items, parts.item_bias)
        excluded = Csr(np.array([0, len(own)], dtype=np.int64), own, (1, len(parts.items)))
        found = top_k(_Scorer(model.name, one, model.score), [0], pool, excluded=excluded, candidates=candidates)
    else:
        scores = _scores(model, known, vector)
        found = top_k_of_row(scores, pool, excluded=own, candidates=candidates, name=model.name)
    return found if rules is None else rules.arrange(model, found, [known], k)


def scores_of_history(model: Recommender, known: I32) -> F32:
    """(n_items,) scores for a new person with this history, which has each item once."""
    return _scores(model, known, model.derived.vector_of(known))


def _scores(model: Recommender, known: I32, vector: F32 | None) -> F32:
    if not len(known):
        return model.derived.popularity
    if vector is None:
        return model._score_history(known)
    parts, history = model.derived.vectors, model._history_part()
    scores: F32 = parts.items @ vector
    if parts.item_bias is not None:
        scores += parts.item_bias
    if history is not None:
        scores += history.of_history(known)
    return scores


def checked_k(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, not {k!r}")
    return int(k)


def item_indices(model: Recommender, given: npt.ArrayLike) -> I32:
    return indices_of(given, len(model.items), "item").astype(np.int32)


def history_indices(model: Recommender, given: npt.ArrayLike) -> I32:
    """The items of a history, each once: a person has an item or not."""
    return np.unique(item_indices(model, given))


def _sizes(model: Recommender, k: int, rules: ListRules | None) -> tuple[int, int]:
    """The length of a list, and how many of the best items it is chosen from."""
    n, k = len(model.items), checked_k(k)
    if rules is None:
        return min(k, n), min(k, n)
    return min(k, n + rules.cold_items), min(rules.pool(k), n)


def _candidates(model: Recommender, items: I32 | None, exclude: I32 | None, rules: ListRules | None) -> I32 | None:
    """The items that a list may contain; None: all."""
    only = None if items is None else item_indices(model, items)
    if rules is not None and (allowed := rules.allowed(model)) is not None:
        only = allowed if only is None else np.intersect1d(only, allowed).astype(np.int32)
    barred = np.zeros(0, dtype=np.int32) if exclude is None else item_indices(model, exclude)
    if not len(barred):
        return only
    allowed = np.zeros(len(model.items), dtype=np.bool_)
    allowed[slice(None) if only is None else only] = True
    allowed[barred] = False
    return np.flatnonzero(allowed).astype(np.int32)


@dataclass(frozen=True)
class _Scorer:
    """A model as `ranking` expects it, with factors computed beforehand."""

    name: str
    parts: Factors | None
    score: Callable[[Any], F32]

    def factors(self) -> Factors | None:
        return self.parts
