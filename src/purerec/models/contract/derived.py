"""What is computed from a fitted model on first use and kept until the next fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from purerec.errors import ScoreError
from purerec.models.contract.foldin import Folding
from purerec.models.contract.lift import Level, level_of
from purerec.ranking.scorers import Factors
from purerec.types import F32, I32

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender


_PROJECTIONS, _AT_ONCE = 64, 8


class Derived:
    """Values computed on first use; at worst, two threads compute the same one."""

    def __init__(self, model: Recommender) -> None:
        self._model = model
        self._last_parts: tuple[tuple[bytes, bytes], F32 | None] | None = None

    @cached_property
    def factors(self) -> Factors | None:
        """User vectors, item vectors and item bias, of a dot-product model."""
        return self._model.factors()

    @cached_property
    def popularity(self) -> F32:
        """(n_items,) how many positives each item had in training"""
        return self._model.seen.item_counts.astype(np.float32)

    @cached_property
    def directions(self) -> F32:
        """(n_items, dim) the items' vectors, scaled to unit length"""
        return _unit(self.vectors.items)

    @property
    def has_vectors(self) -> bool:
        """False with one dimension or none (popularity): every cosine is 1, -1 or 0, and who liked what says more."""
        return self.vector_part is not None and self.vector_part.items.shape[1] >= 2

    @cached_property
    def profiles(self) -> F32:
        """(n_items, dim) unit vectors: the items' own, or random projections of who liked them, whose products
        approximate their cosines"""
        if self.has_vectors:
            return self.directions
        return _unit(_projected(self.fans, np.random.default_rng(0)))

    @cached_property
    def level(self) -> Level:
        """How well items score with everybody"""
        return level_of(self._model)

    @cached_property
    def fans(self) -> Any:
        """(n_items, n_users) sparse: who liked what"""
        return self._model.seen.to_scipy().T.tocsr()

    @cached_property
    def _folding(self) -> Folding | None:
        return self._model._folding()

    @cached_property
    def vector_part(self) -> Factors | None:
        """The part of the score that is a dot product: all of it, or all but the history's part."""
        return self._model._vector_part()

    @property
    def vectors(self) -> Factors:
        """The vector part of a model that must have one."""
        assert self.vector_part is not None, "a person has a vector only in a model of factors"
        return self.vector_part

    def vector_of(self, history: I32) -> F32 | None:
        """(dim,) the vector of a new person; None without one, or without a history."""
        if not len(history) or self._folding is None:
            return None
        with self._computable():
            return self._folding.vector(history)

    def parts_of(self, history: I32, vector: F32 | None) -> F32 | None:
        """(len(history), dim) what own items add to a person's vector, if that is defined; None without a history.

        Cached for the last person, since reasons are computed for a whole list.
        """
        if not len(history) or self._folding is None or vector is None:
            return None
        key = history.tobytes(), vector.tobytes()
        last = self._last_parts
        if last is None or last[0] != key:
            with self._computable():
                last = self._last_parts = key, self._folding.parts(history, vector)
        return last[1]

    @contextmanager
    def _computable(self) -> Iterator[None]:
        """Diverged or inconsistent parameters may have no solution; report them as a `ScoreError`."""
        try:
            yield
        except np.linalg.LinAlgError as error:
            name = self._model.name
            raise ScoreError(f"{name} has unusable parameters ({error}); fit it again") from None


def derived_of(model: Recommender, last: Derived | None) -> Derived:
    """The last one, unless it is of another model: a copy must not follow what it was copied from."""
    return last if last is not None and last._model is model else Derived(model)


def _projected(rows: Any, rng: np.random.Generator) -> F32:
    """(len(rows), _PROJECTIONS) random projections of sparse rows, a few at a time."""
    width, parts = rows.shape[1], range(0, _PROJECTIONS, _AT_ONCE)
    return np.concatenate([rows @ rng.standard_normal((width, _AT_ONCE), dtype=np.float32) for _ in parts], axis=1)


def _unit(vectors: F32) -> F32:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(length, np.float32(1e-12)), dtype=np.float32)
