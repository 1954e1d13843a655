"""The autoencoder of Mult-VAE in torch. Formulas: `models.multvae`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse

from purerec.engines.columns import Columns, choose_columns
from purerec.errors import MissingExtraError
from purerec.types import Array

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import dropout, embedding_bag, linear, log_softmax
except ImportError as missing:
    raise MissingExtraError("torch", "torch", purpose="multvae") from missing

from purerec.engines.pure.torch.device import one_thread
from purerec.engines.row_adam import RowAdam, TensorTables


@dataclass(frozen=True)
class MultVAESettings:
    """The settings of the engine; `models.multvae` explains them."""

    hidden: int
    latent: int
    dropout: float
    sampled_columns: int
    batch_size: int
    regularization: float


class People(NamedTuple):
    """Some rows of the matrix, on the columns of a step."""

    columns: Tensor | None
    """None: all items"""
    items: Tensor
    begins: Tensor
    """The items of each person, person by person, and where each person's start"""
    weights: Tensor
    """1 / |x_u| for each of these"""
    bought: Tensor
    """(people, columns) the rows themselves, 0 or 1"""
    stands_for: Tensor
    """(columns,) how many items each stands for"""


class MultVAEEngine:
    """Trains on the rows of a 0/1 matrix (n_users, n_items)."""

    def __init__(self, matrix: scipy.sparse.csr_array, settings: MultVAESettings, rng: np.random.Generator) -> None:
        self.matrix, self.settings = matrix, settings
        self._filled = np.flatnonzero(np.diff(matrix.indptr))
        """People without items are left out: nothing can be learned from them."""
        n, s = matrix.shape[1], settings
        shapes = {
            "in_weight": (n, s.hidden),
            "in_bias": (s.hidden,),
            "code_weight": (2 * s.latent, s.hidden),
            "code_bias": (2 * s.latent,),
            "decode_weight": (s.hidden, s.latent),
            "decode_bias": (s.hidden,),
            "out_weight": (n, s.hidden),
            "out_bias": (n,),
        }
        weights = {name: torch.zeros(shape) for name, shape in shapes.items()}
        draws = torch.Generator().manual_seed(int(rng.integers(2**63)))
        for name, weight in weights.items():
            if name.endswith("_weight"):
                nn.init.xavier_normal_(weight, generator=draws)
        # Start at the popularity, so that it need not be learned.
        share = (np.bincount(matrix.indices, minlength=n) + 0.5) / (matrix.shape[0] + 1.0)
        weights["out_bias"].copy_(torch.from_numpy(np.log(share)))
        self.network = RowAdam(weights, ("in_weight", "out_weight", "out_bias"), regularization=s.regularization)

    # ------------------------------------------------------------------ training

    def epoch(self, rng: np.random.Generator, *, learning_rate: float, beta: float) -> float:
        """Train one epoch with these draws; return the mean loss."""
        s = self.settings
        order = rng.permutation(self._filled)
        size = min(s.batch_size, max(1, len(order) // 5))
        losses = []
        with one_thread(), torch.random.fork_rng([]):
            torch.manual_seed(int(rng.integers(2**63)))  # used by dropout and the noise below
            for first in range(0, len(order), size):
                people = self.people(choose_columns(self.matrix[order[first : first + size]], s.sampled_columns, rng))
                noise = torch.randn(len(people.begins), s.latent)
                dropped = people._replace(weights=dropout(people.weights, s.dropout))
                w = self.network.take(people.columns)
                loss = self.loss(w, dropped, noise, beta)
                losses.append(self.network.step(loss, w, people.columns, learning_rate))
        return float(np.mean(losses)) if losses else 0.0

    def people(self, columns: Columns) -> People:
        lengths = np.diff(columns.begins)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        items, stands_for = torch.from_numpy(columns.places), torch.from_numpy(columns.stands_for)
        bought = torch.zeros(len(lengths), len(stands_for))
        bought[torch.from_numpy(owner), items] = 1
        return People(
            None if columns.chosen is None else torch.from_numpy(columns.chosen),
            items,
            torch.from_numpy(columns.begins[:-1]),
            torch.from_numpy((1 / np.sqrt(lengths[owner])).astype(np.float32)),
            bought,
            stands_for,
        )

    def loss(self, w: TensorTables, people: People, noise: Tensor, beta: float) -> Tensor:
        """The negative likelihood bound, averaged over people, with the code at `noise` standard deviations."""
        mean, log_variance = self.code(w, people)
        logits = self.logits(w, mean + noise * (0.5 * log_variance).exp())
        # An item that stands for several adds as much to the denominator of the softmax as they would.
        fit = -(people.bought * log_softmax(logits + people.stands_for.log(), 1)).sum(1)
        divergence = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1)
        loss: Tensor = (fit + beta * divergence).mean()
        return loss

    def code(self, w: TensorTables, people: People) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of each person's code."""
        sums = embedding_bag(
            people.items, w["in_weight"], people.begins, mode="sum", per_sample_weights=people.weights
        )
        mean, log_variance = linear(torch.tanh(sums + w["in_bias"]), w["code_weight"], w["code_bias"]).chunk(2, 1)
        return mean, log_variance

    def logits(self, w: TensorTables, code: Tensor) -> Tensor:
        return linear(torch.tanh(linear(code, w["decode_weight"], w["decode_bias"])), w["out_weight"], w["out_bias"])

    # ------------------------------------------------------------------ results

    def parameters(self) -> dict[str, Array]:
        """Copies of the weights."""
        return {name: weight.numpy().copy() for name, weight in self.network.weights.items()}

    def state(self) -> dict[str, Array]:
        """Weights and Adam's moments."""
        return self.network.state()

    def restore(self, state: dict[str, Array]) -> None:
        self.network.restore(state)
