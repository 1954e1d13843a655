"""phi(u, i) from the parameters: by a dot product, the network of the mlp scorer, or a custom module."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from purerec.engines.pure.spec import Params, ScorerName
from purerec.errors import ConfigError
from purerec.ranking.scorers import Factors
from purerec.storage import Part
from purerec.types import F32, I64

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
