"""Default settings that depend on the data.

Chosen on random validation splits of ML-100k, ML-1M and Yelp, and of the first two thinned to a dozen positives per
person: the sparser the data, the more L2 (see `chance_level`). The paper's widths (5, 8 and 16 for its three data
sets) are too narrow there; docs/results.md shows what that costs, and that it costs nothing on a temporal split.
"""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

import numpy as np

from purerec.data.pairs import Csr
from purerec.models.contract.search_space import Ints
from purerec.rng import named_rng

_ROUNDS = 20
"""Iterations of the power method; twice as many change the third digit."""
_known: WeakKeyDictionary[Csr, float] = WeakKeyDictionary()
"""Cached: a fit needs it several times, and so does every person who is folded in."""


def default_dim(n_users: int) -> int:
    """The width of vectors: 5, 16 or 32 for up to 200, up to 2,000 or more users."""
    return 5 if n_users <= 200 else 16 if n_users <= 2_000 else 32


DIM = Ints(4, 64, start=lambda positives: default_dim(positives.shape[0]))
"""Where to look for a better one; `--set dim=8` keeps it fixed."""


def shrinking(c: float, positives: Csr) -> float:
    """c / sqrt(positives per user), among users who have any: the form of most data-dependent L2."""
    active = int((positives.counts > 0).sum())
    return c / math.sqrt(len(positives) / active) if active else c


def observed_share(positives: Csr) -> float:
    """The share of positives among the pairs of active users with all items; below a half, as a prior must be."""
    active = int((positives.counts > 0).sum())
    return min(0.49, max(1, len(positives)) / max(1, active * positives.shape[1]))


def chance_penalty(c: float, positives: Csr) -> float:
    """c times the chance level to the power of 1.2: the L2 of GMF, PU-GMF and PURE."""
    return c * math.pow(chance_level(positives), 1.2)


def chance_level(positives: Csr) -> float:
    """How much structure a log has by chance alone: the largest singular value of B with items assigned at random.

    With embeddings near zero, training lets the k-th dimension grow if the k-th singular value of

        B = D_u^-1/2 (A - E[A]) D_i^-1/2

    is above the L2: A is the log, E[A] what the biases explain, and D how often each row is drawn, as a positive or
    as an unlabeled pair, since each draw also shrinks its row. In a log with the same numbers of positives but random
    pairs of people and items, the singular values say nothing about taste. The sparser the log, the larger they are.

    People with a single positive are left out: they tell nothing about which items go together. By chance, a few of
    them share an item that hardly anybody else has, which makes singular values that concern nobody but them and are
    larger than all others.
    """
    if positives not in _known:
        _known[positives] = _largest_singular_value(positives, named_rng(0, "chance"))
    return _known[positives]


def _largest_singular_value(positives: Csr, rng: np.random.Generator) -> float:
    from scipy.sparse import csr_array

    n_users, n_items = positives.shape
    n = len(positives)
    if n == 0:
        return 1.0
    log = csr_array((np.ones(n), rng.permutation(positives.indices), positives.indptr), shape=(n_users, n_items))
    of_user = np.where(positives.counts > 1, positives.counts, 0).astype(np.float64)
    of_item = np.bincount(positives.indices, minlength=n_items).astype(np.float64)
    # As a positive, an item is drawn in proportion to its popularity; as an unlabeled pair, like any other item.
    user_scale = np.where(of_user > 0, 1 / np.sqrt(2 * np.maximum(of_user, 1)), 0.0)
    item_scale = 1 / np.sqrt(of_item + n / n_items)
    expected_user, expected_item = user_scale * of_user, item_scale * of_item / n
    of_users = rng.standard_normal(n_users)
    level = 0.0
    for _ in range(_ROUNDS):
        of_items = item_scale * (log.T @ (user_scale * of_users)) - expected_item * (expected_user @ of_users)
        of_items /= max(float(np.linalg.norm(of_items)), 1e-12)
        of_users = user_scale * (log @ (item_scale * of_items)) - expected_user * (expected_item @ of_items)
        level = float(np.linalg.norm(of_users))
        of_users /= max(level, 1e-12)
    # In a log of one person, or with every pair observed, nothing is random; this is what the user side adds.
    per_person = float(of_user.sum()) / max(1, int((of_user > 0).sum()))
    return max(level, 1 / math.sqrt(2 * max(1.0, per_person)))
