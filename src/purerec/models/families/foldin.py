"""The risk of a person who was not in training, for GMF, PU-GMF and PURE: the one they were trained with.

`nnpu` is treated as `pu`, from which it differs only for overfitted models, and hard negatives as uniform ones. The
unlabeled part is exact, over all items.

The softmax risk has no kernel of its own. It is the PU risk of a small prior with a bias for each person, and is
minimised as such, with a prior so small that nothing depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.foldin import pointwise as kernels
from purerec.engines.pure.spec import GameSettings, Params
from purerec.models.contract.foldin import sigmoid
from purerec.paper.risks import LogisticRisk, SoftmaxRisk
from purerec.ranking.scorers import Factors
from purerec.types import F32, F64, I32, I64

_PEOPLE = 256
"""People in training from whom a search may start"""
_SMALL_PRIOR = 1e-8
_SAMPLE = 1024
"""Items on which the risk is minimised before the exact gradient is computed"""


@dataclass(frozen=True)
class PersonRisk:
    """The risk of one person: the training risk, with its L2."""

    weights: LogisticRisk
    regularization: float
    kappa: Callable[[int], float]
    """For a person with this many positives: share of the unlabeled draws, divided by share of the positives"""


class LogisticFolding:
    """min_e  -mean_J phi_j + positive mean_J softplus(phi_j) + unlabeled kappa mean_drawn softplus(phi_i)
              + regularization (1 + kappa) / 2 |e|^2,       phi_i = (e R).q_i + b_i + b

    J are the person's items. All others are drawn in expectation, without the sampling error of a few draws.
    `positive` and `unlabeled` are the weights of `LogisticRisk`, R is the relation of the scorers gmf and bilinear,
    and b is a free bias of the person, where users have one. Fakes are left out.
    """

    def __init__(
        self,
        items: F32,
        offset: F32,
        risk: PersonRisk,
        *,
        draw: F64,
        people: F32,
        relation: F32 | None = None,
        free_bias: bool = False,
    ) -> None:
        """`draw` (n_items,) is how often items are drawn and sums to 1; `people` (n, dim) or, with the bias, (n, dim
        + 1) are some people in training. A search starts at the best of them: far from all of them, where the vectors
        do not offset the model's bias, the risk is flat."""
        self._items, self._risk, self._draw, self._free_bias = items, risk, draw, free_bias
        self._relation = None if relation is None else np.diag(relation) if relation.ndim == 1 else relation
        own_space = items if self._relation is None else items @ self._relation.T
        self._dim = own_space.shape[1]
        self._table = np.ascontiguousarray(
            np.column_stack([own_space, np.ones(len(items), np.float32)]) if free_bias else own_space, np.float32
        )
        self._offset = np.ascontiguousarray(offset, np.float32)
        self._people = people.astype(np.float32)
        self._all = kernels.make_table(self._table, self._offset, draw.astype(np.float32))
        self._sample = self._all
        if len(items) > 4 * _SAMPLE:
            chosen, chance = _sample(self._table, self._offset, draw, people)
            weight = (draw[chosen] / chance).astype(np.float32)
            self._sample = kernels.make_table(self._table[chosen], self._offset[chosen], weight)
        else:
            chosen, weight = np.arange(len(items)), draw.astype(np.float32)
        scores = self._people @ self._table[chosen].T + self._offset[chosen]
        self._their_softplus = np.logaddexp(0, scores) @ weight
        self._their_squares = np.sum(self._people**2, axis=1)

    def vector(self, history: I32) -> F32:
        found: F32 = self.solve(history)[: self._dim]
        return found if self._relation is None else np.asarray(found @ self._relation, dtype=np.float32)

    def solve(self, history: I32) -> F32:
        """(dim,) or, with the bias, (dim + 1,): the minimum in the users' own space"""
        own = self._table[history]
        scale, change = self._weights(history)
        pull, penalty = own.mean(axis=0, dtype=np.float64), self._penalty(len(history))
        risks = scale * self._their_softplus - self._people @ pull + 0.5 * penalty[0] * self._their_squares
        found: F32 = self._people[np.argmin(risks)].copy()
        kernels.minimise(
            self._sample,
            self._all,
            kernels.Own(own, self._offset[history], change),
            scale,
            pull,
            penalty,
            found,
            kernels.make_sums(len(found)),
        )
        return found

    def _weights(self, history: I32) -> tuple[float, F32]:
        """The factor on the table's weights for this person, and how own items differ from that."""
        free = 1.0 - float(self._draw[history].sum())
        strength = self._risk.weights.unlabeled * self._risk.kappa(len(history))
        scale = strength / free if len(history) < len(self._items) and free > 1e-9 else 0.0
        change = self._risk.weights.positive / len(history) - scale * self._draw[history]
        return scale, change.astype(np.float32)

    def _penalty(self, n: int) -> F64:
        penalty = np.full(self._table.shape[1], self._risk.regularization * (1 + self._risk.kappa(n)) + 1e-9)
        if self._free_bias:
            penalty[-1] = 1e-9
        return penalty

    def parts(self, history: I32, vector: F32) -> F32 | None:
        """With the Hessian H of the risk at the vector: H^-1 (1 - positive D_j (1 - (1 - D_j) e.q_j)) q_j / n."""
        e = np.zeros(self._table.shape[1], dtype=np.float32)
        e[: self._dim] = vector if self._relation is None else np.linalg.lstsq(self._relation.T, vector)[0]
        sums = self._at(history, e)
        own = self._table[history].astype(np.float64)
        d = sigmoid(own @ e + self._offset[history])
        pull = 1 - self._risk.weights.positive * d * (1 - (1 - d) * (own @ e))
        hessian = np.tril(sums.hessian) + np.tril(sums.hessian, -1).T
        found = np.linalg.solve(hessian, (own * pull[:, None]).T).T[:, : self._dim] / len(history)
        return (found if self._relation is None else found @ self._relation).astype(np.float32)

    def _at(self, history: I32, e: F32) -> kernels.Sums:
        """The derivatives at a vector, whose bias is first set to its best value."""
        sums, own = kernels.make_sums(len(e)), self._table[history]
        scale, change = self._weights(history)
        pull, penalty = own.mean(axis=0, dtype=np.float64), self._penalty(len(history))
        terms = kernels.Own(own, self._offset[history], change)
        given = self._all, terms, scale, pull, penalty, e, sums
        for _ in range(100 if self._free_bias else 0):
            kernels.add_up(*given, False)
            # The force against the own items' pull (1 in total) grows at most like exp(bias): no step overshoots
            step = np.log(max(sums.gradient[-1] + 1, 1e-16))
            e[-1] -= np.float32(step)
            if abs(step) < 1e-4:
                break
        kernels.add_up(*given, True)
        return sums


def _sample(items: F32, offset: F32, draw: F64, people: F32) -> tuple[I64, F64]:
    """A sample of items, half by how often they are drawn and half by how much they matter to people, evenly spaced
    in catalogue order; and the probability that each had."""
    liked = sigmoid(people.astype(np.float32) @ items.T + offset).mean(axis=0) * draw
    chance = _SAMPLE * 0.5 * (draw / draw.sum() + liked / max(liked.sum(), 1e-300))
    for _ in range(20):  # items that are certain to be chosen leave their surplus to the others
        chance = np.minimum(1, chance * (_SAMPLE / chance.sum()))
    ends = np.cumsum(chance)
    chosen = np.unique(np.searchsorted(ends, np.arange(0.5, ends[-1])))
    chosen = chosen[(chosen < len(items)) & (draw[np.minimum(chosen, len(items) - 1)] > 0)]
    return chosen, chance[chosen]


def folding_of(parts: Factors, params: Params, settings: GameSettings, seen: Csr) -> LogisticFolding:
    """`parts` express phi as a dot product of `params`."""
    n, (n_users, n_items) = len(seen), seen.shape
    draw = np.full(n_items, 1 / n_items)
    if settings.unlabeled == "popularity":
        draw = np.bincount(seen.indices, minlength=n_items) / n

    def kappa(n_own: int) -> float:
        if settings.unlabeled != "global":
            return 1.0  # draws in proportion to the person's positives
        return (n_items - n_own) / n_own * n / max(n_users * n_items - n, 1)

    some = np.linspace(0, n_users - 1, min(n_users, _PEOPLE)).astype(np.int64)
    own_level = np.zeros(n_items, np.float32) if parts.item_bias is None else parts.item_bias
    if settings.softmax is not None:
        softmax, scale = settings.softmax, np.float32(settings.temperature)
        small = LogisticRisk.of("pu", _SMALL_PRIOR, softmax.observed)
        risk = PersonRisk(small, settings.regularization, lambda _: 1.0)
        level = _levels(parts, some, softmax, draw)
        return LogisticFolding(
            parts.items / scale,
            own_level / scale + np.float32(math.log(_SMALL_PRIOR)),
            risk,
            draw=draw,
            people=np.column_stack([params["user"][some], level]),
            relation=params.get("relation"),
            free_bias=True,
        )
    has_bias = "user_bias" in params
    people = np.column_stack([params["user"], params["user_bias"]]) if has_bias else params["user"]
    return LogisticFolding(
        parts.items,
        params["bias"][0] + own_level,
        PersonRisk(settings.logistic, settings.regularization, kappa),
        draw=draw,
        people=people[some],
        relation=params.get("relation"),
        free_bias=has_bias,
    )


def _levels(parts: Factors, user_idx: I64, softmax: SoftmaxRisk, draw: F64) -> F32:
    """The best bias for each user's vector: minus the logarithm of the mean of exp(phi / T)."""
    scores = parts.users[user_idx] @ parts.items.T
    if parts.item_bias is not None:
        scores += parts.item_bias
    with np.errstate(divide="ignore"):  # an item that is never drawn
        found: F32 = -np.logaddexp.reduce(scores / softmax.temperature + np.log(draw), axis=1).astype(np.float32)
    return found
