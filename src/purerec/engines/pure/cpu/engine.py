"""The cpu engine: the game of `spec`, in compiled kernels, for scorers of the dot-product family."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from purerec.engines.pure import spec
from purerec.engines.pure.cpu import epochs
from purerec.engines.pure.cpu.constraints import RECOLOUR
from purerec.engines.pure.cpu.discriminator import discriminator_step
from purerec.engines.pure.cpu.dynamic_negatives import Choice
from purerec.engines.pure.cpu.epochs import discriminator_epoch, generators_epoch
from purerec.engines.pure.cpu.generators import step_both
from purerec.engines.pure.cpu.grid import Grid, new_grid
from purerec.engines.pure.cpu.kernels import GeneratorMemory, Work
from purerec.engines.pure.cpu.memory import (
    COUNTERS,
    STREAMS,
    Memory,
    kernel_settings,
    pack_state,
    padded,
    parameter_shapes,
    unpack_state,
)
from purerec.engines.pure.cpu.team import Pace, TeamMember, cores, run_both, two_members
from purerec.engines.pure.spec import (
    PENALTY,
    Batch,
    EpochStats,
    GamePart,
    GameSettings,
    Params,
    check_batch,
    check_draws,
    initial_parameters,
)
from purerec.engines.source import DataSource, check_learnable
from purerec.errors import ConfigError, DivergedError
from purerec.jit.counter_rng import splitmix64
from purerec.rng import key64, named_rng
from purerec.sampling.unlabeled import UnlabeledSampler, without_full_users
from purerec.training.history import mean_norms
from purerec.types import F64, U64, State

_MORE_STREAMS = np.uint64(0x5DEECE66D5DEECE6)
_WORTH_TWO = 1 << 17
"""Values in the embeddings of a batch above which a second thread pays off: 2,048 pairs of 64."""


class CpuEngine:
    """Trains on one core or two, with sampling and generators fused into the steps. See `spec.Engine`.

    `params`, unpadded, replace some or all random initial values. `threads` is 1, 2 or None: two if they pay off; the
    parameters do not depend on it. `memory_mb` bounds the bitmap of observed pairs. A part of a larger game has a
    `part`, and may share its `memory`, parameters included, with other parts.
    """

    def __init__(
        self,
        source: DataSource,
        settings: GameSettings,
        *,
        seed: int,
        params: Params | None = None,
        threads: Literal[1, 2] | None = None,
        memory_mb: float = 256.0,
        part: GamePart | None = None,
        memory: Memory | None = None,
    ) -> None:
        if threads not in (None, 1, 2):
            raise ConfigError(f"threads must be 1, 2 or None, not {threads}")
        self.settings, self._threads, self._kernel_settings = settings, threads, kernel_settings(settings)
        n_items, data = source.shape[1], source.positives()
        if settings.softmax is not None:
            data = without_full_users(data)
        check_learnable(data)
        self._sampler = UnlabeledSampler(data.indptr, data.indices, n_items, memory_mb=memory_mb, full_users="skip")
        tables = self._sampler.tables
        degree = np.diff(tables.indptr)
        # Two threads can share neither a bilinear relation nor the count of draws that found nothing.
        self._can_share = settings.scorer != "bilinear" and bool(degree.max() < n_items)
        self._weights = {"user": degree, "item": tables.weight}
        self._pairs = np.empty(tables.indices.size, np.uint64)
        self._keys = stream_keys(seed)
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._grid: Grid | None = None
        self._asked = None
        if part is not None:
            self._asked = part.asked
            self._kernel_settings = self._kernel_settings._replace(
                unlabeled=self._kernel_settings.unlabeled * part.weight
            )

        self._shapes = parameter_shapes(tables.n_users, n_items, settings)
        for name, value in (params or {}).items():
            if self._shapes.get(name) != np.shape(value):
                raise ConfigError(
                    f"parameter {name} of shape {np.shape(value)} does not fit; there are {self._shapes}"
                )
        if memory is None:
            memory, rng = Memory(tables.n_users, n_items, settings), named_rng(seed, "init")
            memory.write(0, initial_parameters(tables.n_users, n_items, settings, rng) | (params or {}))
        self._memory = memory

    # --- Epochs

    def train_discriminator(self, *, learning_rate: float, use_fakes: bool = True) -> EpochStats:
        """One epoch over all positives."""
        return spec.stats_of(self.discriminator_sums(learning_rate=learning_rate, use_fakes=use_fakes))

    def discriminator_sums(self, *, learning_rate: float, use_fakes: bool = True) -> F64:
        """The same epoch, as (spec.N_SUMS,) sums that can be added to those of other parts."""
        s, memory = self.settings, self._memory
        if s.unlabeled_per_epoch < 1:
            raise ConfigError("unlabeled_per_epoch is 0; give the number of unlabeled pairs of an epoch")
        n_batches = -(-self._pairs.size // s.batch_size)
        n_pos, n_unl, n_columns = min(s.batch_size, self._pairs.size), -(-s.unlabeled_per_epoch // n_batches), 0
        n_numbers = (n_pos + n_unl) * padded(max(s.dim, s.dim_i))
        if s.unlabeled == "shared":
            n_columns = s.shared_items(self._pairs.size, self._sampler.tables.n_items)
            n_unl = max(n_pos, n_columns)
            self._make_grid(n_pos, n_columns)
        memory.make_room(n_pos, n_unl, n_unl if use_fakes else 0)
        self._update_real_moments()

        def epoch(work: Work, choice: Choice | None, team: TeamMember | None, sums: F64) -> None:
            discriminator_epoch(
                self._sampler.tables,
                self._pairs,
                memory.model,
                work,
                self._kernel_settings,
                memory.sides.get("item"),
                memory.sides.get("user"),
                choice,
                team,
                self._grid,
                self._asked,
                epochs.DRAWS[s.unlabeled],
                s.batch_size,
                s.unlabeled_per_epoch,
                n_columns,
                float(s.fake_ratio) if use_fakes else 0.0,
                float(learning_rate),
                self._counters["steps"],
                self._epoch_keys(2 * self._counters["epochs"]),
                sums,
            )

        sums, others = np.zeros(spec.N_SUMS), np.zeros(spec.N_SUMS)
        if self._can_share and self._use_two(n_numbers >= _WORTH_TWO):
            first, second = two_members()
            more = memory.for_second_thread()
            share = run_both(
                lambda: epoch(memory.work, memory.choice, first, sums), lambda: epoch(*more, second, others)
            )
            self._pace.note(share)
            for part in (spec.PENALTY, spec.FAKE_NORM):  # the rest is the same for both
                sums[part] += others[part]
        else:
            epoch(memory.work, memory.choice, None, sums)
        self._counters["steps"] += int(sums[spec.N_STEPS])
        self._counters["epochs"] += 1
        return sums

    def train_generators(self, *, learning_rate: float, steps: int) -> EpochStats:
        """Run `steps` generator steps, each on `batch_size` freshly drawn unlabeled pairs."""
        return spec.stats_of(self.generator_sums(learning_rate=learning_rate, steps=steps))

    def generator_sums(self, *, learning_rate: float, steps: int) -> F64:
        """The same steps, as (spec.N_SUMS,) sums."""
        self._need_generators()
        s, memory = self.settings, self._memory
        memory.make_room(s.batch_size, 0, s.batch_size)
        self._update_real_moments()

        def epoch(work: Work, item: GeneratorMemory | None, user: GeneratorMemory | None, sums: F64) -> None:
            generators_epoch(
                self._sampler.tables,
                memory.model,
                work,
                self._kernel_settings,
                item,
                user,
                epochs.DRAWS[s.unlabeled],
                s.batch_size,
                steps,
                float(learning_rate),
                self._counters["generator_steps"],
                self._epoch_keys(2 * self._counters["generator_epochs"] + 1),
                sums,
            )

        item_side, user_side = memory.sides.get("item"), memory.sides.get("user")
        sums, others = np.zeros(spec.N_SUMS), np.zeros(spec.N_SUMS)
        if item_side is not None and user_side is not None and self._use_two(True):
            # The generators are independent: each thread draws the same pairs and trains one of them.
            apart = memory.apart()
            share = run_both(
                lambda: epoch(memory.work, item_side, None, sums), lambda: epoch(apart, None, user_side, others)
            )
            self._pace.note(share)
            for part in (spec.LOSS, spec.D_FAKE, spec.FAKE_NORM, spec.N_FAKES):
                sums[part] += others[part]
        else:
            epoch(memory.work, item_side, user_side, sums)
        self._counters["generator_steps"] += int(sums[spec.N_STEPS])
        self._counters["generator_epochs"] += 1
        return sums

    def set_counters(self, **counters: int) -> None:
        """Continue from these numbers of epochs and steps, on which random draws and Adam depend."""
        self._counters |= counters

    @cached_property
    def _pace(self) -> Pace:
        return Pace()

    def _use_two(self, pays: bool) -> bool:
        return self._threads == 2 or (self._threads is None and pays and cores() > 1 and self._pace.two())

    # --- Steps

    def step_discriminator(self, batch: Batch, *, learning_rate: float) -> float:
        """Take one step on a given batch; return its loss before the update."""
        check_batch(batch, (self._memory.n_users, self._memory.n_items), self.settings)
        check_draws(batch, self.settings)
        n_pos, n_unl = batch.pos_user.size, batch.unl_user.size
        n_items, n_users = len(batch.item_noise), len(batch.user_noise)
        memory = self._memory
        memory.make_room(n_pos, n_unl, max(n_items, n_users))
        self._update_real_moments()
        w, unl = memory.work, padded(n_pos)
        w.users[:n_pos], w.items[:n_pos] = batch.pos_user, batch.pos_item
        w.users[unl : unl + n_unl], w.items[unl : unl + n_unl] = batch.unl_user, batch.unl_item
        memory.put_noise("item", batch.item_noise)
        memory.put_noise("user", batch.user_noise)
        self._counters["steps"] += 1
        loss: float = discriminator_step(
            memory.model,
            w,
            self._kernel_settings,
            memory.sides.get("item"),
            memory.sides.get("user"),
            None,
            None,
            self._sampler.tables,
            n_pos,
            n_unl,
            0,
            n_items,
            n_users,
            float(learning_rate),
            self._counters["steps"],
        )
        return loss + float(w.report[PENALTY])

    def step_generators(self, batch: Batch, *, learning_rate: float) -> float:
        """Take one generator step on a given batch; return its loss before the update."""
        self._need_generators()
        check_batch(batch, (self._memory.n_users, self._memory.n_items), self.settings)
        n_items, n_users = len(batch.item_noise), len(batch.user_noise)
        n = max(n_items, n_users)
        memory = self._memory
        memory.make_room(n, 0, n)
        self._update_real_moments()
        memory.work.users[:n], memory.work.items[:n] = batch.unl_user[:n], batch.unl_item[:n]
        memory.put_noise("item", batch.item_noise)
        memory.put_noise("user", batch.user_noise)
        self._counters["generator_steps"] += 1
        sums = np.zeros(spec.N_SUMS)
        step_both(
            memory.sides.get("item"),
            memory.sides.get("user"),
            memory.model,
            memory.work,
            self._kernel_settings,
            n_items,
            n_users,
            float(learning_rate),
            self._counters["generator_steps"],
            sums,
        )
        return float(sums[spec.LOSS])

    # --- Parameters and state

    def parameters(self) -> Params:
        """Copies, unpadded; see `spec.Engine`."""
        return self._memory.read(0)

    def norms(self) -> dict[str, float]:
        """Mean lengths of the vectors, and the bias."""
        views = self._memory.views(0)
        return mean_norms(views) | {"bias": float(views["bias"][0])}

    def state(self) -> State:
        """Parameters by name, `name/m` and `name/v` for Adam's moments, counters and random keys."""
        return pack_state(self._memory, self._counters, self._keys)

    def restore(self, state: State) -> None:
        """Continue from `state`, bit for bit."""
        self._counters, self._keys = unpack_state(state, self._memory)

    # --- Preparing a call

    def _make_grid(self, n_rows: int, n_columns: int) -> None:
        if self._grid is None:
            n_items, widths = self._sampler.tables.n_items, self._memory.widths
            self._grid = new_grid(n_rows, n_columns, n_items, widths["user"], widths["item"])

    def _update_real_moments(self) -> None:
        """Mean, covariance and mean norm of the real embeddings, weighted by number of positives."""
        if self.settings.constraint == "none":
            return
        views = self._memory.views(0)
        for name, side in self._memory.sides.items():
            share = self._weights[name] / self._weights[name].sum()
            rows, d = views[name].astype(np.float64), side.dim
            if not np.all(np.isfinite(rows)):
                raise DivergedError(f"{name} embeddings are no longer finite; lower learning_rate")
            mean = share @ rows
            side.real_mean[:d] = mean
            side.real_norm[0] = share @ np.linalg.norm(rows, axis=1)
            if side.constraint == RECOLOUR:
                rows -= mean
                covariance = (rows * share[:, None]).T @ rows
                covariance += np.eye(d) * (1e-6 * np.trace(covariance) / d + 1e-12)
                side.real_factor.reshape(padded(d), -1)[:d, :d] = np.linalg.cholesky(covariance)

    def _epoch_keys(self, number: int) -> U64:
        keys = [splitmix64(key, np.uint64(number)) for key in self._keys]
        # For candidates, the choice among them, and users; derived, since a checkpoint has one for each stream.
        more = [splitmix64(keys[epochs.DRAW] ^ _MORE_STREAMS, np.uint64(n)) for n in range(3)]
        return np.array(keys + more, np.uint64)

    def _need_generators(self) -> None:
        if self.settings.generators == "none":
            raise ConfigError("there is no generator to train; set generators to 'item', 'user' or 'both'")


def stream_keys(seed: int) -> U64:
    """(4,) a key for each random stream of a fit."""
    return np.array([key64(seed, f"cpu {name}") for name in STREAMS])
