"""CFGAN's two networks in torch: one generates purchase vectors, the other judges them. Formulas: `models.cfgan`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse

from purerec.engines.columns import Columns, choose_columns
from purerec.errors import MissingExtraError
from purerec.types import Array

try:
    import torch
    from torch import Tensor
    from torch.nn.functional import embedding_bag, softplus
except ImportError as missing:
    raise MissingExtraError("torch", "torch", purpose="cfgan") from missing

from purerec.engines.pure.torch.device import one_thread
from purerec.engines.row_adam import RowAdam, TensorTables


@dataclass(frozen=True)
class CFGANSettings:
    """The settings of the engine; `models.cfgan` explains them."""

    hidden: int
    discriminator_hidden: int
    zero_reconstruction: float
    """Share of unobserved entries in the reconstruction; 0: none."""
    partial_masking: float
    """Share of unobserved entries shown to the discriminator; 0: none."""
    zero_weight: float
    sampled_columns: int
    batch_size: int
    discriminator_passes: int
    generator_passes: int
    learning_rate: float
    discriminator_rate: float
    regularization: float


class Vectors(NamedTuple):
    """Some rows of the matrix, on the columns of a step."""

    columns: Tensor | None
    """None: all"""
    entries: Tensor
    begins: Tensor
    """The entries that are 1, row by row, and where each row starts"""
    bought: Tensor
    """(rows, columns) the same as zeros and ones"""
    pull: Tensor
    """(rows, columns) how much each unobserved entry is pulled to zero; 0: not drawn"""
    seen: Tensor
    """(rows, columns) 1: an unobserved entry that the discriminator sees"""


class CFGANEngine:
    """Trains on the rows of a 0/1 matrix (n_rows, n_columns)."""

    def __init__(self, matrix: scipy.sparse.csr_array, settings: CFGANSettings, rng: np.random.Generator) -> None:
        self.matrix, self.settings = matrix, settings
        self._filled = np.flatnonzero(np.diff(matrix.indptr))
        """Rows without entries are left out: nothing can be learned from them."""
        n, s = matrix.shape[1], settings
        draws = torch.Generator().manual_seed(int(rng.integers(2**63)))

        def uniform(*shape: int, inputs: int) -> Tensor:
            return torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5, generator=draws)

        # Do not start with everything half bought: the pull to zero would drag the positives along. Start at each
        # column's share of filled entries.
        share = (np.bincount(matrix.indices, minlength=n) + 0.5) / (matrix.shape[0] + 1.0)
        generating = {
            "in_weight": uniform(n, s.hidden, inputs=n),
            "in_bias": uniform(s.hidden, inputs=n),
            "out_weight": uniform(n, s.hidden, inputs=s.hidden),
            "out_bias": torch.logit(torch.from_numpy(share)).float(),
        }
        width = s.discriminator_hidden
        judging = {
            "made_weight": uniform(n, width, inputs=2 * n),
            "bought_weight": uniform(n, width, inputs=2 * n),
            "bias": uniform(width, inputs=2 * n),
            "last_weight": uniform(width, inputs=width),
            "last_bias": uniform(inputs=width),
        }
        r = s.regularization
        self.generator = RowAdam(generating, ("in_weight", "out_weight", "out_bias"), regularization=r)
        self.discriminator = RowAdam(judging, ("made_weight", "bought_weight"), regularization=r)

    # ------------------------------------------------------------------ training

    def epoch(self, rng: np.random.Generator, rate_factor: float = 1.0) -> tuple[float, float]:
        """Train one epoch with these draws; return the mean losses of the discriminator and of the generator."""
        s = self.settings
        draws = torch.Generator().manual_seed(int(rng.integers(2**63)))
        players = (
            (self.discriminator, self.discriminator_loss, s.discriminator_passes, s.discriminator_rate),
            (self.generator, self.generator_loss, s.generator_passes, s.learning_rate),
        )
        means = []
        with one_thread():
            for player, objective, passes, rate in players:
                # Without partial masking, the discriminator sees no columns but those bought.
                needs_others = player is self.generator or s.partial_masking > 0
                losses = []
                for rows in (rows for _ in range(passes) for rows in self._batches(rng)):
                    columns = choose_columns(rows, s.sampled_columns if needs_others else 0, rng)
                    vectors = self.vectors(columns, draws)
                    g, d = self.generator.take(vectors.columns), self.discriminator.take(vectors.columns)
                    loss = objective(g, d, vectors)
                    mine = g if player is self.generator else d
                    losses.append(player.step(loss, mine, vectors.columns, rate * rate_factor))
                means.append(float(np.mean(losses)) if losses else 0.0)
        return means[0], means[1]

    def _batches(self, rng: np.random.Generator) -> Iterator[scipy.sparse.csr_array]:
        order = rng.permutation(self._filled)
        size = min(self.settings.batch_size, max(1, len(order) // 5))
        for first in range(0, len(order), size):
            yield self.matrix[order[first : first + size]]

    def vectors(self, columns: Columns, draws: torch.Generator) -> Vectors:
        """The rows of a step, with fresh draws of what is pulled and what is seen."""
        s = self.settings
        lengths = torch.from_numpy(np.diff(columns.begins))
        entries, stands_for = torch.from_numpy(columns.places), torch.from_numpy(columns.stands_for)
        bought = torch.zeros(len(lengths), len(stands_for))
        bought[torch.repeat_interleave(torch.arange(len(lengths)), lengths), entries] = 1
        free = 1 - bought

        def drawn(share: float) -> tuple[Tensor, Tensor]:
            """Draw unobserved entries, where a column counts as all that it stands for; and how often each counts."""
            wanted = share * stands_for
            chance = wanted.clamp(max=1)
            if share == 0:
                return torch.zeros_like(bought), wanted
            return (torch.rand(bought.shape, generator=draws) < chance) * free, wanted / chance

        pulled, times = drawn(s.zero_reconstruction)
        seen, _ = drawn(s.partial_masking)
        chosen = None if columns.chosen is None else torch.from_numpy(columns.chosen)
        return Vectors(chosen, entries, torch.from_numpy(columns.begins[:-1]), bought, pulled * times, seen)

    def generate(self, g: TensorTables, vectors: Vectors) -> Tensor:
        """The generator's vectors, before the sigmoid."""
        hidden = torch.tanh(_sums(vectors, g["in_weight"]) + g["in_bias"])
        return hidden @ g["out_weight"].T + g["out_bias"]

    def judge(self, d: TensorTables, vector: Tensor, vectors: Vectors) -> Tensor:
        """d(vector | the row's own purchases), before the sigmoid; `vector` is the input to the first layer."""
        hidden = torch.tanh(vector + _sums(vectors, d["bought_weight"]) + d["bias"])
        return hidden @ d["last_weight"] + d["last_bias"]

    def discriminator_loss(self, g: TensorTables, d: TensorTables, vectors: Vectors) -> Tensor:
        with torch.no_grad():
            fake = self.generate(g, vectors).sigmoid() * (vectors.bought + vectors.seen)
        real = self.judge(d, _sums(vectors, d["made_weight"]), vectors)
        return (softplus(-real) + softplus(self.judge(d, fake @ d["made_weight"], vectors))).mean()

    def generator_loss(self, g: TensorTables, d: TensorTables, vectors: Vectors) -> Tensor:
        made = self.generate(g, vectors).sigmoid()
        fake = (made * (vectors.bought + vectors.seen)) @ d["made_weight"]
        fooled = softplus(-self.judge(d, fake, vectors)).mean()
        return fooled + self.settings.zero_weight * (vectors.pull * made**2).sum(1).mean()

    # ------------------------------------------------------------------ results

    def network(self) -> dict[str, Array]:
        """Copies of the generator's weights, and its hidden layer for all rows, hidden (n_rows, hidden)."""
        found = {name: weight.numpy().copy() for name, weight in self.generator.weights.items()}
        sums = np.asarray(self.matrix @ found["in_weight"])
        return found | {"hidden": np.tanh(sums + found["in_bias"]).astype(np.float32)}

    def state(self) -> dict[str, Array]:
        """Weights and Adam's moments."""
        return self.generator.state() | {f"judge.{name}": kept for name, kept in self.discriminator.state().items()}

    def restore(self, state: dict[str, Array]) -> None:
        self.generator.restore(state)
        self.discriminator.restore({n.removeprefix("judge."): a for n, a in state.items() if n.startswith("judge.")})


def _sums(vectors: Vectors, weight: Tensor) -> Tensor:
    """(rows, width) for each row, the sum of the weights of its entries."""
    return embedding_bag(vectors.entries, weight, vectors.begins, mode="sum")
