"""An engine whose work is shared by the processes of a group.

It is in the first process, together with the model, the data and the checkpoints; the others `serve`. Models and
training code are unaware of it: `registry.new_engine` creates one if there is a group.

The state is the cpu engine's, so that a fit can continue with a different number of workers, or in one process.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from purerec.engines.distributed.crew import ITEM, ITEM_BIAS, USER, USER_BIAS, Rows, lead
from purerec.engines.distributed.group import Group
from purerec.engines.distributed.shard import ROWS
from purerec.engines.pure.cpu.engine import stream_keys
from purerec.engines.pure.cpu.memory import COUNTERS, Memory, pack_state, unpack_state
from purerec.engines.pure.spec import N_STEPS, Batch, EngineName, EpochStats, GameSettings, Params, stats_of
from purerec.engines.source import DataSource
from purerec.errors import ConfigError
from purerec.storage import Digests
from purerec.types import State

_SIDES = {"user": (USER, USER_BIAS), "item": (ITEM, ITEM_BIAS)}


class DistributedEngine:
    """See `spec.Engine`. `n_shards`: by default one per worker. `engine`: the engine that each worker uses."""

    def __init__(
        self,
        source: DataSource,
        settings: GameSettings,
        *,
        seed: int,
        group: Group,
        params: Params | None = None,
        n_shards: int | None = None,
        engine: EngineName = "cpu",
    ) -> None:
        _check(settings)
        self.settings, self._group, self._shape = settings, group, source.shape
        n = n_shards or group.size
        if n < group.size:
            raise ConfigError(f"{group.size} workers cannot share {n} shards; use at least as many shards as workers")
        if min(source.shape) < n:
            raise ConfigError(f"{source.shape[0]} users and {source.shape[1]} items are too few for {n} workers")
        # All workers would need a global bias at once; the biases of users and items replace it.
        self._crew = lead(group, source.positives(), engine, replace(settings, train_bias=False), seed, n)
        self._counters, self._keys = dict.fromkeys(COUNTERS, 0), stream_keys(seed)
        if params:
            self.restore({**self.state(), **params})

    # ------------------------------------------------------------------ training

    def train_discriminator(self, *, learning_rate: float, use_fakes: bool = True) -> EpochStats:
        """Train one epoch over all positives."""
        epoch = self._counters["epochs"]
        fakes = use_fakes and self.settings.generators != "none"
        sums = self._all("discriminator", learning_rate=float(learning_rate), use_fakes=fakes, epoch=epoch)
        self._counters |= {"epochs": epoch + 1, "steps": self._crew.whole.steps_before(epoch + 1, 0)}
        return stats_of(sums)

    def train_generators(self, *, learning_rate: float, steps: int) -> EpochStats:
        """Take `steps` / n_shards generator steps, in one shard: a different one in each call."""
        before, epoch = self._counters["generator_steps"], self._counters["generator_epochs"]
        n = max(1, steps // self._crew.schedule.n_shards)
        sums = self._all("generators", learning_rate=float(learning_rate), steps=n, steps_before=before, epoch=epoch)
        self._counters |= {"generator_epochs": epoch + 1, "generator_steps": before + int(sums[N_STEPS])}
        return stats_of(sums)

    def step_discriminator(self, batch: Batch, *, learning_rate: float) -> float:
        raise ConfigError("single steps are not shared between workers; use engine='cpu'")

    def step_generators(self, batch: Batch, *, learning_rate: float) -> float:
        raise ConfigError("single steps are not shared between workers; use engine='cpu'")

    def norms(self) -> dict[str, float]:
        """user_norm and item_norm, and bias."""
        user, item = self._all("norms")
        bias = self._crew.shards[0].memory.model.bias[0]
        return {"user_norm": user / self._shape[0], "item_norm": item / self._shape[1], "bias": float(bias)}

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds that the first process has spent computing and exchanging blocks (including waiting)."""
        return dict(self._crew.seconds)

    # ------------------------------------------------------------------ parameters

    def parameters(self) -> Params:
        """Copies of all parameters, wherever they are."""
        return self._memory().read(0)

    def state(self) -> State:
        """The same state as the cpu engine's."""
        return pack_state(self._memory(), self._counters, self._keys)

    def restore(self, state: State) -> None:
        memory = Memory(*self._shape, self.settings)
        self._counters, self._keys = unpack_state(state, memory)
        whole, schedule = memory.model, self._crew.schedule
        self._group.tell({"do": "deliver"})
        for number in range(schedule.n_shards):
            given: Rows = {}
            for side, ids in (("user", self._crew.users_of(number)), ("item", schedule.items(number))):
                for kind, table in zip(
                    _SIDES[side], (getattr(whole, side), getattr(whole, f"{side}_bias")), strict=True
                ):
                    n = self._shape[side == "item"]
                    given[kind] = table.reshape(n, -1)[ids].ravel()
            self._crew.deliver(number, {kind: array.size for kind, array in given.items()}, given)
        self._crew.set_generators({side: theirs.theta for side, theirs in memory.sides.items()})
        self._crew.share_generators(0)

    def write_parts(self, folder: Path, generation: int) -> tuple[State, Digests]:
        """Have every process write its rows; return the rest of the state, and the checksums of the files."""
        parts: Digests = self._all("write_parts", folder=str(folder.absolute()), generation=generation)
        whole = pack_state(self._crew.shards[0].memory, self._counters, self._keys)
        return {name: array for name, array in whole.items() if not _is_row(name)}, parts

    def restore_parts(self, rest: State, folder: Path, parts: Digests) -> None:
        """The inverse of `write_parts`."""
        small = Memory(1, 1, self.settings)  # its single user and item are dummies
        nobody = {name: a for name, a in pack_state(small, self._counters, self._keys).items() if _is_row(name)}
        self._counters, self._keys = unpack_state(nobody | rest, small)
        self._all("read_parts", folder=str(folder.absolute()), parts=dict(parts))
        self._crew.set_generators({side: theirs.theta for side, theirs in small.sides.items()})
        self._all("share_generators", number=0)

    def _memory(self) -> Memory:
        """All parameters and moments in one process."""
        memory, schedule = Memory(*self._shape, self.settings), self._crew.schedule
        self._group.tell({"do": "collect"})
        for number in range(schedule.n_shards):
            users = self._crew.users_of(number)
            rows = self._crew.collect(number, _sizes(memory, users.size, len(schedule.block(number))))
            assert rows is not None, "the first process collects"
            for side, ids in (("user", users), ("item", schedule.items(number))):
                for kind, name in zip(_SIDES[side], (side, f"{side}_bias"), strict=True):
                    table = getattr(memory.model, name).reshape(self._shape[side == "item"], -1)
                    table[ids] = rows[kind].reshape(ids.size, -1)
        first = self._crew.shards[0].memory
        memory.model.bias[:] = first.model.bias
        for side, theirs in memory.sides.items():
            theirs.theta[:] = first.sides[side].theta
        return memory

    def _all(self, what: str, **arguments: Any) -> Any:
        """Run the same command in all processes."""
        self._group.tell({"do": what, "with": arguments})
        return getattr(self._crew, what)(**arguments)


def _is_row(name: str) -> bool:
    return name.partition("/")[0] in ROWS


def _sizes(memory: Memory, n_users: int, n_items: int) -> dict[int, int]:
    model = memory.model
    return {
        USER: model.user.size // memory.n_users * n_users,
        USER_BIAS: model.user_bias.size // memory.n_users * n_users,
        ITEM: model.item.size // memory.n_items * n_items,
        ITEM_BIAS: model.item_bias.size // memory.n_items * n_items,
    }


def _check(s: GameSettings) -> None:
    """Raise an error for settings that cannot be shared without changing what is learned."""
    if s.scorer not in ("fm", "mf"):
        raise ConfigError(
            f"several workers cannot share the scorer {s.scorer!r}, whose weights are shared by all pairs",
            "use scorer='fm'",
            command="use --set scorer=fm",
        )
    if s.softmax is not None:
        raise ConfigError("several workers cannot share prior='per_user', which compares items of all parts")
    for name, value, only in (
        ("unlabeled", s.unlabeled, ("per_user", "global", "shared")),
        ("negatives", s.negatives, ("uniform",)),
    ):
        if value not in only:
            raise ConfigError(
                f"several workers cannot share {name}={value}, which looks at all items; use {name}={only[0]}"
            )
