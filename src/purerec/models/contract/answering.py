"""What people ask of a fitted model: lists for somebody known or new, similar items, reasons.

Methods with external ids give tables; `top_*` have internal indices and arrays only, for a service that answers many
requests. Lists of dot-product models are made from the factors, without a table of all scores; the rest goes through
`purerec.ranking`, in panels of bounded memory. Scores rank the items of one person: they may differ from those of
`score` by a constant for each person.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.indices import index_of, indices_of
from purerec.data.interactions import F32, I32, I64, Csr
from purerec.data.vocabulary import Id, Vocabulary
from purerec.errors import ConfigError, DataError, ScoreError
from purerec.models.contract.explaining import Explanation, Person, explanation
from purerec.models.contract.foldin import Folding
from purerec.ranking.ranks import TopK, top_k, top_k_of_scores
from purerec.ranking.scorers import Factors

T = TypeVar("T")

_LISTED = 1 << 22
"""The most places in lists that are held at once: 32 MB, and a table of them is some ten times as large."""


class Usable(ABC):
    """The part of a recommender that answers."""

    name: ClassVar[str]
    personalised: ClassVar[bool]
    _made: dict[str, Any]
    """What was made from the fitted state on first use; emptied by a new fit"""

    # ------------------------------------------------------------------ what it builds on

    @property
    @abstractmethod
    def users(self) -> Vocabulary: ...

    @property
    @abstractmethod
    def items(self) -> Vocabulary: ...

    @property
    @abstractmethod
    def labels(self) -> pl.Series | None: ...

    @property
    @abstractmethod
    def seen(self) -> Csr: ...

    @abstractmethod
    def _score(self, user_idx: I64) -> F32:
        """(len(user_idx), n_items) float32"""

    def factors(self) -> Factors | None:
        """User vectors, item vectors and item bias, if the score is their dot product; else None."""
        return None

    def _folding(self) -> Folding | None:
        """How to find the vector of a person who was not in training, if the score is a dot product."""
        return None

    def _score_history(self, item_idx: I32) -> F32:
        """(n_items,) scores for a person of whom only these items are known, if there is no such way."""
        raise ConfigError(f"{self.name} cannot recommend for people who were not in training")

    def _shares(self, person: Person, target_idx: int) -> F32 | None:
        """(n,) what each of a person's own items adds to the score of another, if that can be said exactly."""
        return None

    def _item_weights(self, item_idx: int) -> F32 | None:
        """(n_items,) how near the model itself puts other items to this one, if it has such weights."""
        return None

    # ------------------------------------------------------------------ lists

    def score(self, user_idx: npt.ArrayLike) -> F32:
        """Scores of all items for users by internal index: (len(user_idx), n_items) float32."""
        return self._score(indices_of(user_idx, len(self.users), "user"))

    def recommend(
        self,
        users: Iterable[Id] | Id | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
    ) -> pl.DataFrame:
        """The k best items of some users, or of all: a table of user, item, score, rank (and label).

        `items` are the only candidates, if given; those of `exclude` are none (unknown ones are no error there).
        """
        return pl.concat(
            self.recommend_blocks(users, k, exclude_seen=exclude_seen, items=items, exclude=exclude), rechunk=False
        )

    def recommend_blocks(
        self,
        users: Iterable[Id] | Id | None = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        block_users: int | None = None,
    ) -> Iterator[pl.DataFrame]:
        """The same table in parts of so many users, of which only one is in memory at a time; at least one part."""
        k = self._checked(k)
        if users is None:
            index = np.arange(len(self.users), dtype=np.int64)
        else:
            index = self.users.indices(_listed(users)).astype(np.int64)
        whole = isinstance(block_users, int | np.integer) and not isinstance(block_users, bool)
        if block_users is not None and (not whole or block_users < 1):
            raise ConfigError(f"block_users must be at least 1, not {block_users!r}")
        size = block_users or max(1, _LISTED // k)
        allowed, barred = self._given(items), self._barred(exclude)

        def blocks() -> Iterator[pl.DataFrame]:
            for start in range(0, max(len(index), 1), size):
                part = index[start : start + size]
                found = self.top_for_users(part, k, exclude_seen=exclude_seen, items=allowed, exclude=barred)
                yield self._table(found, user=self.users.take(np.repeat(part, found.items.shape[1])))

        return blocks()

    def recommend_for(
        self,
        history: Iterable[Id] | Id,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        items: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
    ) -> pl.DataFrame:
        """The k best items for a person who was not in training, from the items they liked.

        Items that the model does not know are left out with a warning; an empty history gives popular items.
        """
        known = self._history(history)
        found = self.top_for_history(
            known, k, exclude_seen=exclude_seen, items=self._given(items), exclude=self._barred(exclude)
        )
        return self._table(found)

    def top_for_users(
        self,
        user_idx: I64,
        k: int,
        *,
        exclude_seen: bool = True,
        items: I32 | None = None,
        exclude: I32 | None = None,
    ) -> TopK:
        """(len(user_idx), k) best items by internal index; lists that are too short end in -1."""
        scorer = _Scorer(self.name, self._parts(), self.score)
        user_idx = indices_of(user_idx, len(self.users), "user")
        candidates = self._candidates(items, exclude)
        k = min(self._checked(k), len(self.items))
        return top_k(scorer, user_idx, k, excluded=self.seen if exclude_seen else None, candidates=candidates)

    def top_for_history(
        self,
        item_idx: I32,
        k: int,
        *,
        exclude_seen: bool = True,
        items: I32 | None = None,
        exclude: I32 | None = None,
    ) -> TopK:
        """(1, k) best items for a new person with this history, by internal index."""
        n, known = len(self.items), np.unique(self._item_indices(item_idx))
        own = Csr(np.array([0, len(known)], dtype=np.int64), known, (1, n)) if exclude_seen else None
        candidates = self._candidates(items, exclude)
        k = min(self._checked(k), n)
        vector, parts = self._fold_in(known), self._parts()
        if vector is not None and parts is not None:
            one = Factors(vector[None, :], parts.items, parts.item_bias)
            return top_k(_Scorer(self.name, one, self.score), [0], k, excluded=own, candidates=candidates)
        scores = self._scores_of(known)
        return top_k_of_scores(scores[None, :], k, excluded=own, candidates=candidates, name=self.name)

    def score_history(self, item_idx: I32) -> F32:
        """(n_items,) scores for a new person with this history, each item once, by internal index."""
        return self._scores_of(self._item_indices(item_idx))

    def _scores_of(self, item_idx: I32) -> F32:
        if not len(item_idx):
            return self.popularity()
        vector = self._fold_in(item_idx)
        if vector is None:
            return self._score_history(item_idx)
        parts = self._vectors()
        scores: F32 = parts.items @ vector
        return scores if parts.item_bias is None else scores + parts.item_bias

    def popularity(self) -> F32:
        """(n_items,) how many positives each item had in training."""
        return self._once("popularity", lambda: self.seen.item_counts.astype(np.float32))

    # ------------------------------------------------------------------ similar items

    def similar_items(self, item: Id, k: int = 10) -> pl.DataFrame:
        """The k items nearest to one: a table of item, score, rank (and label).

        By the cosine of their vectors; by the model's own weights between items, where it has such; else by the
        cosine of who liked them.
        """
        return self._table(self.top_similar(self.items.index(item), self._checked(k)))

    def top_similar(self, item_idx: int, k: int) -> TopK:
        """(1, k) by internal index."""
        item_idx = index_of(item_idx, len(self.items), "item")
        near = self._similarity(item_idx)
        k = max(1, min(self._checked(k), len(near) - 1))
        itself = Csr(np.array([0, 1], dtype=np.int64), np.array([item_idx], dtype=np.int32), (1, len(near)))
        return top_k_of_scores(near[None, :], k, excluded=itself, name=self.name)

    def _similarity(self, item_idx: int) -> F32:
        """(n_items,)"""
        own = self._item_weights(item_idx)
        if own is not None:
            return own
        parts = self._parts()
        # With one dimension or none (popularity), every cosine is 1, -1 or 0: who liked what says more.
        if parts is None or parts.items.shape[1] < 2:
            return self._common(item_idx)
        vectors = self._once("directions", lambda: _directions(parts.items))
        near: F32 = vectors @ vectors[item_idx]
        return near

    def _common(self, item_idx: int) -> F32:
        """(n_items,) cosine between the sets of people who liked them."""
        by_item = self._once("fans", lambda: self.seen.to_scipy().T.tocsr())
        shared = (by_item[[item_idx]] @ by_item.T).toarray()[0]
        size = np.maximum(self.popularity(), 1)
        near: F32 = (shared / np.sqrt(size * size[item_idx])).astype(np.float32)
        return near

    # ------------------------------------------------------------------ reasons

    def explain(self, user: Id, item: Id, k: int = 5) -> Explanation:
        """Which of a person's own items carry the score of another most; see `purerec.models.contract.explaining`."""
        who = self.users.index(user)
        target = self.items.index(item)
        parts = self._parts()
        person = Person(self.seen.row(who), who, None if parts is None else parts.users[who])
        return self._explanation(person, target, k)

    def explain_for(self, history: Iterable[Id] | Id, item: Id, k: int = 5) -> Explanation:
        """The same for a person who was not in training."""
        return self.explain_history(self._history(history), self.items.index(item), k)

    def explain_history(self, item_idx: I32, target_idx: int, k: int = 5) -> Explanation:
        """The same by internal index; the history has each item once."""
        known, target = self._item_indices(item_idx), index_of(target_idx, len(self.items), "item")
        return self._explanation(Person(known, None, self._fold_in(known)), target, k)

    def _explanation(self, person: Person, target: int, k: int) -> Explanation:
        own, score = person.item_idx, self._score_of(person, target)
        shares: F32 | None = np.zeros(0, dtype=np.float32)
        if len(own):
            shares = self._shares(person, target)
            if shares is None and (parts := self._parts_of(person)) is not None:
                shares = parts @ self._vectors().items[target]
        exact = shares is not None
        if shares is None:
            shares = self._similarity(target)[own]
        return explanation(self.items, self.labels, target, score, own, shares, self._checked(k), exact=exact)

    def _score_of(self, person: Person, target: int) -> float:
        """The score that a list would show."""
        if person.vector is not None:
            vectors = self._vectors()
            bias = 0.0 if vectors.item_bias is None else float(vectors.item_bias[target])
            return float(vectors.items[target] @ person.vector) + bias
        if person.user_idx is not None:
            return float(self._score(np.array([person.user_idx]))[0, target])
        return float(self._scores_of(person.item_idx)[target])

    def _parts_of(self, person: Person) -> F32 | None:
        """(n, dim) what own items add to the person's vector. Remembered for the last one asked about, since reasons
        are wanted for a whole list."""
        folding = self._once("folding", self._folding)
        if folding is None or person.vector is None:
            return None
        key = person.item_idx.tobytes(), person.vector.tobytes()
        last = self._made.get("parts")
        if last is None or last[0] != key:
            with _computable(self.name):
                last = self._made["parts"] = key, folding.parts(person.item_idx, person.vector)
        found: F32 | None = last[1]
        return found

    # ------------------------------------------------------------------ ids at the door, tables on the way out

    def _checked(self, k: int) -> int:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ConfigError(f"k must be at least 1, not {k!r}")
        return int(k)

    def _given(self, items: Iterable[Id] | None) -> I32 | None:
        return None if items is None else self.items.indices(_listed(items))

    def _barred(self, items: Iterable[Id] | None) -> I32 | None:
        if items is None:
            return None
        return np.array([i for item in _listed(items) if (i := self.items.find(item)) is not None], dtype=np.int32)

    def _history(self, history: Iterable[Id] | Id) -> I32:
        """Internal indices of a history, each once; items that nobody knows are told."""
        asked = _listed(history)
        found = [self.items.find(item) for item in asked]
        unknown = [item for item, idx in zip(asked, found, strict=True) if idx is None]
        if unknown:
            more = f" and {len(unknown) - 10:,} more" if len(unknown) > 10 else ""
            names = ", ".join(map(repr, unknown[:10])) + more
            warnings.warn(f"not in training, left out of the history: {names}", stacklevel=3)
        return np.array(sorted({idx for idx in found if idx is not None}), dtype=np.int32)

    def _item_indices(self, given: npt.ArrayLike) -> I32:
        return indices_of(given, len(self.items), "item").astype(np.int32)

    def _candidates(self, items: I32 | None, exclude: I32 | None) -> I32 | None:
        """What may be in a list: None for everything."""
        only = None if items is None else self._item_indices(items)
        barred = np.zeros(0, dtype=np.int32) if exclude is None else self._item_indices(exclude)
        if not len(barred):
            return only
        allowed = np.zeros(len(self.items), dtype=np.bool_)
        allowed[slice(None) if only is None else only] = True
        allowed[barred] = False
        return np.flatnonzero(allowed).astype(np.int32)

    def _table(self, found: TopK, *, user: pl.Series | None = None) -> pl.DataFrame:
        n, k = found.items.shape
        flat = found.items.ravel()
        there = flat >= 0
        whole = bool(there.all())
        kept = flat if whole else flat[there]
        columns: dict[str, Any] = {} if user is None else {"user": user if whole else user.filter(there)}
        columns["item"] = self.items.take(kept)
        if self.labels is not None:
            columns["label"] = self.labels.gather(kept)
        columns["score"] = found.scores.ravel()[there]
        columns["rank"] = np.tile(np.arange(1, k + 1, dtype=np.int32), n)[there]
        return pl.DataFrame(columns)

    # ------------------------------------------------------------------ what is made once

    def _parts(self) -> Factors | None:
        return self._once("factors", self.factors)

    def _vectors(self) -> Factors:
        parts = self._parts()
        assert parts is not None, "a person has a vector only in a model of factors"
        return parts

    def fold_in(self, item_idx: I32) -> F32 | None:
        """(dim,) the vector of a new person; None without one, or without a history."""
        return self._fold_in(self._item_indices(item_idx))

    def _fold_in(self, item_idx: I32) -> F32 | None:
        folding = self._once("folding", self._folding) if len(item_idx) else None
        with _computable(self.name):
            return None if folding is None else folding.vector(item_idx)

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Something that depends on the fitted state only. Two threads at worst make it twice."""
        if name not in self._made:
            self._made[name] = make()
        return cast("T", self._made[name])


@dataclass(frozen=True)
class _Scorer:
    """A model as ranking wants it, with factors that were made before."""

    name: str
    parts: Factors | None
    score: Callable[[Any], F32]

    def factors(self) -> Factors | None:
        return self.parts


@contextmanager
def _computable(name: str) -> Iterator[None]:
    """Parameters that ran away, or come from a folder that makes no sense, may have no solution."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ScoreError(f"{name} has parameters that cannot be computed with ({error}); fit it again") from None


def _listed(ids: Iterable[Id] | Id) -> list[Id]:
    if isinstance(ids, str | int | np.integer):
        return [ids]
    if not isinstance(ids, Iterable):
        raise DataError(f"ids are integers or text, or a list of them, not {ids!r}")
    return list(ids)


def _directions(vectors: F32) -> F32:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(length, np.float32(1e-12)), dtype=np.float32)
