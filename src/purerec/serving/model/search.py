"""Search for items by the words of their title or the start of their id, and for people by the start of their id.

Titles and queries are compared as words, ignoring case, accents and punctuation. Every word of the query must start a
word of the title. If there are no titles, ids that are text take their place. No pattern from the caller is ever
compiled: words are matched literally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.data.vocabulary import Vocabulary
from purerec.types import F32, I64

_WORDS_OF_QUERY = 16


@dataclass(frozen=True)
class Found:
    """The first matches, best first, and the total number."""

    idx: I64
    total: int


class ItemSearch:
    """Finds items; built once for each model."""

    def __init__(self, items: Vocabulary, labels: pl.Series | None, popularity: F32) -> None:
        self._ids = items.ids.cast(pl.String)
        # Ids that are names are searched by their words, like titles.
        named = labels if labels is not None else items.ids if items.ids.dtype == pl.String else None
        self._titles = None if named is None else plain_words(named)
        # The order without a query; a stable sort keeps the order of the vocabulary among ties.
        self._by_popularity = np.argsort(-popularity, kind="stable")
        self._standing = np.empty(len(popularity), dtype=np.int64)
        self._standing[self._by_popularity] = np.arange(len(popularity))

    def find(self, query: str, limit: int) -> Found:
        """An exact id, then titles equal to the query, titles that start with it, and others; popular ones first."""
        query = query.strip()
        if not query:
            return Found(self._by_popularity[:limit].astype(np.int64), len(self._standing))
        by_id = _mask(self._ids.str.starts_with(query))
        # Lower is better.
        place = np.where(_mask(self._ids == query), 0, 4)
        matched = by_id
        words = plain_words(pl.Series([query]))[0].split()[:_WORDS_OF_QUERY]
        if self._titles is not None and words:
            by_words = np.ones(len(self._ids), dtype=np.bool_)
            for word in dict.fromkeys(words):
                by_words &= _mask(self._titles.str.contains(f" {word}", literal=True))
            begins = _mask(self._titles.str.starts_with(" " + " ".join(words))) & by_words
            equal = begins & _mask(self._titles == " " + " ".join(words))
            for better, those in ((3, by_words), (2, begins), (1, equal)):
                place = np.where(those & (place > better), better, place)
            matched = by_id | by_words
        rows = np.flatnonzero(matched)
        key = place[rows] * len(self._standing) + self._standing[rows]
        best = np.argpartition(key, limit)[:limit] if len(rows) > limit else np.arange(len(rows))
        return Found(rows[best[np.argsort(key[best])]].astype(np.int64), len(rows))


class UserSearch:
    """Finds people by the start of their id."""

    def __init__(self, users: Vocabulary) -> None:
        self._ids = users.ids.cast(pl.String)

    def find(self, query: str, limit: int) -> list[str]:
        """Ids that start with the query: the id itself first, then shorter ones before longer ones."""
        query = query.strip()
        matched = self._ids if not query else self._ids.filter(self._ids.str.starts_with(query))
        if not query:
            return [str(i) for i in matched.head(limit).to_list()]
        order = pl.DataFrame({"id": matched, "length": matched.str.len_bytes()}).sort("length", "id")
        return [str(i) for i in order["id"].head(limit).to_list()]


def plain_words(texts: pl.Series) -> pl.Series:
    """Each text as lower-case words without accents, a space before each: ' star wars 1977'."""
    return (
        texts.cast(pl.String)
        .fill_null("")
        .str.normalize("NFKD")
        .str.replace_all(r"\p{M}+", "")
        .str.to_lowercase()
        .str.replace_all(r"[^\p{L}\p{N}]+", " ")
        .str.strip_chars(" ")
        .str.replace(r"^", " ")
    )


def _mask(rows: Any) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = rows.fill_null(False).to_numpy()
    return found
