"""Small splits, and a model for them."""

from __future__ import annotations

import numpy as np

from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from ranking.known_scores import Table


def make_split(
    train: list[tuple[int, int, int]],
    test: list[tuple[int, int, int]],
    valid: list[tuple[int, int, int]] | None = None,
) -> Split:
    """From (user, item, rating); ratings from 4 are positives. The ids of all parts are 0, 1, ..."""
    rows = np.array(train + test + (valid or []))
    whole = Interactions.from_columns(rows[:, 0], rows[:, 1], rating=rows[:, 2].astype(np.float32), positive_rating=4)
    part = np.repeat([0, 1, 2], [len(train), len(test), len(valid or [])])
    return Split(whole.subset(part == 0), None if valid is None else whole.subset(part == 2), whole.subset(part == 1))


def random_split(seed: int = 0, n_users: int = 60, n_items: int = 90, *, valid: bool = True) -> Split:
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.3)
    whole = Interactions.from_columns(
        user, item, rating=rng.integers(1, 6, len(user)).astype(np.float32), positive_rating=4
    )
    part = rng.choice(3, size=len(user), p=[0.6, 0.2, 0.2])
    if not valid:
        part[part == 2] = 0
    return Split(whole.subset(part == 0), whole.subset(part == 2) if valid else None, whole.subset(part == 1))


def descending(n_users: int, n_items: int) -> Table:
    """Item 0 is the best for everybody, then item 1, ..."""
    return Table(np.tile(-np.arange(n_items, dtype=np.float32), (n_users, 1)))
