from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from purerec.engines.distributed.schedule import Schedule, deal_items, shard_of_users


@given(st.integers(1, 12), st.integers(1, 12))
def test_every_shard_has_every_block_once_and_no_two_the_same_at_a_time(n_shards, n_workers):
    schedule = Schedule(n_shards, min(n_workers, n_shards), np.arange(n_shards), tuple(range(n_shards + 1)))
    for turn in range(n_shards):
        assert len({schedule.block_at(shard, turn) for shard in range(n_shards)}) == n_shards
    for shard in range(n_shards):
        assert {schedule.block_at(shard, turn) for turn in range(n_shards)} == set(range(n_shards))
        assert schedule.block_at(shard, n_shards) == schedule.block_at(shard, 0) == shard
    owned = [shard for worker in range(schedule.n_workers) for shard in schedule.shards_of(worker)]
    assert owned == list(range(n_shards))
    sizes = [len(schedule.shards_of(worker)) for worker in range(schedule.n_workers)]
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300), st.integers(1, 9))
def test_items_are_dealt_evenly(popularity, n_blocks):
    counts = np.array(popularity)
    order, starts = deal_items(counts, n_blocks)
    assert sorted(order) == list(range(len(counts)))
    sizes = np.diff(starts)
    assert sizes.max() - sizes.min() <= 1
    shares = [counts[order[a:b]].sum() for a, b in pairwise(starts)]
    assert max(shares) - min(shares) <= 2 * counts.max()


def test_users_are_spread_evenly():
    sizes = np.bincount(shard_of_users(100_000, 7))
    assert sizes.max() < 1.02 * sizes.mean()
    assert np.array_equal(shard_of_users(1000, 7), shard_of_users(100_000, 7)[:1000])
