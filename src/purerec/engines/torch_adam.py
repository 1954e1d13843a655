"""Weights and Adam's moments as arrays and back, so that a run of a torch model can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Array = npt.NDArray[Any]
Optimized = tuple[str, nn.Parameter, torch.optim.Optimizer]
"""A name, the parameter, and the optimizer that moves it"""

_MOMENTS = ("exp_avg", "exp_avg_sq")


def adam_state(optimized: Iterable[Optimized]) -> dict[str, Array]:
    """NAME, NAME.exp_avg, NAME.exp_avg_sq and NAME.step of each; zeros before the first step."""
    found: dict[str, Array] = {}
    for name, parameter, optimizer in optimized:
        kept = optimizer.state.get(parameter, {})
        found[name] = parameter.detach().numpy().copy()
        for moment in _MOMENTS:
            found[f"{name}.{moment}"] = kept[moment].numpy().copy() if kept else np.zeros_like(found[name])
        found[f"{name}.step"] = np.array([float(kept["step"]) if kept else 0.0], np.float32)
    return found


@torch.no_grad()
def restore_adam(optimized: Iterable[Optimized], state: dict[str, Array]) -> None:
    """The inverse of `adam_state`."""
    for name, parameter, optimizer in optimized:
        parameter.copy_(torch.from_numpy(np.array(state[name])))
        step = float(state[f"{name}.step"][0])
        if step == 0:
            optimizer.state.pop(parameter, None)
            continue
        moments = {moment: torch.from_numpy(np.array(state[f"{name}.{moment}"])) for moment in _MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(step), **moments}
