"""The torch engine for one block of items of a shard, on this process's device: a GPU if there is one.

Between turns, all rows are in the shard's memory, as with the cpu engine: blocks rotate and checkpoints are written
in the same way. A turn copies the rows and their moments to the device, trains, and copies them back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from purerec.engines.pure.cpu.memory import COUNTERS, SUFFIXES, Memory
from purerec.engines.pure.spec import GamePart, GameSettings
from purerec.engines.pure.torch.batches import BatchMaker
from purerec.engines.pure.torch.engine import TorchEngine
from purerec.engines.source import DataSource
from purerec.rng import key64
from purerec.types import F64, State


class TorchPart:
    """See `shard.PartEngine`."""

    def __init__(
        self, source: DataSource, settings: GameSettings, *, seed: int, part: GamePart, memory: Memory
    ) -> None:
        self._source, self._settings, self._seed = source, settings, seed
        self._part, self._memory = part, memory
        self._batches = BatchMaker(source.positives(), settings, seed, part.asked)
        self._counters = dict.fromkeys(COUNTERS, 0)

    def set_counters(self, **counters: int) -> None:
        self._counters |= counters

    def discriminator_sums(self, *, learning_rate: float, use_fakes: bool) -> F64:
        with self._engine(f"epoch {self._counters['epochs']}") as engine:
            return engine.discriminator_sums(learning_rate=learning_rate, use_fakes=use_fakes)

    def generator_sums(self, *, learning_rate: float, steps: int) -> F64:
        with self._engine(f"generator epoch {self._counters['generator_epochs']}") as engine:
            return engine.generator_sums(learning_rate=learning_rate, steps=steps)

    @contextmanager
    def _engine(self, now: str) -> Iterator[TorchEngine]:
        # Draws depend on the epoch, not on what this process has drawn before.
        self._batches.seed, self._batches.draws = int(key64(self._seed, now)), 0
        engine = TorchEngine(
            self._source,
            self._settings,
            seed=self._batches.seed,
            part=self._part,
            batches=self._batches,
        )
        here = [self._memory.read(part) for part in range(len(SUFFIXES))]
        known: State = {
            f"{name}{suffix}": a for part, suffix in zip(here, SUFFIXES, strict=True) for name, a in part.items()
        }
        for name in here[0]:
            known[f"{name}/step"] = np.array(self._counters["generator_steps" if "_gen." in name else "steps"])
        engine.restore({name: known.get(name, np.array(0)) for name in engine.state_names()})
        yield engine
        known |= engine.state()
        for part, suffix in enumerate(SUFFIXES):
            self._memory.write(part, {name: np.asarray(known[f"{name}{suffix}"], np.float32) for name in here[0]})
