"""The history's part of a score: what a person touched, through item-to-item weights in closed form.

    score(u, i) = phi(u, i) + sum of S[j, i] over the items j of u

S is scaled so that its part spreads `weight` times as far over the items as phi does. The best weight differs much
between logs, from a twentieth where embeddings do well to more than one where they do not, and so does the best L2
of S. So they are chosen: some pairs are held out of the first epochs, and the form that ranks them best is taken. The
last epochs have all pairs.
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
"""Where there is too little to choose by"""
_METRIC = parse("NDCG@100")
"""Not only of the first places: the more pairs count, the less is left to chance."""
_PEOPLE = 0.2
"""Share of people who have pairs held out"""
_MOST_PAIRS = 0.02
"""Share of pairs that are held out, which the fit hardly misses; with few pairs each, of fewer people"""
_MOST_PEOPLE = 3_000
_FEWEST_PEOPLE = 50
_FEWEST_OWN = 3
_HELD_OUT = 0.1
_PANEL_SCORES = 1 << 22
"""Scores of one part that are held at once when the form is chosen: 16 MB"""
_FORM = "history_form"
_NOT_CHOSEN = -1.0
"""In a state, which has the same arrays before and after the choice: a checkpoint with others would be refused"""
_SAMPLE = 256
"""People whose scores tell how far each part spreads"""


def hold_out(positives: Csr, rng: np.random.Generator) -> tuple[Csr, Csr] | None:
    """The positives without a tenth of those of some people, and that tenth; None if too few people have enough."""
    able = np.flatnonzero(positives.counts >= _FEWEST_OWN)
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


def _held_each(sizes: I64) -> I64:
    """How many pairs are held out of people with this many."""
    return np.maximum(1, np.round(_HELD_OUT * sizes)).astype(np.int64)


def scaled(history: ItemWeights, embeddings: Factors, positives: Csr, weight: float) -> ItemWeights:
    """The weights, such that the history's part spreads `weight` times as far as the embeddings' part."""
    return history.scaled(weight * _balance(history, embeddings, positives))


def _balance(history: ItemWeights, embeddings: Factors, positives: Csr) -> float:
    """The factor with which the history's part spreads as far as the embeddings' part."""
    active = np.flatnonzero(positives.counts)
    some = active[np.linspace(0, len(active) - 1, min(len(active), _SAMPLE)).astype(np.int64)]
    spread = float(_scores(embeddings, some).std(axis=1).mean())
    now = float(history.scores(positives, some).std(axis=1).mean())
    return spread / now if now > 0 else 1.0


class Chosen(NamedTuple):
    """What the pairs held out decide."""

    weight: float
    regularization: float


def best_form(histories: Mapping[float, ItemWeights], embeddings: Factors, kept: Csr, asked: Csr) -> Chosen:
    """The form with which the pairs held out are ranked best, or one as good that is nearer to the usual one.

    `histories`: item weights by their regularization. As good: the mean over people is no more than one standard
    error (of the paired difference) behind the best.
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
        """`tell` is called with the form of the history when it is chosen, or found in a checkpoint."""
        kept, self.held_out = parts
        self._all, self._tell = positives, tell
        self.chosen: Chosen | None = None
        super().__init__(model, kept, settings, seed, None)

    def have_all(self, chosen: Chosen) -> None:
        """All pairs from here on, with this form of the history."""
        state = self.engine.state()
        self._begin_again(chosen)
        self.engine.restore(state)

    def _begin_again(self, chosen: Chosen) -> None:
        """An engine for all pairs, at its random start."""
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
    """The pairs of these users, who become users 0, 1, ..."""
    sizes = pairs.counts[user_idx]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    at = np.arange(indptr[-1]) + np.repeat(pairs.indptr[user_idx] - indptr[:-1], sizes)
    return Csr(indptr, pairs.indices[at], (len(user_idx), pairs.shape[1]))


def _scores(embeddings: Factors, user_idx: I64) -> F32:
    scores: F32 = embeddings.users[user_idx] @ embeddings.items.T
    return scores if embeddings.item_bias is None else scores + embeddings.item_bias
