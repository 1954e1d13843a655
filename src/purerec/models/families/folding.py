"""The risk of a person who was not in training, for GMF, PU-GMF and PURE: what they were trained with.

`nnpu` as `pu`, from which it differs for overfitted models, and hard negatives as uniform ones. The unlabeled part is
exact, over all items.

The softmax risk has no kernel of its own. It is the PU risk of a small prior with a bias of the person's own, so it
is minimised as that, with a prior so small that nothing depends on it.
"""

from __future__ import annotations

import math

import numpy as np

from purerec.data.interactions import Csr
from purerec.engines.pure.spec import GameSettings, Params
from purerec.models.contract.foldin import LogisticFolding, Risk
from purerec.paper.risks import SoftmaxRisk
from purerec.ranking.scorers import Factors
from purerec.types import F32, F64, I64

_PEOPLE = 256
"""Of training, from whom a search may start"""
_SMALL_PRIOR = 1e-8


def folding_of(parts: Factors, params: Params, settings: GameSettings, seen: Csr) -> LogisticFolding:
    """`parts` are phi as a dot product of what `params` hold."""
    n, (n_users, n_items) = len(seen), seen.shape
    draw = np.full(n_items, 1 / n_items)
    if settings.unlabeled == "popularity":
        draw = np.bincount(seen.indices, minlength=n_items) / n

    def kappa(n_own: int) -> float:
        if settings.unlabeled != "global":
            return 1.0  # as many draws as the person has positives, relative to all
        return (n_items - n_own) / n_own * n / max(n_users * n_items - n, 1)

    some = np.linspace(0, n_users - 1, min(n_users, _PEOPLE)).astype(np.int64)
    own_level = np.zeros(n_items, np.float32) if parts.item_bias is None else parts.item_bias
    if settings.softmax is not None:
        softmax, scale = settings.softmax, np.float32(settings.temperature)
        risk = Risk(
            (1 - softmax.own) / _SMALL_PRIOR, softmax.own / _SMALL_PRIOR, settings.regularization, lambda _: 1.0
        )
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
    weights = settings.logistic
    has_bias = "user_bias" in params
    people = np.column_stack([params["user"], params["user_bias"]]) if has_bias else params["user"]
    return LogisticFolding(
        parts.items,
        params["bias"][0] + own_level,
        Risk(weights.unlabeled, weights.own, settings.regularization, kappa),
        draw=draw,
        people=people[some],
        relation=params.get("relation"),
        free_bias=has_bias,
    )


def _levels(parts: Factors, user_idx: I64, softmax: SoftmaxRisk, draw: F64) -> F32:
    """The bias of each user that suits their vector best: minus the logarithm of the mean of exp(phi / T)."""
    scores = parts.users[user_idx] @ parts.items.T
    if parts.item_bias is not None:
        scores += parts.item_bias
    with np.errstate(divide="ignore"):  # an item that is never drawn
        found: F32 = -np.logaddexp.reduce(scores / softmax.temperature + np.log(draw), axis=1).astype(np.float32)
    return found
