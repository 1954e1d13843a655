"""Some of the users: their rows and positives, and an engine that trains them on one block of items at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.distributed.schedule import Schedule
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.cpu.memory import SUFFIXES, Memory, padded, zeros
from purerec.engines.pure.spec import EngineName, GamePart, GameSettings, initial_parameters
from purerec.engines.source import MemorySource
from purerec.rng import key64, named_rng
from purerec.types import F32, F64, I64

ROWS = ("user", "item", "user_bias", "item_bias")
"""Parameters with a row for each user or item; all others are identical in every shard"""


@dataclass(frozen=True)
class Block:
    """The rows of some items with their moments, in the layout of the kernels."""

    item: F32
    item_bias: F32

    @classmethod
    def empty(cls, n_items: int, settings: GameSettings) -> Block:
        return cls(zeros(n_items * 3 * padded(settings.dim_i)), zeros(n_items * 4 * (settings.scorer == "fm")))


@dataclass(frozen=True)
class Whole:
    """What a shard needs to know about the whole game."""

    engine: EngineName
    settings: GameSettings
    seed: int
    n_users: int
    n_positives: int
    schedule: Schedule

    def key(self, purpose: str) -> int:
        return int(key64(self.seed, f"{purpose}, {self.schedule.n_shards} shards"))

    def steps_before(self, epoch: int, turn: int) -> int:
        """The number of steps a single process would have taken by then, for Adam's bias correction."""
        done = epoch * self.schedule.n_shards + turn
        return done * self.n_positives // (self.schedule.n_shards * self.settings.batch_size)


class PartEngine(Protocol):
    """Trains the rows in the memory of its shard. For the sums, see `spec`."""

    def set_counters(self, **counters: int) -> None:
        """Continue from these numbers of epochs and steps, which determine random draws and Adam's steps."""

    def discriminator_sums(self, *, learning_rate: float, use_fakes: bool) -> F64: ...

    def generator_sums(self, *, learning_rate: float, steps: int) -> F64: ...


class Shard:
    """`positives`: of these users, numbered from 0, with all items, numbered block by block."""

    def __init__(self, number: int, users: I64, positives: Csr, whole: Whole) -> None:
        self.number, self.users, self.whole = number, users, whole
        self.memory = Memory(len(users), whole.schedule.largest, whole.settings)
        self._part_engines = [self._part_engine(positives, block) for block in range(whole.schedule.n_shards)]

    def _part_engine(self, positives: Csr, block: int) -> PartEngine | None:
        """The engine for one block; None if nothing can be learned there."""
        whole, items = self.whole, self.whole.schedule.block(block)
        if not len(items) or not len(positives):
            return None
        source = MemorySource(positives).part(items=items)
        counts, n = source.positives().counts, len(source.positives())
        if not np.any((counts > 0) & (counts < len(items))):
            return None
        of_users, of_items = len(positives) / whole.n_positives, len(items) / positives.shape[1]
        if whole.settings.unlabeled == "global":  # drawn from all pairs, not for the users of positives
            of_users = len(self.users) / whole.n_users
        drawn = max(1, round(whole.settings.unlabeled_per_epoch * of_users * of_items))
        weight = drawn / whole.settings.unlabeled_per_epoch / (n / whole.n_positives)
        settings = replace(whole.settings, unlabeled_per_epoch=drawn)
        seed, part = whole.key(f"shard {self.number}, block {block}"), GamePart(positives.users, weight)
        if whole.engine == "torch":
            from purerec.engines.distributed.on_device import TorchPart

            return TorchPart(source, settings, seed=seed, part=part, memory=self.memory)
        return CpuEngine(source, settings, seed=seed, threads=1, part=part, memory=self.memory)

    def start(self) -> Block:
        """Random initial parameters; those of items belong to the first block of this shard."""
        whole, n = self.whole, len(self.whole.schedule.block(self.number))
        block = Block.empty(n, whole.settings)
        self._hold(block)
        own = named_rng(whole.key(f"start of {self.number}"), "init")
        random = initial_parameters(len(self.users), n, whole.settings, own)
        # All shards start with the same, single pair of generators.
        shared = initial_parameters(1, 1, whole.settings, named_rng(whole.seed, "init"))
        self.memory.write(0, random | {name: value for name, value in shared.items() if "_gen." in name})
        return block

    def train(self, block: Block, epoch: int, turn: int, learning_rate: float, use_fakes: bool) -> F64 | None:
        """Make one pass over the positives in a block; return its sums."""
        engine = self._part_engines[self.whole.schedule.block_at(self.number, turn)]
        if engine is None:
            return None
        self._hold(block)
        engine.set_counters(steps=self.whole.steps_before(epoch, turn), epochs=epoch)
        return engine.discriminator_sums(learning_rate=learning_rate, use_fakes=use_fakes)

    def train_generators(
        self, block: Block, learning_rate: float, steps: int, steps_before: int, epoch: int
    ) -> F64 | None:
        engine = self._part_engines[self.number]
        if engine is None:
            return None
        self._hold(block)
        engine.set_counters(generator_steps=steps_before, generator_epochs=epoch)
        return engine.generator_sums(learning_rate=learning_rate, steps=steps)

    def norm_sums(self, block: Block) -> tuple[float, float]:
        """The sums of the norms of its users' vectors, and of those of the items in a block."""
        self._hold(block)
        views = self.memory.views(0)
        user, item = (float(np.linalg.norm(views[side], axis=1).sum(dtype=np.float64)) for side in ("user", "item"))
        return user, item

    def rows(self, block: Block) -> dict[str, F32]:
        """Parameters and moments of its users and of the items in a block, as views, by their names in a state."""
        self._hold(block)
        return {
            f"{name}{suffix}": view
            for part, suffix in enumerate(SUFFIXES)
            for name, view in self.memory.views(part).items()
            if name in ROWS
        }

    def _hold(self, block: Block) -> None:
        self.memory.model = self.memory.model._replace(item=block.item, item_bias=block.item_bias)
