"""Edge cases of the cpu engine: large numbers, wrong input, states, and the disk cache of its kernels."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from engines.pure.cpu.reference import (
    FULL_GAME,
    N_USERS,
    engine,
    random_batch,
    settings_of,
)
from engines.pure.sources import source_of
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import GameSettings
from purerec.errors import ConfigError, DataError, DivergedError, StoreError
from purerec.jit.simd import probe


def test_sigmoid_and_softplus_are_stable() -> None:
    out = np.zeros(4, np.float32)
    for x in [0.0, 1e-6, 0.3, -0.3, 9.2, -9.2, 40.0, -40.0, 86.0, -86.0, 1e4, -1e4]:
        probe(np.float32(x), out)
        value = np.float64(np.float32(x))
        assert out[0] == pytest.approx(np.exp(-np.logaddexp(0, -value)), rel=4e-7, abs=1e-37)
        assert out[1] == pytest.approx(np.logaddexp(0, value), rel=4e-7, abs=1e-37)
    probe(np.float32(np.nan), out)
    assert np.isnan(out[:2]).all()


def test_large_scores_do_not_overflow_and_nan_is_not_hidden() -> None:
    s = settings_of("mf", regularization=0.0)
    params = engine(s).parameters()
    params["user"][:] = 50.0
    params["item"][:] = 40.0
    params["item"][::2] *= -1.0
    e = engine(s, params=params)
    assert np.isfinite(e.step_discriminator(random_batch(s, 0), learning_rate=0.01))
    assert all(np.isfinite(value).all() for value in e.parameters().values())
    params["user"][:] = np.nan
    assert np.isnan(engine(s, params=params).step_discriminator(random_batch(s, 0), learning_rate=0.01))


def test_nothing_unobserved_is_a_data_error() -> None:
    with pytest.raises(DataError, match="nothing unobserved"):
        CpuEngine(source_of(np.array([0, 1]), np.array([0], np.int32), 1), GameSettings(), seed=0)
    with pytest.raises(DataError, match="no positive"):
        CpuEngine(source_of(np.array([0, 0]), np.zeros(0, np.int32), 1), GameSettings(), seed=0)


def test_settings_that_do_not_fit_are_config_errors() -> None:
    with pytest.raises(ConfigError, match="engine='torch'"):
        engine(GameSettings(scorer="mlp"))
    with pytest.raises(ConfigError, match="item_dim"):
        engine(GameSettings(scorer="gmf", item_dim=9))
    with pytest.raises(ConfigError, match="epsilon"):
        engine(GameSettings(epsilon=0.0))
    with pytest.raises(ConfigError, match="fake_ratio"):
        engine(GameSettings(fake_ratio=1.5))
    with pytest.raises(ConfigError, match="prior"):
        engine(GameSettings(prior=0.0))
    with pytest.raises(ConfigError, match="batch_size"):
        engine(GameSettings(batch_size=0))
    with pytest.raises(ConfigError, match="threads"):
        engine(GameSettings(), threads=0)
    with pytest.raises(ConfigError, match="unlabeled_per_epoch"):
        engine(GameSettings()).train_discriminator(learning_rate=0.1)
    with pytest.raises(ConfigError, match="no generator"):
        engine(GameSettings()).train_generators(learning_rate=0.1, steps=1)
    with pytest.raises(ConfigError, match="does not fit"):
        engine(GameSettings(), params={"user": np.zeros((2, 2), np.float32)})


def test_batches_that_do_not_fit_are_refused() -> None:
    s = settings_of("gmf", generators="item")
    good = random_batch(s, 0)
    for bad in (
        replace(good, pos_user=good.pos_user + np.int32(N_USERS)),
        replace(good, unl_item=good.unl_item[:-1]),
        replace(good, item_noise=good.item_noise[:, :-1]),
        replace(good, item_noise=np.zeros((99, 5), np.float32)),
    ):
        with pytest.raises(DataError):
            engine(s).step_discriminator(bad, learning_rate=0.1)
    with pytest.raises(ConfigError, match="no user generator"):
        engine(s).step_discriminator(replace(good, user_noise=good.item_noise), learning_rate=0.1)


def test_embeddings_that_ran_away_cannot_be_recoloured() -> None:
    params = engine(FULL_GAME).parameters()
    params["item"][0, 0] = np.inf
    with pytest.raises(DivergedError, match="item embeddings"):
        engine(FULL_GAME, params=params).train_generators(learning_rate=0.1, steps=1)


def test_a_state_that_does_not_fit_is_a_store_error() -> None:
    state = engine(FULL_GAME).state()
    with pytest.raises(StoreError, match="has no 'user"):
        engine(FULL_GAME).restore({name: value for name, value in state.items() if name != "user/m"})
    with pytest.raises(StoreError, match="shape"):
        engine(FULL_GAME).restore(state | {"user": np.zeros((2, 2))})
    with pytest.raises(StoreError, match="which these settings do not have"):
        engine(replace(FULL_GAME, generators="none")).restore(state)


SCRIPT = """
import sys
import numpy as np
from numba.core.event import install_recorder
from purerec.data.pairs import Csr
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import GameSettings
from purerec.engines.source import MemorySource
with install_recorder("numba:compile") as compiled:
    e = CpuEngine(MemorySource(Csr(np.array([0, 1, 3]), np.array([0, 1, 2], np.int32), (2, 5))),
                  GameSettings(dim=int(sys.argv[1]), unlabeled_per_epoch=6), seed=0)
    loss = e.train_discriminator(learning_rate=.1).loss
print(len(compiled.buffer), loss)
"""


def run_script(dim: int) -> tuple[float, float]:
    """How much was compiled, and the loss."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(dim)], capture_output=True, text=True, check=True)
    compiled, loss = map(float, done.stdout.split())
    return compiled, loss


@pytest.mark.slow
def test_a_second_process_finds_the_kernels_compiled() -> None:
    """Uses the cache of all tests: filling an empty one takes longer than everything else."""
    _, loss = run_script(8)
    compiled, again = run_script(8)
    other, _ = run_script(21)  # dims are not compiled in
    assert again == loss
    assert compiled == other == 0
