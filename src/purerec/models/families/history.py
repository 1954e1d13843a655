"""The history's part of a score: what a person touched, through item-to-item weights in closed form.

    score(u, i) = phi(u, i) + sum of S[j, i] over the items j of u

S is scaled so that its part spreads `weight` times as far over the items as phi does. The best weight differs much
between logs, from a twentieth where embeddings do well to more than one where they do not. So it is chosen: some
pairs are held out of the first epochs, and the weight that ranks them best is taken. The last epochs have all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from purerec.data.interactions import Csr
from purerec.engines.closed_form import ItemWeights
from purerec.engines.pure.spec import GameSettings
from purerec.evaluation.metrics import parse
from purerec.models.families.discriminator import DiscriminatorGame, DiscriminatorModel
from purerec.ranking.ranks import ranks
from purerec.ranking.scorers import Factors
from purerec.rng import named_rng
from purerec.types import F32, I64, State

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
USUAL_WEIGHT = 0.1
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
_WEIGHT = "history_weight"
_NOT_CHOSEN = -1.0
"""In a state, which has the same arrays before and after the choice: a checkpoint with others would be refused"""
_SAMPLE = 256
"""People whose scores tell how far each part spreads"""


def hold_out(positives: Csr, seed: int) -> tuple[Csr, Csr] | None:
    """The positives without a tenth of those of some people, and that tenth; None if too few people have enough."""
    rng = named_rng(seed, "history")
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
    """How many pairs of people with so many are held out."""
    return np.maximum(1, np.round(_HELD_OUT * sizes)).astype(np.int64)


def scaled(history: ItemWeights, embeddings: Factors, positives: Csr, weight: float) -> ItemWeights:
    """The weights, such that the history's part spreads `weight` times as far as the embeddings' part."""
    active = np.flatnonzero(positives.counts)
    some = active[np.linspace(0, len(active) - 1, min(len(active), _SAMPLE)).astype(np.int64)]
    spread = float(_scores(embeddings, some).std(axis=1).mean())
    now = float(history.scores(positives, some).std(axis=1).mean())
    return history.scaled(weight * spread / now) if now > 0 else history


def best_weight(history: ItemWeights, embeddings: Factors, kept: Csr, asked: Csr) -> float:
    """The weight with which the pairs held out are ranked best, or one as good that is nearer to the usual one.

    As good: the mean over people is no more than one standard error (of the paired difference) behind the best.
    """
    found = {}
    for weight in WEIGHTS:
        both = _Both(embeddings, scaled(history, embeddings, kept, weight), kept)
        places = ranks(both, asked, excluded=kept)
        found[weight] = _METRIC.of_ranks(places.values, places.indptr)
    best = max(WEIGHTS, key=lambda weight: float(found[weight].mean()))

    def is_as_good(weight: float) -> bool:
        behind = found[best] - found[weight]
        return float(behind.mean()) <= float(behind.std()) / math.sqrt(len(behind))

    return min((w for w in WEIGHTS if is_as_good(w)), key=lambda w: abs(math.log((w + 0.01) / (USUAL_WEIGHT + 0.01))))


class HeldOutGame(DiscriminatorGame):
    """A game whose first epochs leave some pairs out."""

    def __init__(
        self,
        model: DiscriminatorModel,
        positives: Csr,
        settings: GameSettings,
        seed: int,
        parts: tuple[Csr, Csr],
        tell: Callable[[float], None],
    ) -> None:
        """`tell` is called with the weight when it is chosen, or found in a checkpoint."""
        kept, self.held_out = parts
        self._all, self._tell = positives, tell
        self.weight: float | None = None
        """Of the history, once it is chosen"""
        super().__init__(model, kept, settings, seed, None)

    def have_all(self, weight: float) -> None:
        """All pairs from here on, with this weight of the history."""
        state = self.engine.state()
        self.positives, self.weight = self._all, weight
        self._tell(weight)
        self.engine = self.new_engine(None, self.seed)
        self.engine.restore(state)

    def state(self) -> State:
        return super().state() | {_WEIGHT: np.array([_NOT_CHOSEN if self.weight is None else self.weight])}

    def restore(self, state: State, number: int) -> None:
        super().restore({name: array for name, array in state.items() if name != _WEIGHT}, number)
        weight = float(state[_WEIGHT][0])
        if weight != _NOT_CHOSEN and self.weight is None:
            self.have_all(weight)


@dataclass(frozen=True)
class _Both:
    embeddings: Factors
    history: ItemWeights
    seen: Csr
    name: str = "pure"

    def factors(self) -> Factors | None:
        return None

    def score(self, user_idx: I64, /) -> F32:
        return _scores(self.embeddings, user_idx) + self.history.scores(self.seen, user_idx)


def _scores(embeddings: Factors, user_idx: I64) -> F32:
    scores: F32 = embeddings.users[user_idx] @ embeddings.items.T
    return scores if embeddings.item_bias is None else scores + embeddings.item_bias
