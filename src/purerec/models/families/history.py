"""The history's part of a score: what a person touched, through item-to-item weights in closed form.

    score(u, i) = phi(u, i) + sum of S[j, i] over the items j of u

S is scaled so that the spread of its part over the items is `weight` times that of phi. The best weight varies widely
between logs, from a twentieth where embeddings do well to more than one where they do not, and so does the best L2 of
S. Both are therefore chosen from the data: some pairs are held out of the first epochs, and the form that ranks them
best is used. The last epochs train on all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from purerec.data.interactions import Csr
from purerec.engines.closed_form import ItemWeights
from purerec.engines.pure.spec import GameSettings
from purerec.evaluation.metrics import parse
from purerec.models.families.discriminator import DiscriminatorGame, DiscriminatorModel
from purerec.ranking.mixtures import ranks_of_mixtures
from purerec.ranking.scorers import Factors
from purerec.storage import Digests
from purerec.types import F32, I64, State

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
REGULARIZATIONS = (2.5, 10.0)
USUAL_WEIGHT, USUAL_REGULARIZATION = 0.1, 10.0
"""Of forms that are equally good, the closest to this one is chosen"""
_WEIGHT_WITH_FEW_PEOPLE = 0.8
"""Where there are too few people to choose by: they are also too few for good embeddings"""
_METRIC = parse("NDCG@100")
"""Not limited to the first places: the more pairs count, the less the choice depends on chance."""
_PEOPLE = 0.2
"""Share of people who have pairs held out"""
_MOST_PAIRS = 0.02
"""Most pairs held out, as a share of all: the fit hardly misses them. Beyond that, fewer people are asked"""
_MOST_PEOPLE = 3_000
_FEWEST_PEOPLE = 100
"""Fewer choose worse than a fixed weight does"""
_FEWEST_OWN = 3
_HELD_OUT = 0.1
_PANEL_SCORES = 1 << 22
"""Scores of one part held in memory at once while the form is chosen: 16 MB"""
_FORM = "history_form"
_NOT_CHOSEN = -1.0
"""Marks 'not chosen yet' in a state, whose arrays must be the same before and after the choice"""
_SAMPLE = 256
"""People whose scores are used to measure the spread of each part"""


def usual_weight(positives: Csr) -> float:
    """The weight where none is chosen."""
    able = _able(positives)
    held_each = _held_each(positives.counts[able]).mean() if len(able) else 1.0
    people = min(_PEOPLE * len(able), _MOST_PAIRS * len(positives) / held_each)
    return USUAL_WEIGHT if people >= _FEWEST_PEOPLE else _WEIGHT_WITH_FEW_PEOPLE


def hold_out(positives: Csr, rng: np.random.Generator) -> tuple[Csr, Csr] | None:
    """Split off a tenth of some people's positives; returns the rest and the tenth, None if too few have enough."""
    able = _able(positives)
    n = min(round(_PEOPLE * len(able)), _MOST_PEOPLE)
    people = rng.permutation(able)[:n]
    taken = np.cumsum(_held_each(positives.counts[people]))
    people = np.sort(people[taken <= _MOST_PAIRS * len(positives)])
    if len(people) < _FEWEST_PEOPLE:
        return None
    is_asked = np.zeros(positives.shape[0], dtype=bool)
    is_asked[people] = True
    own = np.flatnonzero(is_asked[positives.users])
    order = own[np.lexsort((rng.random(len(own)), positives.users[own]))]
    sizes = positives.counts[people]
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_held = place < np.repeat(_held_each(sizes), sizes)
    held = np.zeros(len(positives), dtype=bool)
    held[order[is_held]] = True
    kept, asked = (
        Csr.of(positives.users[which], positives.indices[which], positives.shape) for which in (~held, held)
    )
    return kept, asked


def _able(positives: Csr) -> I64:
    """People with positives to spare."""
    return np.flatnonzero(positives.counts >= _FEWEST_OWN)


def _held_each(sizes: I64) -> I64:
    """How many pairs are held out of people with this many."""
    return np.maximum(1, np.round(_HELD_OUT * sizes)).astype(np.int64)


def scaled(history: ItemWeights, embeddings: Factors, positives: Csr, weight: float) -> ItemWeights:
    """The weights, scaled so that the spread of the history's part is `weight` times that of the embeddings' part."""
    return history.scaled(weight * _balance(history, embeddings, positives))


def _balance(history: ItemWeights, embeddings: Factors, positives: Csr) -> float:
    """The factor that gives the history's part the same spread as the embeddings' part."""
    active = np.flatnonzero(positives.counts)
    some = active[np.linspace(0, len(active) - 1, min(len(active), _SAMPLE)).astype(np.int64)]
    spread = float(_scores(embeddings, some).std(axis=1).mean())
    now = float(history.scores(positives, some).std(axis=1).mean())
    return spread / now if now > 0 else 1.0


class Chosen(NamedTuple):
    """What is chosen by the held-out pairs."""

    weight: float
    regularization: float


def best_form(histories: Mapping[float, ItemWeights], embeddings: Factors, kept: Csr, asked: Csr) -> Chosen:
    """The form that ranks the held-out pairs best, or an equally good one that is closer to the usual form.

    `histories`: item weights by their regularization. Equally good: the mean over people is within one standard error
    (of the paired difference) of the best.
    """
    places = {regularization: np.empty((len(WEIGHTS), len(asked)), dtype=np.int32) for regularization in histories}
    balance = {key: _balance(history, embeddings, kept) for key, history in histories.items()}
    people = np.flatnonzero(asked.counts)
    step = max(1, _PANEL_SCORES // asked.shape[1])
    for at in range(0, len(people), step):
        some = people[at : at + step]
        vectors = _scores(embeddings, some)
        seen, wanted = _of(kept, some), _of(asked, some)
        vectors[seen.users, seen.indices] = -np.inf
        part = slice(asked.indptr[some[0]], asked.indptr[some[-1] + 1])
        for key, history in histories.items():
            weights = [weight * balance[key] for weight in WEIGHTS]
            places[key][:, part] = ranks_of_mixtures(vectors, history.scores(kept, some), weights, wanted)
    starts = np.append(asked.indptr[people], len(asked))
    found = {
        Chosen(weight, key): _METRIC.of_ranks(ranks, starts)
        for key in histories
        for weight, ranks in zip(WEIGHTS, places[key], strict=True)
    }
    best = max(found, key=lambda form: float(found[form].mean()))

    def is_as_good(form: Chosen) -> bool:
        behind = found[best] - found[form]
        return float(behind.mean()) <= float(behind.std()) / math.sqrt(len(behind))

    def distance(form: Chosen) -> tuple[float, float]:
        apart = math.log((form.weight + 0.01) / (USUAL_WEIGHT + 0.01))
        return abs(math.log(form.regularization / USUAL_REGULARIZATION)), abs(apart)

    return min(filter(is_as_good, found), key=distance)


class HeldOutGame(DiscriminatorGame):
    """A game whose first epochs leave some pairs out."""

    def __init__(
        self,
        model: DiscriminatorModel,
        positives: Csr,
        settings: GameSettings,
        seed: int,
        parts: tuple[Csr, Csr],
        tell: Callable[[Chosen], None],
    ) -> None:
        """`tell` is called with the form of the history once it is chosen or read from a checkpoint."""
        kept, self.held_out = parts
        self._all, self._tell = positives, tell
        self.chosen: Chosen | None = None
        super().__init__(model, kept, settings, seed, None)

    def have_all(self, chosen: Chosen) -> None:
        """Train on all pairs from now on, with this form of the history."""
        state = self.engine.state()
        self._begin_again(chosen)
        self.engine.restore(state)

    def _begin_again(self, chosen: Chosen) -> None:
        """Switch to an engine for all pairs, at its random start."""
        self.positives, self.chosen = self._all, chosen
        self._tell(chosen)
        self.engine = self.new_engine(None, self.seed)

    def state(self) -> State:
        return super().state() | self._form()

    def _form(self) -> State:
        return {_FORM: np.array(self.chosen or (_NOT_CHOSEN, _NOT_CHOSEN))}

    def write_parts(self, folder: Path, generation: int) -> tuple[State, Digests]:
        rest, parts = super().write_parts(folder, generation)
        return rest | self._form(), parts

    def restore_parts(self, rest: State, folder: Path, parts: Digests, number: int) -> None:
        chosen = Chosen(*map(float, rest[_FORM]))
        if chosen.weight != _NOT_CHOSEN and self.chosen is None:
            self._begin_again(chosen)
        super().restore_parts({name: array for name, array in rest.items() if name != _FORM}, folder, parts, number)

    def restore(self, state: State, number: int) -> None:
        super().restore({name: array for name, array in state.items() if name != _FORM}, number)
        chosen = Chosen(*map(float, state[_FORM]))
        if chosen.weight != _NOT_CHOSEN and self.chosen is None:
            self.have_all(chosen)


def _of(pairs: Csr, user_idx: I64) -> Csr:
    """The pairs of these users, renumbered 0, 1, ..."""
    sizes = pairs.counts[user_idx]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    at = np.arange(indptr[-1]) + np.repeat(pairs.indptr[user_idx] - indptr[:-1], sizes)
    return Csr(indptr, pairs.indices[at], (len(user_idx), pairs.shape[1]))


def _scores(embeddings: Factors, user_idx: I64) -> F32:
    scores: F32 = embeddings.users[user_idx] @ embeddings.items.T
    return scores if embeddings.item_bias is None else scores + embeddings.item_bias
