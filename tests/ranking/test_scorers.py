"""Scores of somebody's own model, in any precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from purerec.data.pairs import Csr
from purerec.errors import ScoreError
from purerec.ranking.ranks import ranks, top_k, top_k_of_row
from ranking.known_scores import Table, as_dict, full_sort, random_pairs, ranks_by_sorting


@pytest.mark.parametrize("kind", [np.float64, np.int64])
@pytest.mark.parametrize("pooled", [False, True])
def test_scores_that_float32_does_not_hold_are_not_made_ties(kind: type, pooled: bool) -> None:
    """Seconds since 1970, a few of which are 0: rounded to float32, most are equal."""
    rng = np.random.default_rng(0)
    n_users, n_items = 70, 1500
    scores = (1_700_000_000 + rng.integers(0, 60 * n_items, (n_users, n_items))).astype(kind)
    scores[:, ::7] = 0
    scores[:, 1::7] %= 5  # ties
    positives, others = random_pairs(rng, n_users, n_items, 0.03), random_pairs(rng, n_users, n_items, 0.1)
    others = Csr.of(*np.nonzero(others.to_scipy().toarray() > positives.to_scipy().toarray()), positives.shape)
    how: dict[str, Any] = {"pool": others} if pooled else {"excluded": others}
    found = ranks(Table(scores), positives, **how)
    assert as_dict(found) == ranks_by_sorting(scores, positives, how.get("excluded"), how.get("pool"), 0)
    listed = top_k(Table(scores), np.arange(n_users), 30)
    for user in range(n_users):
        best = full_sort(scores, user, np.arange(n_items), 0)[:30]
        assert listed.items[user].tolist() == best.tolist()
        assert top_k_of_row(scores[user], 30).items[0].tolist() == best.tolist()
        assert listed.scores[user].tolist() == scores[user, best].astype(np.float32).tolist()
    assert listed.scores.dtype == top_k_of_row(scores[0], 3).scores.dtype == np.float32


def test_parts_of_different_precision() -> None:
    rng = np.random.default_rng(1)
    scores = 1e9 + rng.permuted(np.tile(np.arange(90.0), (200, 1)), axis=1)
    scores[:70] -= 1e9

    class Mixed(Table):
        def score(self, user_idx: Any, /) -> np.ndarray:
            found = super().score(user_idx)
            return found.astype(np.float32) if found.max() < 1e6 else found

    listed = top_k(Mixed(scores), np.arange(200), 90)
    assert np.array_equal(listed.items, np.argsort(-scores, axis=1))
    positives = random_pairs(rng, 200, 90, 0.1)
    assert as_dict(ranks(Mixed(scores), positives)) == ranks_by_sorting(scores, positives, None, None, 0)


def test_a_float64_that_is_too_large_is_refused() -> None:
    scores = np.zeros((3, 5))
    scores[1, 2] = 1e39
    with pytest.raises(ScoreError, match="NaN or infinite score for user index 1"):
        ranks(Table(scores), random_pairs(np.random.default_rng(0), 3, 5, 1.0))
    with pytest.raises(ScoreError, match="NaN or infinite score"):
        top_k(Table(scores), [0, 1], 2)
    with pytest.raises(ScoreError, match="NaN or infinite score"):
        top_k_of_row(scores[1], 2)
