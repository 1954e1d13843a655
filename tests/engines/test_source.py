"""A part of a source is a source: an engine in a worker is the same engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from purerec.data.pairs import Csr
from purerec.engines.pure.registry import new_engine
from purerec.engines.pure.spec import GameSettings
from purerec.engines.source import DataSource, MemorySource
from purerec.errors import DataError

SEEN = np.random.default_rng(0).random((12, 9)) < 0.3
SEEN[3] = False


def source_of(seen: np.ndarray) -> MemorySource:
    return MemorySource(Csr.of(*np.nonzero(seen), shape=seen.shape))


def dense(source: DataSource) -> np.ndarray:
    positives = source.positives()
    assert positives.shape == source.shape
    assert np.all(np.diff(positives.indptr) >= 0)
    return positives.to_scipy().toarray() > 0


def test_all_positives_as_they_are() -> None:
    np.testing.assert_array_equal(dense(source_of(SEEN)), SEEN)


def test_a_part_has_these_users_in_this_order_and_a_block_of_items() -> None:
    users = np.array([7, 3, 0])
    np.testing.assert_array_equal(dense(source_of(SEEN).part(user_idx=users)), SEEN[users])
    np.testing.assert_array_equal(dense(source_of(SEEN).part(items=range(4, 7))), SEEN[:, 4:7])
    both = source_of(SEEN).part(user_idx=users, items=range(4, 7))
    np.testing.assert_array_equal(dense(both), SEEN[users, 4:7])
    np.testing.assert_array_equal(dense(both.part(user_idx=np.array([2]))), SEEN[[0], 4:7])


def test_parts_have_every_positive_once() -> None:
    source = source_of(SEEN)
    parts = [
        source.part(user_idx=np.arange(worker, 12, 3), items=range(start, start + 3))
        for worker in range(3)
        for start in (0, 3, 6)
    ]
    assert sum(len(part.positives()) for part in parts) == SEEN.sum()


def test_what_is_not_there_is_refused() -> None:
    for users in ([12], [-1]):
        with pytest.raises(DataError, match=r"range\(12\)"):
            source_of(SEEN).part(user_idx=np.array(users))
    for items in (range(5, 10), range(-1, 3), range(0, 9, 2)):
        with pytest.raises(DataError, match="9 items"):
            source_of(SEEN).part(items=items)


@dataclass(frozen=True)
class Worker:
    """A source that is not a matrix: it asks another one for its users each time, as a worker reads its files."""

    everything: DataSource
    number: int
    n_workers: int

    @property
    def user_idx(self) -> np.ndarray:
        return np.arange(self.number, self.everything.shape[0], self.n_workers)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.user_idx), self.everything.shape[1]

    def positives(self) -> Csr:
        return self.everything.part(user_idx=self.user_idx).positives()

    def part(self, *, user_idx: np.ndarray | None = None, items: range | None = None) -> DataSource:
        own = self.user_idx if user_idx is None else self.user_idx[user_idx]
        return self.everything.part(user_idx=own, items=items)


@pytest.mark.parametrize("name", ["cpu", "torch"])
def test_a_worker_trains_its_own_users_as_if_there_were_no_others(name: str) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    settings = GameSettings(dim=4, batch_size=5, unlabeled_per_epoch=20, generators="user", hidden=3)
    rows = np.arange(1, 12, 3)
    found = []
    for source in (Worker(source_of(SEEN), 1, 3), source_of(SEEN[rows])):
        engine = new_engine(name, source, settings, seed=3)  # type: ignore[arg-type]
        engine.train_discriminator(learning_rate=0.05)
        engine.train_generators(learning_rate=0.05, steps=2)
        found.append(engine.parameters())
    assert found[0]["user"].shape == (len(rows), 4)
    for key, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][key])


def test_item_blocks_in_turn_carry_their_rows_on() -> None:
    """One worker that goes through two blocks of items: it needs only the block's rows, and they all learn."""
    source, settings = source_of(SEEN), GameSettings(dim=4, batch_size=8, unlabeled_per_epoch=20)
    items = np.random.default_rng(1).normal(0, 0.1, (9, 4)).astype(np.float32)
    users, before = np.zeros((12, 4), np.float32) + 0.1, items.copy()
    for block in (range(5), range(5, 9)):
        given = {"user": users, "item": items[block.start : block.stop]}
        engine = new_engine("cpu", source.part(items=block), settings, seed=block.start, params=given)
        engine.train_discriminator(learning_rate=0.05)
        after = engine.parameters()
        users, items[block.start : block.stop] = after["user"], after["item"]
    assert np.all(np.any(items != before, axis=1))
