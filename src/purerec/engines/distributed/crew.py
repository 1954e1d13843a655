"""The shards of one process. Every method is called by all processes at once, with the same arguments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.distributed import stored
from purerec.engines.distributed.group import Arrays, Group
from purerec.engines.distributed.reading import Held
from purerec.engines.distributed.schedule import Schedule, make_schedule, shard_of_users
from purerec.engines.distributed.shard import Block, Shard, Whole
from purerec.engines.pure.spec import N_SUMS, EngineName, GameSettings
from purerec.types import F32, F64, I32, I64

_TAGS = 8
"""Arrays that may be in transit for one shard or block at a time"""
USER, USER_BIAS, ITEM, ITEM_BIAS = range(4)
Rows = dict[int, Arrays]
"""Memory by kind, one of the four above"""


class Crew:
    """One process's part of a fit."""

    def __init__(self, group: Group, whole: Whole, shards: list[Shard], shard_of: I64 | None = None) -> None:
        """`shard_of`: the shard of each user, in the first process."""
        self._shard_of = shard_of
        self.group, self.whole, self.schedule = group, whole, whole.schedule
        self.shards = {shard.number: shard for shard in shards}
        self.blocks = {shard.number: shard.start() for shard in shards}  # by the shard that has it
        self.seconds = {"compute": 0.0, "exchange": 0.0}

    # ------------------------------------------------------------------ training

    def discriminator(self, *, learning_rate: float, use_fakes: bool, epoch: int) -> F64:
        """Train one epoch; return (N_SUMS,) sums over all shards and blocks, independent of the number of workers."""
        n = self.schedule.n_shards
        sums = np.zeros((n, n, N_SUMS))
        for turn in range(n):
            began = time.perf_counter()
            for number, shard in self.shards.items():
                found = shard.train(self.blocks[number], epoch, turn, learning_rate, use_fakes)
                if found is not None:
                    sums[turn, number] = found
            self.seconds["compute"] += time.perf_counter() - began
            self._rotate(turn)
        self.group.add_up(sums)
        total: F64 = np.add.reduce(sums.reshape(-1, N_SUMS), axis=0)
        return total

    def generators(self, *, learning_rate: float, steps: int, steps_before: int, epoch: int) -> F64:
        """Train the single pair of generators, in a different shard each round, then give them to all shards."""
        number = epoch % self.schedule.n_shards
        sums = np.zeros(N_SUMS)
        if number in self.shards:
            shard = self.shards[number]
            found = shard.train_generators(self.blocks[number], learning_rate, steps, steps_before, epoch)
            sums = sums if found is None else found
        self.group.add_up(sums)
        self.share_generators(number)
        return sums

    def share_generators(self, number: int) -> None:
        """Give one shard's generators to all shards."""
        for side in sorted(self.whole.settings.generators_of):
            own = [shard.memory.sides[side].theta for shard in self.shards.values()]
            theta = self.shards[number].memory.sides[side].theta if number in self.shards else own[0]
            self.group.spread(theta, self.schedule.worker_of(number))
            for other in own:
                other[:] = theta

    def norms(self) -> F64:
        """(2,) the sums of the norms of all users' and items' vectors."""
        found = np.zeros((self.schedule.n_shards, 2))
        for number, shard in self.shards.items():
            found[number] = shard.norm_sums(self.blocks[number])
        self.group.add_up(found)
        total: F64 = np.add.reduce(found, axis=0)
        return total

    def _rotate(self, turn: int) -> None:
        """Pass every block on to the previous shard."""
        began, schedule, mine = time.perf_counter(), self.schedule, self.group.rank
        out: list[tuple[int, int, Arrays]] = []
        into: list[tuple[int, int, Arrays]] = []
        after: dict[int, Block] = {}
        for number in self.shards:
            before, behind = (number - 1) % schedule.n_shards, (number + 1) % schedule.n_shards
            if schedule.worker_of(before) != mine:
                tag = _TAGS * schedule.block_at(number, turn)
                block = self.blocks[number]
                out += [(schedule.worker_of(before), tag + n, a) for n, a in enumerate((block.item, block.item_bias))]
            if schedule.worker_of(behind) == mine:
                after[number] = self.blocks[behind]
            else:
                coming = schedule.block_at(number, turn + 1)
                block = Block.empty(len(schedule.block(coming)), self.whole.settings)
                into += [
                    (schedule.worker_of(behind), _TAGS * coming + n, a)
                    for n, a in enumerate((block.item, block.item_bias))
                ]
                after[number] = block
        self.group.exchange(out, into)
        self.blocks = after
        self.seconds["exchange"] += time.perf_counter() - began

    # ------------------------------------------------------------------ parameters

    def users_of(self, number: int) -> I64:
        """The users of any shard, in the first process."""
        assert self._shard_of is not None
        return np.flatnonzero(self._shard_of == number)

    def rows(self, number: int) -> Rows:
        """The memory of a local shard: its users, and the block it has between epochs."""
        model, block = self.shards[number].memory.model, self.blocks[number]
        return {USER: model.user, USER_BIAS: model.user_bias, ITEM: block.item, ITEM_BIAS: block.item_bias}

    def collect(self, number: int, sizes: dict[int, int]) -> Rows | None:
        """The rows of a shard, in the first process; None elsewhere."""
        return self._move(number, sizes, to_first=True)

    def deliver(self, number: int, sizes: dict[int, int], given: Rows | None) -> None:
        """The inverse of `collect`."""
        found = self._move(number, sizes, to_first=False, given=given)
        if found is not None and number in self.shards:
            for kind, array in self.rows(number).items():
                array[:] = found[kind]

    def _move(self, number: int, sizes: dict[int, int], *, to_first: bool, given: Rows | None = None) -> Rows | None:
        worker, mine = self.schedule.worker_of(number), self.group.rank
        if worker == 0:
            here = self.rows(number) if to_first else given
            return here if mine == 0 else None
        if mine not in (0, worker):
            return None
        sends = (mine == worker) == to_first
        if sends:
            rows = self.rows(number) if to_first else given
            assert rows is not None
            other = 0 if to_first else worker
            self.group.exchange([(other, _TAGS * number + kind, a) for kind, a in rows.items()], [])
            return None
        found: Rows = {kind: np.zeros(size, np.float32) for kind, size in sizes.items()}
        other = worker if to_first else 0
        self.group.exchange([], [(other, _TAGS * number + kind, a) for kind, a in found.items()])
        return found

    def do(self, told: dict[str, Any]) -> None:
        """Carry out a command from the first process."""
        if told["do"] not in ("collect", "deliver"):
            getattr(self, told["do"])(**told["with"])
            return
        for number in self.shards:
            sizes = {kind: array.size for kind, array in self.rows(number).items()}
            if told["do"] == "collect":
                self.collect(number, sizes)
            else:
                self.deliver(number, sizes, None)
        if told["do"] == "deliver":
            self.share_generators(0)

    def write_parts(self, folder: str, generation: int) -> dict[str, str]:
        """Write the state of each shard to its own file; return the names and checksums."""
        return stored.write_parts(self, Path(folder), generation)

    def read_parts(self, folder: str, parts: dict[str, str]) -> None:
        """The inverse of `write_parts`."""
        stored.read_parts(self, Path(folder), parts)

    def set_generators(self, thetas: dict[str, F32]) -> None:
        """In the first process: set the generators that `share_generators(0)` gives to all shards."""
        for side, theta in thetas.items():
            self.shards[0].memory.sides[side].theta[:] = theta


# ---------------------------------------------------------------------- setup


def lead(group: Group, positives: Csr, engine: EngineName, settings: GameSettings, seed: int, n_shards: int) -> Crew:
    """Set up the first process, which has all positives. The others have read theirs, or are sent them."""
    schedule, read = make_schedule(positives, n_shards, group.size), group.read
    is_known = read is not None and n_shards == (group.shards or group.size)
    left_out = read.left_out(positives) if is_known and read is not None else None
    group.tell(
        {
            "do": "begin",
            "what": "game",
            "engine": engine,
            "settings": asdict(settings),
            "seed": seed,
            "shape": positives.shape,
            "positives": len(positives),
            "shards": n_shards,
            "starts": schedule.starts,
            "left_out": None if left_out is None else len(left_out[0]),
        }
    )
    group.spread(schedule.item_order, 0)
    for array in left_out or ():
        group.spread(array, 0)
    whole = Whole(engine, settings, seed, positives.shape[0], len(positives), schedule)
    if left_out is not None and read is not None:
        held, shard_of = read.own, read.shard_of_users(n_shards)
        return _crew(group, whole, lambda number: _from_held(held, number, whole, left_out), shard_of)
    shard_of, own = shard_of_users(positives.shape[0], n_shards), {}
    user_shard, place = shard_of[positives.users], _places(schedule)
    for number in range(n_shards):
        users = np.flatnonzero(shard_of == number)
        at = user_shard == number
        part = Csr.of(
            np.searchsorted(users, positives.users[at]),
            place[positives.indices[at]],
            (users.size, positives.shape[1]),
        )
        worker = schedule.worker_of(number)
        if worker == 0:
            own[number] = users, part
        else:
            group.exchange([(worker, _TAGS * number, np.array([users.size, len(part)]))], [])
            parts: tuple[Arrays, ...] = (users, part.indptr, part.indices)
            group.exchange([(worker, _TAGS * number + n + 1, array.copy()) for n, array in enumerate(parts)], [])
    return _crew(group, whole, lambda number: Shard(number, *own[number], whole), shard_of)


def follow(group: Group, told: dict[str, Any], held: Held | None) -> Crew:
    """Set up the other processes; `held`: what they have read themselves."""
    n_users, n_items = told["shape"]
    order = np.zeros(n_items, np.int64)
    group.spread(order, 0)
    schedule = Schedule(told["shards"], group.size, order, tuple(told["starts"]))
    settings = GameSettings(**told["settings"])
    whole = Whole(told["engine"], settings, told["seed"], n_users, told["positives"], schedule)
    if told["left_out"] is not None:
        assert held is not None
        left_out = np.zeros(told["left_out"], np.int32), np.zeros(told["left_out"], np.int32)
        for array in left_out:
            group.spread(array, 0)
        return _crew(group, whole, lambda number: _from_held(held, number, whole, left_out))
    own = {}
    for number in schedule.shards_of(group.rank):
        sizes = np.zeros(2, np.int64)
        group.exchange([], [(0, _TAGS * number, sizes)])
        users, indptr = np.zeros(sizes[0], np.int64), np.zeros(sizes[0] + 1, np.int64)
        indices = np.zeros(sizes[1], np.int32)
        group.exchange([], [(0, _TAGS * number + n + 1, a) for n, a in enumerate((users, indptr, indices))])
        own[number] = users, Csr(indptr, indices, (int(sizes[0]), n_items))
    return _crew(group, whole, lambda number: Shard(number, *own[number], whole))


def _crew(group: Group, whole: Whole, shard: Callable[[int], Shard], shard_of: I64 | None = None) -> Crew:
    """Create the shards of this process; if one runs out of memory, all raise an error that names it."""
    with group.together():
        crew = Crew(group, whole, [shard(number) for number in whole.schedule.shards_of(group.rank)], shard_of)
    return crew  # noqa: RET504  # inside the block, mypy would assume that the block may swallow errors


def _from_held(held: Held, number: int, whole: Whole, left_out: tuple[I32, I32]) -> Shard:
    """A shard of positives that were read here, except those left out."""
    users, pairs = held.of_shard(number, whole.schedule.n_shards)
    here = np.isin(left_out[0], users)
    keys = np.searchsorted(users, left_out[0][here]) * pairs.shape[1] + left_out[1][here]
    kept = ~np.isin(pairs.users.astype(np.int64) * pairs.shape[1] + pairs.indices, keys)
    items = _places(whole.schedule)[pairs.indices[kept]]
    return Shard(number, users, Csr.of(pairs.users[kept], items, pairs.shape), whole)


def _places(schedule: Schedule) -> I32:
    """(n_items,) the position of each item, block by block."""
    place = np.empty(len(schedule.item_order), np.int32)
    place[schedule.item_order] = np.arange(len(place), dtype=np.int32)
    return place
