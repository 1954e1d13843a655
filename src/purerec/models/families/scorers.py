"""phi(u, i) from the parameters: as a dot product, by the network of the mlp scorer, or by a custom module.

`gmf` is Eq. (GMF), `bilinear` Eq. (generalized_D). The trainable forms are in the engines.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from purerec.engines.pure.spec import Params, ScorerName
from purerec.errors import ConfigError
from purerec.ranking.scorers import Factors
from purerec.storage import Part
from purerec.types import F32, F64, I64

SCORER_PARTS: dict[str, dict[str, Part]] = {
    "mf": {},
    "gmf": {"relation": Part(("dim",))},
    "bilinear": {"relation": Part(("dim", "dim"))},
    "fm": {"user_bias": Part(("users",)), "item_bias": Part(("items",))},
    "mlp": {
        "mlp.0.weight": Part((32, "2*dim")),
        "mlp.0.bias": Part((32,)),
        "mlp.2.weight": Part((16, 32)),
        "mlp.2.bias": Part((16,)),
        "mlp.4.weight": Part((1, 16)),
    },
}
"""What each scorer learns besides embeddings and a bias"""


def dot_product(scorer: ScorerName, params: Params) -> Factors | None:
    """phi as a dot product, up to a constant for each user; None for a network."""
    if scorer == "mlp":
        return None
    users, items = params["user"], params["item"]
    if scorer == "gmf":
        users = users * params["relation"]
    elif scorer == "bilinear":
        users = users @ params["relation"]
    return Factors(np.ascontiguousarray(users), items, params.get("item_bias"))


def scores(scorer: ScorerName, params: Params, user_idx: I64) -> F32:
    """(len(user_idx), n_items) phi of these users with all items."""
    parts = dot_product(scorer, params)
    if parts is None:
        return _mlp_scores(params, user_idx)
    found = parts.users[user_idx] @ parts.items.T
    if parts.item_bias is not None:
        found += parts.item_bias
    shift = params["bias"]
    if "user_bias" in params:
        shift = shift + params["user_bias"][user_idx, None]
    found += shift
    return found


def _mlp_scores(params: Params, user_idx: I64) -> F32:
    """The network of the mlp scorer, layer by layer: (len(user_idx), n_items)."""
    items, width = params["item"], params["user"].shape[1]
    first, second, last = (params[f"mlp.{n}.weight"] for n in (0, 2, 4))
    from_items = items @ first[:, width:].T + params["mlp.0.bias"]
    found = np.empty((len(user_idx), len(items)), dtype=np.float32)
    for row, user in enumerate(user_idx):
        hidden = np.maximum(from_items + first[:, :width] @ params["user"][user], 0)
        hidden = np.maximum(hidden @ second.T + params["mlp.2.bias"], 0)
        found[row] = hidden @ last[0] + params["bias"]
    return found


class Narrowing:
    """Embeddings in fewer dimensions: those of their product that matter most, by its singular values.

    U A and V B, with A and B (dim, width), approximate U V' best of all embeddings of this width. They keep the ratio
    of their lengths, on which the L2 of a person who is folded in depends.
    """

    def __init__(self, users: F32, items: F32) -> None:
        self._users, self._items = users, items
        of_users, of_items = (_triangle(rows) for rows in (users, items))
        left, self._values, right = np.linalg.svd(of_users @ of_items.T)
        self.rank = int(np.count_nonzero(self._values > 1e-6 * self._values[0]))
        """Dimensions that are not empty"""
        lengths = [max(float(np.linalg.norm(rows)), 1e-12) for rows in (users, items)]
        scale, n = math.sqrt(lengths[0] / lengths[1]), max(1, self.rank)
        roots = np.sqrt(np.maximum(self._values[:n], 1e-12))
        self._to_users = of_items.T @ right[:n].T / roots * scale
        self._to_items = of_users.T @ left[:, :n] / roots / scale

    def factors(self, width: int, item_bias: F32 | None = None) -> Factors:
        """Both sides in their first `width` dimensions."""
        users, items = (
            (rows @ to[:, :width].astype(np.float32))
            for rows, to in ((self._users, self._to_users), (self._items, self._to_items))
        )
        return Factors(users, items, item_bias)

    def generator(self, side: str, weights: Params, width: int) -> Params:
        """The same generator of fakes of this side, with inputs and outputs of this width."""
        to = (self._to_users if side == "user" else self._to_items)[:, :width]
        noise, condition = weights["w1"][:, : len(to)].astype(np.float64), weights["w1"][:, len(to) :]
        left, values, _ = np.linalg.svd(noise, full_matrices=False)
        first = np.zeros((len(noise), width))  # noise of nearly the same covariance after the first layer
        n = min(width, len(values))
        first[:, :n] = left[:, :n] * values[:n]
        found = {
            "w1": np.column_stack([first, condition @ to]) if condition.size else first,
            "b1": weights["b1"],
            "w2": to.T @ weights["w2"],
            "b2": to.T @ weights["b2"],
        }
        return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in found.items()}


def _triangle(rows: F32) -> F64:
    """R of rows = Q R, with orthogonal Q."""
    found: F64 = np.asarray(np.linalg.qr(rows.astype(np.float64), mode="r"))
    return found


def narrowed(params: Params, width: int) -> Params:
    """The parameters of the scorers mf and fm, and of generators, in fewer dimensions."""
    if width >= params["user"].shape[1]:
        return params
    narrowing = Narrowing(params["user"], params["item"])
    width = min(width, max(1, narrowing.rank))
    parts = narrowing.factors(width)
    found = dict(params) | {"user": parts.users, "item": parts.items}
    for side in ("user", "item"):
        prefix = f"{side}_gen."
        weights = {name.removeprefix(prefix): array for name, array in params.items() if name.startswith(prefix)}
        if weights:
            found |= {f"{prefix}{name}": array for name, array in narrowing.generator(side, weights, width).items()}
    return found


def module_scores(scorer_module: Any, params: Params, user_idx: I64) -> F32:
    """phi by a custom module, with the weights that it learned."""
    import torch

    if scorer_module is None:
        raise ConfigError("this model was fitted with a scorer of your own: set model.scorer_module to such a module")
    module, prefix = copy.deepcopy(scorer_module).eval(), "scorer."
    learned = {
        name.removeprefix(prefix).removesuffix("/buffer"): array
        for name, array in params.items()
        if name.startswith(prefix)
    }
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in learned.items()})
    users, items = (torch.from_numpy(params[side]) for side in ("user", "item"))
    found = np.empty((len(user_idx), len(items)), dtype=np.float32)
    with torch.no_grad():
        for row, user in zip(found, user_idx, strict=True):
            row[:] = module(users[int(user)].expand(len(items), -1), items).numpy()
    return found + params["bias"]
