"""A group of threads in place of processes: the same calls, without starting any process."""

from __future__ import annotations

import copy
import queue
import threading

import numpy as np

from purerec.engines.distributed.engine import DistributedEngine
from purerec.engines.distributed.group import Group
from purerec.engines.distributed.helping import serve


class ThreadGroup(Group):
    def __init__(self, rank, size, shared):
        self.rank, self.size, self._shared = rank, size, shared

    @classmethod
    def make(cls, size):
        shared = {
            "barrier": threading.Barrier(size, timeout=60),
            "box": [None] * size,
            "mail": {(a, b): {} for a in range(size) for b in range(size)},
            "lock": threading.Lock(),
        }
        return [cls(rank, size, shared) for rank in range(size)]

    def _all(self, mine):
        self._shared["box"][self.rank] = copy.deepcopy(mine)
        self._shared["barrier"].wait()
        found = list(self._shared["box"])
        self._shared["barrier"].wait()
        return found

    def tell(self, message):
        self._all(message)

    def hear(self):
        return self._all(None)[0]

    def _queue(self, sender, receiver, tag):
        with self._shared["lock"]:
            return self._shared["mail"][sender, receiver].setdefault(tag, queue.Queue())

    def exchange(self, out, into):
        for to, tag, array in out:
            self._queue(self.rank, to, tag).put(np.array(array))
        for sender, tag, array in into:
            array[:] = self._queue(sender, self.rank, tag).get(timeout=60)

    def add_up(self, array):
        array[:] = np.sum(self._all(array), axis=0)

    def spread(self, array, source):
        array[:] = self._all(array)[source]


def with_workers(n_workers, n_shards, source, settings, use, seed=0, engine="cpu"):
    """The result of `use` on an engine with this many workers."""
    options = {"seed": seed, "n_shards": n_shards, "engine": engine}
    return with_group(n_workers, lambda group: use(DistributedEngine(source, settings, group=group, **options)))


def with_group(n_workers, use):
    """The result of `use` on a group of this many workers."""
    first, *others = ThreadGroup.make(n_workers)
    threads = [threading.Thread(target=serve, args=(group,), daemon=True) for group in others]
    for thread in threads:
        thread.start()
    try:
        return use(first)
    finally:  # after an error, too: a worker that still waits would fail a minute later, during another test
        first.tell({"do": "end"})
        for thread in threads:
            thread.join(timeout=60)


def ranked_right(engine):
    """After 20 epochs on the fixture `source`: how often a user's own half of the items is before the other."""
    for _ in range(20):
        engine.train_discriminator(learning_rate=0.02)
    params = engine.parameters()
    scores = params["user"] @ params["item"].T + params["item_bias"]
    even = np.add.outer(np.arange(len(scores)), np.arange(scores.shape[1])) % 2 == 0
    return np.mean([(row[own][:, None] > row[~own]).mean() for row, own in zip(scores, even, strict=True)])
