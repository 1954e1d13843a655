"""Pairs held out of the first epochs of a fit, on which the form of the score is chosen.

    score(u, i) = phi(u, i) + sum of S[j, i] over the items j of u

phi has as many dimensions as the log supports: those that only learned noise make the ranking of the held-out pairs
worse, and are dropped. S (PURE's history) is scaled so that the spread of its part over the items is `weight` times
that of phi. The best weight varies widely between logs, from a twentieth where embeddings do well to more than one
where they do not, and so does the best L2 of S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.closed_form import ItemWeights
from purerec.evaluation.metrics import parse
from purerec.models.families.scorers import Narrowing
from purerec.ranking.mixtures import ranks_of_mixtures
from purerec.ranking.scorers import Factors
from purerec.types import F32, F64, I64

WIDTHS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Widths that the embeddings may be narrowed to"""
WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
REGULARIZATIONS = (2.5, 10.0)
DEFAULT_WEIGHT, DEFAULT_REGULARIZATION = 0.1, 10.0
"""Among equally good forms, the closest to this one is chosen"""
_AS_GOOD = 5.0
"""How far a form may trail the best, summed over people, in standard deviations of the paired difference. With fewer
people, that is more standard errors, and the default form is preferred more"""
_METRIC = parse("NDCG@100")
"""Not limited to the first places: the more pairs count, the less the choice depends on chance."""
_PEOPLE = 0.2
"""Share of people who have pairs held out"""
_MOST_PAIRS = 0.05
"""Most pairs held out, as a share of all: the fit hardly misses them. Beyond that, fewer people are used"""
_MOST_PEOPLE = 3_000
_FEWEST_PEOPLE = 100
"""With fewer, a fixed form does better"""
_FEWEST_OWN = 3
_HELD_OUT = 0.1
_PANEL_SCORES = 1 << 22
"""Scores of one part held in memory at once while the form is chosen: 16 MB"""
_SAMPLE = 256
"""People whose scores are used to measure the spread of each part"""
_Key = TypeVar("_Key")


class Form(NamedTuple):
    """What is chosen on the held-out pairs."""

    width: int
    weight: float
    regularization: float


def can_hold_out(positives: Csr) -> bool:
    """Whether there are enough people to choose by; near the limit, it depends on who is drawn."""
    able = _able(positives)
    held_each = _held_each(positives.counts[able]).mean() if len(able) else 1.0
    people = min(round(_PEOPLE * len(able)), _MOST_PAIRS * len(positives) / held_each)
    return bool(people >= _FEWEST_PEOPLE)


def hold_out(positives: Csr, rng: np.random.Generator) -> tuple[Csr, Csr] | None:
    """Split off a tenth of some people's positives; returns the rest and the tenth, None if too few have enough."""
    able = _able(positives)
    n = min(round(_PEOPLE * len(able)), _MOST_PEOPLE)
    people = rng.permutation(able)[:n]
    taken = np.cumsum(_held_each(positives.counts[people]))
    people = np.sort(people[taken <= _MOST_PAIRS * len(positives)])
    if len(people) < _FEWEST_PEOPLE:
        return None
    is_chosen = np.zeros(positives.shape[0], dtype=bool)
    is_chosen[people] = True
    own = np.flatnonzero(is_chosen[positives.users])
    order = own[np.lexsort((rng.random(len(own)), positives.users[own]))]
    sizes = positives.counts[people]
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_held = place < np.repeat(_held_each(sizes), sizes)
    held = np.zeros(len(positives), dtype=bool)
    held[order[is_held]] = True
    kept, held_out = (
        Csr.of(positives.users[which], positives.indices[which], positives.shape) for which in (~held, held)
    )
    return kept, held_out


def _able(positives: Csr) -> I64:
    """People with positives to spare."""
    return np.flatnonzero(positives.counts >= _FEWEST_OWN)


def _held_each(sizes: I64) -> I64:
    """How many pairs are held out of people with this many."""
    return np.maximum(1, np.round(_HELD_OUT * sizes)).astype(np.int64)


def balance(history: ItemWeights, embeddings: Factors, positives: Csr) -> float:
    """The factor that gives the history's part the same spread as the embeddings' part."""
    active = np.flatnonzero(positives.counts)
    some = active[np.linspace(0, len(active) - 1, min(len(active), _SAMPLE)).astype(np.int64)]
    spread = float(_scores(embeddings, some).std(axis=1).mean())
    now = float(history.scores(positives, some).std(axis=1).mean())
    return spread / now if now > 0 else 1.0


class HeldOutPairs:
    """The held-out pairs of one fit, and how well each form ranks them."""

    def __init__(self, kept: Csr, held_out: Csr) -> None:
        """`kept`: all other pairs."""
        self._kept, self._held_out = kept, held_out
        self._people = np.flatnonzero(held_out.counts)

    def best(
        self,
        embeddings: Factors,
        histories: Mapping[float, ItemWeights],
        weights: Sequence[float] = WEIGHTS,
        *,
        narrow: bool,
    ) -> Form:
        """The form that best ranks the pairs, or an equally good one that is closer to the default form.

        `histories`: item weights by their regularization; there may be none. The weight and the width are chosen one
        after the other, then the weight once more if the width has changed.
        """
        form = self._best_weight(embeddings, histories, weights)
        if not narrow:
            return form
        narrowing = Narrowing(embeddings.users, embeddings.items)
        widths = [width for width in WIDTHS if width < narrowing.rank]
        narrower = [narrowing.factors(width, embeddings.item_bias) for width in widths]
        chosen = {key: history for key, history in histories.items() if key == form.regularization}
        found = self._values([*narrower, embeddings], chosen, [form.weight])
        values = {width: value for (width, *_), value in found.items()}
        width = _closest(values, lambda width: -width)
        if width == form.width:
            return form
        return self._best_weight(narrower[widths.index(width)], histories, weights)

    def _best_weight(
        self, embeddings: Factors, histories: Mapping[float, ItemWeights], weights: Sequence[float]
    ) -> Form:
        return _closest(self._values([embeddings], histories, weights), _distance)

    def _values(
        self, variants: Sequence[Factors], histories: Mapping[float, ItemWeights], weights: Sequence[float]
    ) -> dict[Form, F64]:
        """The metric of each person under every form."""
        balances = {
            (n, key): balance(history, embeddings, self._kept)
            for n, embeddings in enumerate(variants)
            for key, history in histories.items()
        }
        keys, used = (list(histories), list(weights)) if histories else ([DEFAULT_REGULARIZATION], [0.0])
        places = np.empty((len(variants), len(keys), len(used), len(self._held_out)), dtype=np.int32)
        step = max(1, _PANEL_SCORES // self._held_out.shape[1])
        for at in range(0, len(self._people), step):
            some = self._people[at : at + step]
            seen, wanted = _of(self._kept, some), _of(self._held_out, some)
            part = slice(self._held_out.indptr[some[0]], self._held_out.indptr[some[-1] + 1])
            others = [histories[key].scores(self._kept, some) if histories else None for key in keys]
            for n, embeddings in enumerate(variants):
                vectors = _scores(embeddings, some)
                vectors[seen.users, seen.indices] = -np.inf
                for k, (key, other) in enumerate(zip(keys, others, strict=True)):
                    factors = [weight * balances.get((n, key), 0.0) for weight in used]
                    places[n, k, :, part] = ranks_of_mixtures(
                        vectors, np.zeros_like(vectors) if other is None else other, factors, wanted
                    )
        starts = np.append(self._held_out.indptr[self._people], len(self._held_out))
        return {
            Form(embeddings.users.shape[1], weight, key): _METRIC.of_ranks(places[n, k, w], starts)
            for n, embeddings in enumerate(variants)
            for k, key in enumerate(keys)
            for w, weight in enumerate(used)
        }


def _closest(values: Mapping[_Key, F64], distance: Callable[[_Key], Any]) -> _Key:
    """The closest of those that are as good as the best."""
    best = max(values.values(), key=lambda of: float(of.mean()))

    def is_as_good(key: _Key) -> bool:
        behind = best - values[key]
        return float(behind.sum()) <= _AS_GOOD * float(behind.std())

    return min(filter(is_as_good, values), key=distance)


def _distance(form: Form) -> tuple[float, float]:
    """Distance from the default form."""
    apart = math.log((form.weight + 0.01) / (DEFAULT_WEIGHT + 0.01))
    return abs(math.log(form.regularization / DEFAULT_REGULARIZATION)), abs(apart)


def _of(pairs: Csr, user_idx: I64) -> Csr:
    """The pairs of these users, renumbered 0, 1, ..."""
    sizes = pairs.counts[user_idx]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    at = np.arange(indptr[-1]) + np.repeat(pairs.indptr[user_idx] - indptr[:-1], sizes)
    return Csr(indptr, pairs.indices[at], (len(user_idx), pairs.shape[1]))


def _scores(embeddings: Factors, user_idx: I64) -> F32:
    scores: F32 = embeddings.users[user_idx] @ embeddings.items.T
    return scores if embeddings.item_bias is None else scores + embeddings.item_bias
