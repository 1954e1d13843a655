"""What an epoch consists of: all positives, the right number of unlabeled pairs, noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conftest import need

need("torch")


from engines.pure.sources import source_of
from engines.pure.torch.reference import (
    N_USERS,
    engine_of,
    positives,
    settings_of,
)
from purerec.engines.pure.torch.engine import TorchEngine


@pytest.mark.parametrize("unlabeled", ["per_user", "global", "popularity"])
def test_an_epoch_covers_all_positives_and_draws_what_is_due(unlabeled: str) -> None:
    settings = settings_of(unlabeled=unlabeled, unlabeled_per_epoch=53, generators="both", fake_ratio=0.5)
    engine = engine_of(settings)
    indptr, indices = positives()
    observed = set(zip(np.repeat(np.arange(N_USERS), np.diff(indptr)).tolist(), indices.tolist(), strict=True))
    batches = list(engine._batches.epoch(np.random.default_rng(0), engine._phi, use_fakes=True))
    seen = [pair for b in batches for pair in zip(b.pos_user.tolist(), b.pos_item.tolist(), strict=True)]
    assert sorted(seen) == sorted(observed)
    drawn = [pair for b in batches for pair in zip(b.unl_user.tolist(), b.unl_item.tolist(), strict=True)]
    assert len(drawn) == 53
    assert not observed & set(drawn)
    sizes = [b.unl_user.size for b in batches]
    assert max(sizes) - min(sizes) <= 1
    for b in batches:
        assert len(b.item_noise) == len(b.user_noise) == round(0.5 * b.unl_user.size)
        if unlabeled != "global":
            np.testing.assert_array_equal(b.unl_user, np.resize(b.pos_user, b.unl_user.size))


def test_a_user_who_touched_everything_is_left_out_of_the_unlabeled() -> None:
    indptr, indices = np.array([0, 3, 4]), np.array([0, 1, 2, 1], dtype=np.int32)
    engine = TorchEngine(source_of(indptr, indices, 3), settings_of(unlabeled_per_epoch=8), seed=0)
    (batch,) = engine._batches.epoch(np.random.default_rng(0), engine._phi, use_fakes=False)
    assert set(batch.unl_user.tolist()) == {1}
    assert batch.unl_user.size == 2
    assert math.isfinite(engine.train_discriminator(learning_rate=1e-3).loss)


def test_more_batches_than_unlabeled_pairs_is_no_trouble() -> None:
    engine = engine_of(settings_of(batch_size=2, unlabeled_per_epoch=3, generators="item", constraint="recolour"))
    assert math.isfinite(engine.train_discriminator(learning_rate=1e-3).loss)
