"""Adam for tensors where a step may update only some rows; a run can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from purerec.types import Array

TensorTables = dict[str, Tensor]

_MOMENTS = ("exp_avg", "exp_avg_sq")


class RowAdam:
    """Rows that a step does not touch stay as they are, moments included, as in `torch.optim.SparseAdam`."""

    def __init__(self, weights: TensorTables, wide: Collection[str], *, regularization: float) -> None:
        """`wide`: the names of weights with a row for each column of the data."""
        self.weights, self._wide, self._regularization = weights, frozenset(wide), regularization
        self._moments = {m: {name: torch.zeros_like(w) for name, w in weights.items()} for m in _MOMENTS}
        self._steps = torch.zeros(())

    def take(self, columns: Tensor | None = None) -> TensorTables:
        """The weights at these columns (None: all), to be trained."""
        return {name: self._rows(name, w, columns).detach().requires_grad_() for name, w in self.weights.items()}

    def step(self, loss: Tensor, taken: TensorTables, columns: Tensor | None, learning_rate: float) -> float:
        """Take a step down the gradient of `loss`, put the weights back, and return the loss."""
        slopes = torch.autograd.grad(loss, list(taken.values()))
        moved = {name: w.detach() for name, w in taken.items()}
        moments = {
            m: {name: self._rows(name, kept[name], columns) for name in moved} for m, kept in self._moments.items()
        }
        adam(
            list(moved.values()),
            list(slopes),
            list(moments["exp_avg"].values()),
            list(moments["exp_avg_sq"].values()),
            [],
            [self._steps.clone() for _ in moved],  # Adam increments them
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=learning_rate,
            weight_decay=self._regularization,
            eps=1e-8,
            maximize=False,
        )
        self._steps += 1
        if columns is not None:
            for kept, found in ((self.weights, moved), *((self._moments[m], moments[m]) for m in _MOMENTS)):
                for name in self._wide:
                    kept[name].index_copy_(0, columns, found[name])
        return float(loss.detach())

    def _rows(self, name: str, whole: Tensor, columns: Tensor | None) -> Tensor:
        return whole.index_select(0, columns) if columns is not None and name in self._wide else whole

    # ------------------------------------------------------------------ stopping and resuming

    def state(self) -> dict[str, Array]:
        """NAME, NAME.exp_avg and NAME.exp_avg_sq of each weight, and the number of steps, as copies."""
        found = {name: w.numpy().copy() for name, w in self.weights.items()}
        for moment, kept in self._moments.items():
            found |= {f"{name}.{moment}": w.numpy().copy() for name, w in kept.items()}
        return found | {"steps": np.array([float(self._steps)], np.float32)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """The inverse of `state`."""
        for name, w in self.weights.items():
            w.copy_(torch.from_numpy(np.array(state[name])))
            for moment, kept in self._moments.items():
                kept[name].copy_(torch.from_numpy(np.array(state[f"{name}.{moment}"])))
        self._steps.fill_(float(state["steps"][0]))
