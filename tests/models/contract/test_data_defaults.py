"""Defaults that depend on the data: the structure that a log has by chance."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest

from purerec.data.pairs import Csr
from purerec.models.contract import data_defaults
from purerec.models.contract.data_defaults import chance_level, chance_penalty
from purerec.rng import named_rng


def _log(n_users: int, n_items: int, per_user: int, seed: int = 0) -> Csr:
    rng = np.random.default_rng(seed)
    items = [rng.choice(n_items, per_user, replace=False) for _ in range(n_users)]
    return Csr.of(np.repeat(np.arange(n_users), per_user), np.concatenate(items), (n_users, n_items))


def test_it_is_the_largest_singular_value_of_a_shuffled_log() -> None:
    log = _log(60, 40, 6)
    shuffled = np.zeros(log.shape)
    np.add.at(shuffled, (log.users, named_rng(0, "chance").permutation(log.indices)), 1)
    of_user, of_item, n = shuffled.sum(axis=1), shuffled.sum(axis=0), shuffled.sum()
    b = shuffled - np.outer(of_user, of_item) / n
    b /= np.sqrt(np.outer(2 * of_user, of_item + n / log.shape[1]))
    assert chance_level(log) == pytest.approx(np.linalg.svd(b, compute_uv=False)[0], rel=0.02)


def test_people_with_one_positive_do_not_count() -> None:
    log, n = _log(400, 200, 8), 2_000
    ones = Csr.of(np.arange(n), np.random.default_rng(1).integers(0, 200, n), (n, 200))
    users, items = np.concatenate([log.users, 400 + ones.users]), np.concatenate([log.indices, ones.indices])
    both = Csr.of(users, items, (400 + n, 200))
    # Each item has more positives, which lowers the level a little; a few people who share an item do not raise it.
    assert 0.8 * chance_level(log) < chance_level(both) < chance_level(log)
    rare = Csr.of(np.append(log.users, [400, 401, 402]), np.append(log.indices, [200, 200, 200]), (403, 201))
    assert chance_level(rare) == pytest.approx(chance_level(log), rel=0.05)


def test_sparser_logs_have_more_of_it() -> None:
    found = [chance_level(_log(400, 200, n)) for n in (40, 20, 10, 5)]
    assert found == sorted(found)
    # Random matrices: the edge of the spectrum scales as 1 / sqrt of the numbers of positives.
    assert found[3] / found[0] == pytest.approx(math.sqrt(8), rel=0.25)


@pytest.mark.parametrize("log", [_log(1, 10, 3), _log(5, 4, 4), Csr.of([], [], (3, 4)), Csr.of([0], [0], (1, 1))])
def test_odd_logs_have_a_usable_level(log: Csr) -> None:
    assert 0 < chance_level(log) <= 1


def test_a_log_is_measured_once_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(20, 15, 4)
    first = chance_level(log)
    monkeypatch.setattr(data_defaults, "_largest_singular_value", None)
    assert chance_level(log) == first
    assert chance_penalty(2.0, log) == pytest.approx(2 * first**1.2)
    gone = weakref.ref(log)
    del log
    gc.collect()
    assert gone() is None
