"""CFGAN's two networks in torch: one makes purchase vectors, the other judges them. Formulas: `models.cfgan`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse

from purerec.errors import MissingExtraError
from purerec.randomness import generator

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import softplus
except ImportError as missing:
    raise MissingExtraError("torch", "torch", purpose="cfgan") from missing

from purerec.engines.torch_adam import Array, Optimized, adam_state, restore_adam
from purerec.engines.torch_engine import one_thread


@dataclass(frozen=True)
class CFGANSettings:
    """What the engine has to know; `models.cfgan` says what each means."""

    hidden: int
    discriminator_hidden: int
    zero_reconstruction: float
    """Share of unobserved entries in the reconstruction; 0: none."""
    partial_masking: float
    """Share of unobserved entries that the discriminator gets to see; 0: none."""
    zero_weight: float
    batch_size: int
    discriminator_passes: int
    generator_passes: int
    learning_rate: float
    discriminator_rate: float
    regularization: float


class CFGANEngine:
    """Trains on the rows of a 0/1 matrix (n_rows, n_columns); every random draw depends on (seed, epoch) alone."""

    def __init__(self, matrix: scipy.sparse.csr_array, settings: CFGANSettings, *, seed: int) -> None:
        self.matrix, self.settings, self.seed = matrix, settings, seed
        self._filled = np.flatnonzero(np.diff(matrix.indptr))
        """Rows without a single entry teach nothing."""
        n = matrix.shape[1]
        with torch.random.fork_rng([]):
            torch.manual_seed(int(generator(seed, "init").integers(2**63)))
            self.generator = nn.Sequential(nn.Linear(n, settings.hidden), nn.Tanh(), nn.Linear(settings.hidden, n))
            self.discriminator = nn.Sequential(
                nn.Linear(2 * n, settings.discriminator_hidden),
                nn.Tanh(),
                nn.Linear(settings.discriminator_hidden, 1),
            )
        # Half of everything bought is a bad start: the pull to zero then drags the positives along. Start at how
        # often each column is filled.
        filled = np.bincount(matrix.indices, minlength=n)
        share = torch.from_numpy((filled + 0.5) / (matrix.shape[0] + 1.0)).float()
        last = self.generator[2]
        assert isinstance(last, nn.Linear)
        last.bias.data.copy_(torch.logit(share))
        s = settings
        self._optimizers = {
            "generator": self._adam(self.generator, s.learning_rate),
            "discriminator": self._adam(self.discriminator, s.discriminator_rate),
        }

    def _adam(self, network: nn.Module, rate: float) -> torch.optim.Adam:
        return torch.optim.Adam(network.parameters(), lr=rate, weight_decay=self.settings.regularization, fused=True)

    # ------------------------------------------------------------------ training

    def epoch(self, number: int, rate_factor: float = 1.0) -> tuple[float, float]:
        """Train epoch `number`; the mean losses of the discriminator and of the generator."""
        s = self.settings
        for name, rate in (("generator", s.learning_rate), ("discriminator", s.discriminator_rate)):
            self._optimizers[name].param_groups[0]["lr"] = rate * rate_factor
        rng = generator(self.seed, f"cfgan {number}")
        draws = torch.Generator().manual_seed(int(rng.integers(2**63)))
        losses: dict[str, list[float]] = {"discriminator": [], "generator": []}
        with one_thread():
            for name, passes in (("discriminator", s.discriminator_passes), ("generator", s.generator_passes)):
                objective = self.discriminator_loss if name == "discriminator" else self.generator_loss
                for _ in range(passes):
                    for bought in self._batches(rng):
                        loss = objective(bought, *self._masks(bought, draws))
                        self._optimizers[name].zero_grad()
                        torch.autograd.backward(loss)
                        self._optimizers[name].step()
                        losses[name].append(float(loss.detach()))
        d_loss, g_loss = (float(np.mean(found)) if found else 0.0 for found in losses.values())
        return d_loss, g_loss

    def _batches(self, rng: np.random.Generator) -> Iterator[Tensor]:
        order = rng.permutation(self._filled)
        size = min(self.settings.batch_size, max(1, len(order) // 5))
        for first in range(0, len(order), size):
            rows = self.matrix[order[first : first + size]]
            yield torch.from_numpy(rows.toarray())

    def _masks(self, bought: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """Which unobserved entries are pulled to zero, and which the discriminator sees besides the observed."""
        s, free = self.settings, bought == 0
        found = []
        for share in (s.zero_reconstruction, s.partial_masking):
            chosen = torch.zeros_like(bought)
            if share > 0:
                chosen = ((torch.rand(bought.shape, generator=draws) < share) & free).float()
            found.append(chosen)
        return found[0], found[1]

    def judge(self, vector: Tensor, bought: Tensor) -> Tensor:
        """d(vector | the row's own purchases), before the sigmoid."""
        found: Tensor = self.discriminator(torch.cat([vector, bought], 1))
        return found

    def discriminator_loss(self, bought: Tensor, zeros: Tensor, seen: Tensor) -> Tensor:
        with torch.no_grad():
            fake = self.generator(bought).sigmoid() * (bought + seen)
        return (softplus(-self.judge(bought, bought)) + softplus(self.judge(fake, bought))).mean()

    def generator_loss(self, bought: Tensor, zeros: Tensor, seen: Tensor) -> Tensor:
        made = self.generator(bought).sigmoid()
        fooled = softplus(-self.judge(made * (bought + seen), bought)).mean()
        pulled = ((made * zeros) ** 2).sum(1).mean()
        loss: Tensor = fooled + self.settings.zero_weight * pulled
        return loss

    # ------------------------------------------------------------------ what was learned

    @torch.no_grad()
    def network(self) -> dict[str, Array]:
        """The generator as arrays: in_weight, in_bias, out_weight (n_columns, hidden), out_bias, and its hidden
        layer for all rows, hidden (n_rows, hidden)."""
        first, _, last = self.generator
        weight, bias = (p.numpy().astype(np.float32, copy=True) for p in first.parameters())
        out_weight, out_bias = (p.numpy().astype(np.float32, copy=True) for p in last.parameters())
        hidden = np.tanh(np.asarray(self.matrix @ weight.T) + bias).astype(np.float32)
        return {
            "in_weight": weight,
            "in_bias": bias,
            "out_weight": out_weight,
            "out_bias": out_bias,
            "hidden": hidden,
        }

    def state(self) -> dict[str, Array]:
        """Weights and Adam's moments."""
        return adam_state(self._parameters())

    def restore(self, state: dict[str, Array]) -> None:
        restore_adam(self._parameters(), state)

    def _parameters(self) -> Iterator[Optimized]:
        for who, network in (("generator", self.generator), ("discriminator", self.discriminator)):
            for name, parameter in network.named_parameters():
                yield f"{who}.{name}", parameter, self._optimizers[who]
