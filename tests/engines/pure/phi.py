"""phi of a torch engine, for tests that compare it."""

from __future__ import annotations

import numpy as np
import torch

from purerec.engines.pure.torch.engine import TorchEngine


@torch.no_grad()
def scores(engine: TorchEngine, user_idx: np.ndarray) -> np.ndarray:
    """(len(user_idx), n_items): the given users with all items."""
    phi = engine.discriminator
    every_item = torch.arange(len(phi.item), device=engine.device)
    phi.eval()
    found = [phi(phi.pairs(user.expand_as(every_item), every_item)) for user in torch.as_tensor(user_idx).long()]
    phi.train()
    return np.stack([row.numpy(force=True) for row in found])
