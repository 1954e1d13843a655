"""The autoencoder of Mult-VAE in torch. Formulas: `models.multvae`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse

from purerec.errors import MissingExtraError
from purerec.randomness import generator

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import dropout, embedding_bag, linear, log_softmax
except ImportError as missing:
    raise MissingExtraError("torch", "torch", purpose="multvae") from missing

from purerec.engines.torch_adam import Array, Optimized, adam_state, restore_adam
from purerec.engines.torch_engine import one_thread


@dataclass(frozen=True)
class MultVAESettings:
    """What the engine has to know; `models.multvae` says what each means."""

    hidden: int
    latent: int
    dropout: float
    batch_size: int
    regularization: float


class People(NamedTuple):
    """Some rows of the matrix: their items one after another, where each row begins, and 1 / |x_u| for each item."""

    items: Tensor
    begins: Tensor
    weights: Tensor
    bought: Tensor
    """(n, n_items) the rows themselves, 0 or 1"""


class MultVAEEngine:
    """Trains on the rows of a 0/1 matrix (n_users, n_items); every random draw depends on (seed, epoch) alone."""

    def __init__(self, matrix: scipy.sparse.csr_array, settings: MultVAESettings, *, seed: int) -> None:
        self.matrix, self.settings, self.seed = matrix, settings, seed
        counts = np.diff(matrix.indptr)
        self._filled = np.flatnonzero(counts)
        """People without a single item teach nothing."""
        self._lengths = np.sqrt(np.maximum(counts, 1)).astype(np.float32)
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
        self.weights = nn.ParameterDict({name: nn.Parameter(torch.zeros(shape)) for name, shape in shapes.items()})
        draws = torch.Generator().manual_seed(int(generator(seed, "init").integers(2**63)))
        for name, weight in self.weights.items():
            if name.endswith("_weight"):
                nn.init.xavier_normal_(weight, generator=draws)
        # Popularity needs not be learned.
        share = (np.bincount(matrix.indices, minlength=n) + 0.5) / (matrix.shape[0] + 1.0)
        self.weights["out_bias"].data.copy_(torch.from_numpy(np.log(share)).float())
        self._adam = torch.optim.Adam(self.weights.parameters(), weight_decay=s.regularization, fused=True)

    # ------------------------------------------------------------------ training

    def epoch(self, number: int, *, learning_rate: float, beta: float) -> float:
        """Train epoch `number`; the mean loss."""
        self._adam.param_groups[0]["lr"] = learning_rate
        rng = generator(self.seed, f"multvae {number}")
        losses = []
        with one_thread(), torch.random.fork_rng([]):
            torch.manual_seed(int(rng.integers(2**63)))  # which dropout and the noise below draw from
            for people in self._batches(rng):
                noise = torch.randn(len(people.begins), self.settings.latent)
                dropped = people._replace(weights=dropout(people.weights, self.settings.dropout))
                loss = self.loss(dropped, noise, beta)
                self._adam.zero_grad()
                torch.autograd.backward(loss)
                self._adam.step()
                losses.append(float(loss.detach()))
        return float(np.mean(losses)) if losses else 0.0

    def _batches(self, rng: np.random.Generator) -> Iterator[People]:
        order = rng.permutation(self._filled)
        size = min(self.settings.batch_size, max(1, len(order) // 5))
        for first in range(0, len(order), size):
            yield self.people(order[first : first + size])

    def people(self, rows: Array) -> People:
        chosen = self.matrix[rows]
        weights = np.repeat(1 / self._lengths[rows], np.diff(chosen.indptr))
        return People(
            torch.from_numpy(chosen.indices.astype(np.int64)),
            torch.from_numpy(chosen.indptr[:-1].astype(np.int64)),
            torch.from_numpy(weights),
            torch.from_numpy(chosen.toarray()),
        )

    def loss(self, people: People, noise: Tensor, beta: float) -> Tensor:
        """The negative bound of the likelihood, a mean over people, with the code at `noise` standard deviations."""
        mean, log_variance = self.code(people)
        logits = self.logits(mean + noise * (0.5 * log_variance).exp())
        fit = -(people.bought * log_softmax(logits, 1)).sum(1)
        divergence = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1)
        loss: Tensor = (fit + beta * divergence).mean()
        return loss

    def code(self, people: People) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of each person's code."""
        w = self.weights
        sums = embedding_bag(
            people.items, w["in_weight"], people.begins, mode="sum", per_sample_weights=people.weights
        )
        mean, log_variance = linear(torch.tanh(sums + w["in_bias"]), w["code_weight"], w["code_bias"]).chunk(2, 1)
        return mean, log_variance

    def logits(self, code: Tensor) -> Tensor:
        w = self.weights
        return linear(torch.tanh(linear(code, w["decode_weight"], w["decode_bias"])), w["out_weight"], w["out_bias"])

    # ------------------------------------------------------------------ what was learned

    def parameters(self) -> dict[str, Array]:
        """Copies of the weights."""
        return {name: weight.detach().numpy().copy() for name, weight in self.weights.items()}

    def state(self) -> dict[str, Array]:
        """Weights and Adam's moments."""
        return adam_state(self._optimized())

    def restore(self, state: dict[str, Array]) -> None:
        restore_adam(self._optimized(), state)

    def _optimized(self) -> Iterator[Optimized]:
        for name, weight in self.weights.items():
            yield name, weight, self._adam
