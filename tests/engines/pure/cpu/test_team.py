"""Two threads give the same bits as one, neither waits forever, and Ctrl-C takes effect once both are done."""

from __future__ import annotations

import _thread
import os
import threading
import time

import numpy as np
import pytest

from engines.pure.sources import source_of
from purerec.engines.pure.cpu import team
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.cpu.team import Pace, run_both
from purerec.engines.pure.spec import GameSettings

N_USERS, N_ITEMS = 120, 90
GAMES = {
    "gmf": {"scorer": "gmf"},
    "fm, popularity": {"scorer": "fm", "risk": "pn", "unlabeled": "popularity", "regularization": 0.1},
    "fm, dns": {"scorer": "fm", "negatives": "dns", "candidates": 5},
    "gmf, drns": {"scorer": "gmf", "negatives": "drns", "candidates": 3, "unlabeled": "global"},
    "mf, both generators": {"scorer": "mf", "risk": "nnpu", "generators": "both", "unlabeled": "global"},
    "gmf, both generators": {"scorer": "gmf", "generators": "both", "constraint": "norm", "conditional": True},
    "fm, recoloured users": {"scorer": "fm", "generators": "user", "constraint": "recolour", "regularization": 0.1},
    "bilinear": {"scorer": "bilinear", "generators": "item"},
}


def new_engine(threads: int | None, **changes: object) -> CpuEngine:
    seen = np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.1
    indptr, indices = np.concatenate([[0], np.cumsum(seen.sum(1))]), np.nonzero(seen)[1].astype(np.int32)
    settings = GameSettings(dim=19, batch_size=77, prior=0.02, unlabeled_per_epoch=3 * indices.size, **changes)  # type: ignore[arg-type]
    return CpuEngine(source_of(indptr, indices, N_ITEMS), settings, seed=2, threads=threads)  # type: ignore[arg-type]


@pytest.mark.parametrize("game", GAMES)
def test_two_threads_end_in_the_bits_of_one(game: str) -> None:
    states, told = [], []
    for threads in (1, 2):
        engine = new_engine(threads, **GAMES[game])
        for _ in range(2):
            stats = [engine.train_discriminator(learning_rate=0.02)]
            if "generators" in GAMES[game]:
                stats.append(engine.train_generators(learning_rate=0.02, steps=9))
        states.append(engine.state())
        told.append([list(vars(s).values()) for s in stats])
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], err_msg=name)
    np.testing.assert_allclose(*told, rtol=1e-9)  # statistics are summed in another order


def test_a_second_thread_is_used_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    from purerec.engines.pure.cpu import engine

    calls = []
    monkeypatch.setattr(engine, "run_both", lambda *both: calls.append(1) or run_both(*both))
    monkeypatch.setattr(engine, "cores", lambda: 2)
    new_engine(None).train_discriminator(learning_rate=0.01)
    assert not calls
    monkeypatch.setattr(engine, "_WORTH_TWO", 1000)
    new_engine(1).train_discriminator(learning_rate=0.01)
    assert not calls
    new_engine(None).train_discriminator(learning_rate=0.01)
    assert len(calls) == 1
    monkeypatch.setattr(engine, "cores", lambda: 1)
    new_engine(None).train_discriminator(learning_rate=0.01)
    assert len(calls) == 1


def test_one_thread_goes_on_alone_where_two_get_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    from purerec.engines.pure.cpu import engine

    calls = []
    monkeypatch.setattr(engine, "run_both", lambda *both: (calls.append(1), run_both(*both), 0.5)[2])
    monkeypatch.setattr(engine, "cores", lambda: 2)
    monkeypatch.setattr(engine, "_WORTH_TWO", 1000)
    busy, alone = new_engine(None, scorer="gmf"), new_engine(1, scorer="gmf")
    for n in range(15):
        busy.train_discriminator(learning_rate=0.02)
        alone.train_discriminator(learning_rate=0.02)
        assert len(calls) == 1 + (n >= 5) + (n >= 14)
    for name, value in busy.state().items():
        np.testing.assert_array_equal(value, alone.state()[name], err_msg=name)


def test_a_pause_is_short_again_once_there_are_two_cores() -> None:
    pace = Pace()
    for share in (0.5, 0.5, 1.0, 0.5):
        while not pace.two():
            pass
        pace.note(share)
    assert [pace.two() for _ in range(5)] == [False, False, False, False, True]


def test_the_share_of_two_cores_is_what_they_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    share = run_both(work, lambda: time.sleep(0.2))
    assert 0.02 < share < 0.3
    monkeypatch.setattr(team, "_QUICK_S", 60)  # a busy machine takes its time to start a thread
    assert run_both(lambda: None, lambda: None) == 1


def test_an_error_of_either_thread_is_handed_on() -> None:
    def fail() -> None:
        raise ValueError("this one")

    done = []
    with pytest.raises(ValueError, match="this one"):
        run_both(lambda: done.append(1), fail)
    with pytest.raises(ValueError, match="this one"):
        run_both(fail, lambda: done.append(2))
    assert done == [1, 2]


@pytest.mark.skipif(os.name != "posix", reason="how a lock is interrupted")
def test_an_interrupt_waits_for_both() -> None:
    done = []

    def work(name: str) -> None:
        time.sleep(0.5)
        done.append(name)

    threading.Timer(0.1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run_both(lambda: work("a"), lambda: work("b"))
    assert sorted(done) == ["a", "b"]
