"""Draws that a batch shares: the same step as with single pairs, unbiased, and the same on two threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.pure.cpu.reference import N_ITEMS, N_USERS, engine, positives, settings_of
from engines.pure.sources import source_of
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.cpu.grid import Grid, draw_columns, new_grid
from purerec.engines.pure.spec import Batch, GameSettings
from purerec.errors import ConfigError
from purerec.jit.counter_rng import shuffle
from purerec.jit.decorator import Scalar, kernel
from purerec.types import I32

SCORERS = [
    {"scorer": "mf"},
    {"scorer": "gmf"},
    {"scorer": "fm"},
    {"scorer": "bilinear", "item_dim": 3},
    {"scorer": "bilinear", "dim": 9, "item_dim": 17},
]


def shared(n_columns: float, **changes: object) -> GameSettings:
    """Everything in one batch; a large epsilon, with which a step is close to the gradient."""
    n = positives()[1].size
    base = settings_of("fm", unlabeled="shared", batch_size=n, unlabeled_per_epoch=int(n_columns * n), epsilon=1.0)
    return replace(base, observed=0.2, **changes)  # type: ignore[arg-type]


def all_pairs(s: GameSettings) -> Batch:
    """The positives, and their users with all items that each has not touched."""
    indptr, items = positives()
    users = np.repeat(np.arange(N_USERS), np.diff(indptr)).astype(np.int32)
    seen = np.zeros((N_USERS, N_ITEMS), bool)
    seen[users, items] = True
    row, unl_item = np.nonzero(~seen[users])
    empty = [np.zeros((0, dim), np.float32) for dim in (s.dim_i, s.dim)]
    return Batch(users, items, users[row], unl_item.astype(np.int32), *empty)


@pytest.mark.parametrize("risk", ["pu", "nnpu", "pn"])
@pytest.mark.parametrize("scorer", SCORERS, ids=lambda changes: "-".join(map(str, changes.values())))
def test_a_step_is_that_of_its_pairs_one_by_one(scorer: dict[str, object], risk: str) -> None:
    """With as many draws as items, the pairs are known: all that are not observed."""
    s = shared(N_ITEMS, risk=risk, **scorer)
    grid, pairs = engine(s, threads=1), engine(s, threads=1)
    batch = all_pairs(s)
    stats = grid.train_discriminator(learning_rate=0.05)
    assert stats.loss == pytest.approx(pairs.step_discriminator(batch, learning_rate=0.05), rel=1e-6)
    assert stats.samples == batch.pos_user.size + batch.unl_user.size
    ours, theirs = grid.state(), pairs.state()
    for name in grid.parameters():
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-6, err_msg=name)
        largest = np.abs(theirs[f"{name}/m"]).max()
        np.testing.assert_allclose(
            ours[f"{name}/m"], theirs[f"{name}/m"], rtol=1e-4, atol=1e-5 * largest, err_msg=name
        )
        if "gen" not in name:
            assert largest > 1e-4, name


def test_few_draws_are_right_on_average() -> None:
    """The gradient of four shared items, averaged over seeds, is that of all items."""
    start = engine(shared(N_ITEMS)).parameters()
    whole = engine(shared(N_ITEMS, regularization=0.0), params=start)
    whole.train_discriminator(learning_rate=0.0)
    expected = {name: whole.state()[f"{name}/m"] for name in ("user", "item", "item_bias")}
    some = {name: [] for name in expected}
    for seed in range(600):
        e = engine(shared(4, regularization=0.0), seed=seed, params=start)
        e.train_discriminator(learning_rate=0.0)
        for name, found in some.items():
            found.append(e.state()[f"{name}/m"])
    for name, found in some.items():
        mean, deviation = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
        # A mean over the remaining pairs is a ratio: exact up to the spread of their number.
        off = np.abs(mean - expected[name]) / (deviation + 0.004 * np.abs(expected[name]).max())
        assert off.max() < 4.5, name
        assert np.abs(mean).max() > 10 * deviation.max()


@pytest.mark.parametrize("n_columns", [3, 16, 39])
@pytest.mark.parametrize(
    "changes",
    [
        {"scorer": "fm"},
        {"scorer": "gmf", "generators": "both", "conditional": True},
        {"scorer": "mf", "risk": "nnpu"},
    ],
    ids=["fm", "gmf", "mf"],
)
def test_two_threads_end_in_the_bits_of_one(n_columns: int, changes: dict[str, object]) -> None:
    seen = np.random.default_rng(0).random((120, 90)) < 0.1
    indptr, indices = np.concatenate([[0], np.cumsum(seen.sum(1))]), np.nonzero(seen)[1].astype(np.int32)
    n_unlabeled = n_columns * indices.size
    s = GameSettings(
        dim=19, batch_size=77, prior=0.02, unlabeled="shared", unlabeled_per_epoch=n_unlabeled, regularization=0.1,
        fake_ratio=0.3, **changes,
    )  # type: ignore[arg-type]  # fmt: skip
    states = []
    for threads in (1, 2):
        e = CpuEngine(source_of(indptr, indices, 90), s, seed=2, threads=threads)  # type: ignore[arg-type]
        stats = [e.train_discriminator(learning_rate=0.02) for _ in range(3)]
        assert stats[0].loss > stats[2].loss
        assert e._grid is not None
        assert np.all(e._grid.column_of == -1)
        states.append(e.state())
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)


@kernel()
def draw(g: Grid, key: Scalar, n_batches: Scalar, n: Scalar, out: I32) -> None:
    shuffle(g.order, key)
    for b in range(n_batches):
        draw_columns(g, out, b * n, b * n, n)


def test_items_take_turns() -> None:
    """No batch draws an item twice, and every item is drawn once before any is drawn twice."""
    orders = []
    for key in range(200):
        g, out = new_grid(1, 7, 30, 8, 8), np.zeros(7 * 60, np.int32)
        draw(g, np.uint64(key), 60, 7, out)
        assert all(len(set(batch)) == 7 for batch in out.reshape(60, 7))
        assert np.array_equal(np.bincount(out, minlength=30), np.full(30, 14))
        orders.append(out[:30])
    # Any item may appear at any position.
    at_start = np.bincount([order[0] for order in orders], minlength=30)
    assert (at_start > 0).sum() > 25
    assert at_start.max() < 20


def test_what_cannot_be_shared_is_refused() -> None:
    for changes in ({"risk": "softmax"}, {"negatives": "dns", "candidates": 3}):
        with pytest.raises(ConfigError, match="shared draws"):
            GameSettings(unlabeled="shared", **changes)  # type: ignore[arg-type]
