"""The torch engine: Algorithm 1 with autograd, on CPU or GPU, with any scorer.

The more readable of the two engines. `batches` makes the batches, `modules` has the building blocks, and this file
plays the game: an epoch is a loop over batches, and a step on a batch is a loss and one step of Adam. The cpu engine
takes the same steps, faster, for the dot-product family; tests keep the two in agreement.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from purerec.engines.pure.spec import (
    Batch,
    EpochStats,
    GamePart,
    GameSettings,
    Params,
    check_draws,
    initial_parameters,
    stats_of,
)
from purerec.engines.source import DataSource
from purerec.errors import ConfigError, MissingExtraError, StoreError
from purerec.rng import named_rng
from purerec.sampling.unlabeled import without_full_users
from purerec.types import F32, F64, I32

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import softplus
except ImportError as missing:
    raise MissingExtraError("torch", "torch", purpose="the torch engine") from missing

from purerec.engines.pure.torch.batches import BatchMaker
from purerec.engines.pure.torch.device import one_thread, own_device
from purerec.engines.pure.torch.modules import (
    CONSTRAINTS,
    Discriminator,
    Pairs,
    RealSide,
    generator_loss,
    mean,
    new_generators,
    new_scorer,
    real_side,
    risk,
    softmax_risk,
    squared_length,
)
from purerec.engines.pure.torch.stats import Step, sums_of

BY_ROW = ("user", "item", "user_bias", "item_bias")
"""Parameters with one row per user or item: sparse gradients, SparseAdam."""


class TorchEngine:
    """Plays the game of `spec` on `device` ("auto": a CUDA GPU if there is one).

    `params` may give some or all parameters (say, a pre-trained discriminator); the rest start at random from the
    seed. `scorer_module`, called with (n, d_u) and (n, d_i) embeddings, replaces `settings.scorer`; it is copied, so
    that a second fit starts where the first one did. A part of a larger game has a `part`, and may reuse the
    `batches` of an earlier engine for the same part.
    """

    def __init__(
        self,
        source: DataSource,
        settings: GameSettings,
        *,
        seed: int,
        params: Params | None = None,
        device: str = "auto",
        scorer_module: nn.Module | None = None,
        part: GamePart | None = None,
        batches: BatchMaker | None = None,
    ) -> None:
        if scorer_module is not None:
            settings = replace(settings, scorer="mf")  # no relation, no row biases: the module has what it needs
        self.settings, self.seed = settings, seed
        self.device = own_device() if device == "auto" else torch.device(device)
        positives = source.positives()
        if settings.softmax is not None:
            positives = without_full_users(positives)
        asked, self._unlabeled_weight = (None, 1.0) if part is None else (part.asked, part.weight)
        self._batches = batches or BatchMaker(positives, settings, seed, asked)
        self._weight = {
            "user": self._tensor(positives.counts.astype(np.float64)),
            "item": self._tensor(positives.item_counts.astype(np.float64)),
        }
        self._counters = {"epochs": 0, "generator_epochs": 0}

        self.generators = new_generators(settings).to(self.device)
        with torch.random.fork_rng([]):  # torch's layers draw their own initial values, which are not used
            scorer = new_scorer(settings) if scorer_module is None else copy.deepcopy(scorer_module)
        self.discriminator = Discriminator(*source.shape, settings, scorer).to(self.device)
        # Public names: `relation` or `mlp.0.weight` of our own scorers, `scorer.*` of a custom module.
        own = "scorer." if scorer_module is None else ""
        self._named = {name.removeprefix(own): p for name, p in self.discriminator.named_parameters()}
        self._named |= dict(self.generators.named_parameters())
        self._load(self._initial_parameters(named_rng(seed, "init"), named_rng(seed, "init-mlp")) | (params or {}))
        if scorer_module is not None:
            self._check_scorer()

        of_generators = {name for name, _ in self.generators.named_parameters()}
        dense = [name for name in self._named if name not in BY_ROW and name not in of_generators]
        self._d_optimizers = [
            *self._optimizers(torch.optim.SparseAdam, BY_ROW),
            *self._optimizers(torch.optim.Adam, dense),
        ]
        self._g_optimizers = self._optimizers(torch.optim.Adam, of_generators)

    # --- Epochs

    def train_discriminator(self, *, learning_rate: float, use_fakes: bool = True) -> EpochStats:
        """One epoch over all positives (Algorithm 1, lines 4 to 10)."""
        return stats_of(self.discriminator_sums(learning_rate=learning_rate, use_fakes=use_fakes))

    @one_thread()
    def discriminator_sums(self, *, learning_rate: float, use_fakes: bool = True) -> F64:
        """The same epoch, as (N_SUMS,) sums that can be added to those of other parts."""
        if self.settings.unlabeled_per_epoch < 1:
            raise ConfigError("unlabeled_per_epoch is 0; give the number of unlabeled pairs of an epoch")
        real = self._real_sides()
        with self._randomness("epochs") as rng:
            batches = self._batches.epoch(rng, self._phi, use_fakes=use_fakes)
            return sums_of([self._discriminator_step(batch, real, learning_rate) for batch in batches])

    def train_generators(self, *, learning_rate: float, steps: int) -> EpochStats:
        """Run `steps` generator steps (lines 11 to 16), each on `batch_size` freshly drawn unlabeled pairs."""
        return stats_of(self.generator_sums(learning_rate=learning_rate, steps=steps))

    @one_thread()
    def generator_sums(self, *, learning_rate: float, steps: int) -> F64:
        """The same steps, as (N_SUMS,) sums."""
        if self.settings.generators == "none":
            raise ConfigError("there is no generator to train; set generators to 'item', 'user' or 'both'")
        real = self._real_sides()
        with self._randomness("generator_epochs") as rng:
            batches = (self._batches.for_generators(rng) for _ in range(steps))
            # A batch may be empty: when all its users have touched every item.
            return sums_of([self._generator_step(b, real, learning_rate) for b in batches if b.unl_user.size])

    @torch.no_grad()
    def _phi(self, user: I32, item: I32) -> F32:
        """Scores of pairs in evaluation mode (without dropout, say)."""
        phi = self.discriminator.eval()
        scores: F32 = phi(phi.pairs(self._tensor(user), self._tensor(item))).numpy(force=True)
        phi.train()
        return scores

    # --- Steps

    @one_thread()
    def step_discriminator(self, batch: Batch, *, learning_rate: float) -> float:
        """Take one step on a given batch; return its loss before the update."""
        return self._discriminator_step(batch, self._real_sides(), learning_rate).loss.item()

    @one_thread()
    def step_generators(self, batch: Batch, *, learning_rate: float) -> float:
        """Take one generator step on a given batch; return its loss before the update."""
        return self._generator_step(batch, self._real_sides(), learning_rate).loss.item()

    def _discriminator_step(self, batch: Batch, real: dict[str, RealSide], learning_rate: float) -> Step:
        """Line 9: update the discriminator, with the generators fixed."""
        s, phi = self.settings, self.discriminator
        positive = phi.pairs(self._tensor(batch.pos_user), self._tensor(batch.pos_item))
        unlabeled = phi.pairs(self._tensor(batch.unl_user), self._tensor(batch.unl_item))
        fakes = self._fakes(batch, unlabeled, real)
        phi_p, phi_u, phi_fakes = phi(positive), phi(unlabeled), [phi(pairs) for pairs in fakes]

        of_fakes = sum(mean(softplus(phi_f)) for phi_f in phi_fakes)
        if s.softmax is not None:
            check_draws(batch, s)
            loss, d_p, d_u = softmax_risk(phi_p, phi_u, s.softmax)
        else:
            weights = replace(s.logistic, unlabeled=s.logistic.unlabeled * self._unlabeled_weight)
            loss, d_p, d_u = risk(phi_p, phi_u, weights), phi_p.sigmoid(), phi_u.sigmoid()
        loss = loss + s.fake_weight / s.prior * of_fakes
        loss = loss + s.regularization / 2 * (squared_length(positive) + squared_length(unlabeled))
        _descend(loss, self._d_optimizers, learning_rate)
        return Step.of(loss, d_p, d_u, phi_fakes, fakes)

    def _generator_step(self, batch: Batch, real: dict[str, RealSide], learning_rate: float) -> Step:
        """Line 15: update the generators, with the discriminator fixed."""
        phi = self.discriminator
        unlabeled = phi.pairs(self._tensor(batch.unl_user), self._tensor(batch.unl_item))
        fakes = self._fakes(batch, unlabeled, real)
        if not fakes:
            raise ConfigError("a generator step needs noise; give the batch item_noise or user_noise")
        phi_fakes = [phi(pairs) for pairs in fakes]

        loss = torch.stack([generator_loss(phi_f, self.settings) for phi_f in phi_fakes]).sum()
        _descend(loss, self._g_optimizers, learning_rate)
        nothing = phi_fakes[0][:0]
        return Step.of(loss, nothing, nothing, phi_fakes, fakes)

    def _fakes(self, batch: Batch, unlabeled: Pairs, real: dict[str, RealSide]) -> list[Pairs]:
        """Lines 8 and 14: the first unlabeled pairs as (u, i') and as (u', i)."""
        fakes = []
        if n := len(batch.item_noise):
            pairs = unlabeled.first(n)
            fake = self._generate("item", batch.item_noise, pairs.e_u, real)
            fakes.append(pairs._replace(item_idx=None, e_i=fake))
        if n := len(batch.user_noise):
            pairs = unlabeled.first(n)
            fake = self._generate("user", batch.user_noise, pairs.e_i, real)
            fakes.append(pairs._replace(user_idx=None, e_u=fake))
        return fakes

    def _generate(self, side: str, noise: F32, condition: Tensor, real: dict[str, RealSide]) -> Tensor:
        x = self._tensor(noise)
        if self.settings.conditional:
            # Detached: the condition is an input. The embedding must not learn to steer the generator.
            x = torch.cat([x, condition.detach()], 1)
        fake: Tensor = self.generators[f"{side}_gen"](x)
        return CONSTRAINTS[self.settings.constraint](fake, real[side]) if side in real else fake

    def _real_sides(self) -> dict[str, RealSide]:
        if self.settings.constraint == "none":
            return {}
        sides = [name.removesuffix("_gen") for name in self.generators]
        return {side: real_side(self._named[side], self._weight[side]) for side in sides}

    # --- Parameters, checkpoints

    def parameters(self) -> Params:
        """Copies of what `spec.Engine.parameters` lists, `mlp.*`, and `scorer.*` of a custom module."""
        return {name: _array(p) for name, p in self._named.items()}

    def norms(self) -> dict[str, float]:
        """Mean lengths of the vectors, and the bias."""
        with torch.no_grad():
            lengths = {side: torch.linalg.vector_norm(self._named[side], dim=1) for side in ("user", "item")}
            found = {f"{side}_norm": each.mean().item() for side, each in lengths.items()}
        return found | {"bias": self._named["bias"].item()}

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Parameters; `<name>/m`, `/v`, `/step` of Adam; a scorer module's buffers; the random state."""
        state: dict[str, npt.NDArray[np.generic]] = dict(self.parameters())
        for name, p, optimizer in self._optimized():
            adam = optimizer.state.get(p) or {"step": 0, "exp_avg": p * 0, "exp_avg_sq": p * 0}
            state[f"{name}/m"], state[f"{name}/v"] = _array(adam["exp_avg"]), _array(adam["exp_avg_sq"])
            state[f"{name}/step"] = np.array(int(adam["step"]))
        state |= {f"{name}/buffer": _array(buffer) for name, buffer in self.discriminator.named_buffers()}
        counters = self._counters | {"draws": self._batches.draws}
        return state | {f"counter/{name}": np.array(n) for name, n in counters.items()}

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None:
        """Continue from the `state` of an engine with the same data, settings and seed."""
        if odd := self.state_names() ^ state.keys():
            raise StoreError(f"the checkpoint has other settings or another engine: {', '.join(sorted(odd)[:5])}")
        self._load({name: np.asarray(state[name], np.float32) for name in self._named})
        for name, p, optimizer in self._optimized():
            step = int(np.asarray(state[f"{name}/step"], np.int64))
            optimizer.state[p] = {
                # SparseAdam counts in a Python integer, Adam in a tensor.
                "step": step if isinstance(optimizer, torch.optim.SparseAdam) else torch.tensor(float(step)),
                "exp_avg": self._tensor(state[f"{name}/m"]),
                "exp_avg_sq": self._tensor(state[f"{name}/v"]),
            }
        for name, buffer in self.discriminator.named_buffers():
            buffer.copy_(self._tensor(state[f"{name}/buffer"]))
        counters = {name: int(np.asarray(state[f"counter/{name}"], np.int64)) for name in (*self._counters, "draws")}
        self._batches.draws = counters.pop("draws")
        self._counters = counters

    def state_names(self) -> set[str]:
        """The names in `state`."""
        names = {*self._named, *(f"counter/{name}" for name in (*self._counters, "draws"))}
        names |= {f"{name}/{part}" for name, _, _ in self._optimized() for part in ("m", "v", "step")}
        return names | {f"{name}/buffer" for name, _ in self.discriminator.named_buffers()}

    # --- Set-up

    def _initial_parameters(self, rng: np.random.Generator, mlp_rng: np.random.Generator) -> Params:
        """`spec.initial_parameters`, plus lecun-uniform for `mlp`, and a custom module's own initial values."""
        start = initial_parameters(len(self._named["user"]), len(self._named["item"]), self.settings, rng)
        for name, p in self._named.items():
            if name.startswith("scorer."):
                start[name] = _array(p)
            elif name.startswith("mlp."):
                limit = math.sqrt(3 / p.shape[1]) if p.ndim == 2 else 0.0
                start[name] = mlp_rng.uniform(-limit, limit, p.shape).astype(np.float32)
        return start

    def _load(self, params: Params) -> None:
        if unknown := params.keys() - self._named.keys():
            raise ConfigError(f"unknown parameter {min(unknown)}; there are {', '.join(self._named)}")
        for name, p in self._named.items():
            if params[name].shape != p.shape:
                raise ConfigError(f"{name} must have shape {tuple(p.shape)}, not {params[name].shape}")
            p.data.copy_(self._tensor(params[name]))

    @torch.no_grad()
    def _check_scorer(self) -> None:
        e_u, e_i = (torch.zeros(2, dim, device=self.device) for dim in (self.settings.dim, self.settings.dim_i))
        shape = tuple(self.discriminator.scorer.eval()(e_u, e_i).shape)
        self.discriminator.scorer.train()
        if shape != (2,):
            raise ConfigError(f"scorer_module must give one logit per pair, shape (2,) for two, not {shape}")

    def _optimizers(self, kind: Any, names: Iterable[str]) -> list[torch.optim.Optimizer]:
        """One optimizer for those named parameters that exist and are trained; none if there are none."""
        s = self.settings
        trained = [p for name, p in self._named.items() if name in names and p.requires_grad]
        return [kind(trained, betas=(s.beta1, s.beta2), eps=s.epsilon)] if trained else []

    def _optimized(self) -> Iterator[tuple[str, nn.Parameter, torch.optim.Optimizer]]:
        name_of = {p: name for name, p in self._named.items()}
        for optimizer in (*self._d_optimizers, *self._g_optimizers):
            for p in optimizer.param_groups[0]["params"]:
                yield name_of[p], p, optimizer

    @contextmanager
    def _randomness(self, purpose: str) -> Iterator[np.random.Generator]:
        """The random generator of the next epoch; it also seeds torch's own, which dropout in a module uses."""
        rng = named_rng(self.seed, f"torch-{purpose}-{self._counters[purpose]}")
        self._counters[purpose] += 1
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(rng.integers(2**63)))
            yield rng

    def _tensor(self, array: npt.NDArray[Any]) -> Tensor:
        """A copy on the device, with integers as int64, torch's index type."""
        return torch.tensor(array, device=self.device, dtype=torch.int64 if array.dtype.kind in "iu" else None)


def _descend(loss: Tensor, optimizers: list[torch.optim.Optimizer], learning_rate: float) -> None:
    """One step of Adam on the parameters of these optimizers and on no others."""
    moving = [p for optimizer in optimizers for p in optimizer.param_groups[0]["params"]]
    torch.autograd.backward(loss, inputs=moving)
    for optimizer in optimizers:
        optimizer.param_groups[0]["lr"] = learning_rate
        optimizer.step()
        optimizer.zero_grad()


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.numpy(force=True).copy()
