"""Workers with the torch engine: as with the cpu engine, the bits do not depend on how many there are."""

from dataclasses import replace

import numpy as np
import pytest

from conftest import need

need("torch")

import torch

import purerec as pr
from engines.distributed.test_engine import GAME, PLAIN, SHARED, assert_same, three_epochs
from engines.distributed.threads import ranked_right, with_group, with_workers
from purerec.engines.distributed.group import Group, sharing_with
from purerec.engines.distributed.on_device import TorchPart
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.cpu.memory import SUFFIXES, Memory
from purerec.engines.pure.registry import new_engine
from purerec.engines.pure.spec import Batch, GamePart, initial_parameters
from purerec.engines.pure.torch.engine import TorchEngine
from purerec.errors import ConfigError, StoreError
from purerec.training.run import Run


@pytest.mark.parametrize("settings", [PLAIN, GAME, SHARED], ids=["pugmf", "pure", "shared draws"])
def test_one_worker_walks_the_schedule_of_three(source, settings):
    fakes = settings.generators != "none"

    def play(n_workers):
        return with_workers(
            n_workers, 3, source, settings, lambda engine: three_epochs(engine, fakes), engine="torch"
        )

    alone = play(1)
    for n_workers in (2, 3):
        state, stats, norms = play(n_workers)
        assert_same(state, alone[0])
        assert repr((stats, norms)) == repr(alone[1:])
    assert alone[0]["counter/steps"] > 0


def test_a_run_is_resumed_to_the_same_bits(source):
    def first(engine):
        engine.train_discriminator(learning_rate=0.02)
        engine.train_generators(learning_rate=0.02, steps=6)
        return engine.state()

    def second(engine):
        engine.train_generators(learning_rate=0.02, steps=6)
        engine.train_discriminator(learning_rate=0.02)
        return engine.state()

    half = with_workers(2, 3, source, GAME, first, engine="torch")
    resumed = with_workers(
        3, 3, source, GAME, lambda engine: (engine.restore(half), second(engine))[1], engine="torch"
    )
    at_once = with_workers(2, 3, source, GAME, lambda engine: (first(engine), second(engine))[1], engine="torch")
    assert_same(resumed, at_once)


@pytest.mark.parametrize("unlabeled", ["per_user", "shared"])
def test_it_learns_what_one_engine_learns(source, unlabeled):
    """Even users like even items: each must rank them before the odd ones, as often as with one engine."""
    settings = replace(PLAIN, prior=0.35, observed=0.3, unlabeled=unlabeled)
    plain = ranked_right(TorchEngine(source, settings, seed=0))
    assert plain > 0.9
    assert with_workers(1, 3, source, settings, ranked_right, engine="torch") > plain - 0.02


def test_a_step_on_a_part_is_that_of_the_cpu_engine(source):
    """Including the weight of the unlabeled part."""
    rng = np.random.default_rng(1)
    settings = replace(PLAIN, train_bias=False)
    positives = source.positives()
    chosen = rng.integers(0, len(positives), 40)
    batch = Batch(
        positives.users[chosen],
        positives.indices[chosen],
        rng.integers(0, 90, 80).astype(np.int32),
        rng.integers(0, 50, 80).astype(np.int32),
        np.zeros((0, 4), np.float32),
        np.zeros((0, 4), np.float32),
    )
    start = initial_parameters(90, 50, settings, rng)

    def stepped(kind, weight):
        engine = kind(source, settings, seed=0, params=start, part=GamePart(positives.users, weight))
        return engine.step_discriminator(batch, learning_rate=0.05), engine.parameters()

    (loss, cpu), (torch_loss, found) = (stepped(kind, 0.4) for kind in (CpuEngine, TorchEngine))
    assert torch_loss == pytest.approx(loss, rel=1e-5)
    for name, values in cpu.items():
        np.testing.assert_allclose(found[name], values, atol=1e-5)
    assert stepped(TorchEngine, 1.0)[0] != pytest.approx(loss, rel=1e-3)


def test_unlabeled_pairs_are_drawn_for_whom_the_part_names(source):
    asked = np.array([3, 3, 3, 8], np.int32)
    engine = TorchEngine(source, PLAIN, seed=0, part=GamePart(asked, 1.0))
    batches = engine._batches.epoch(np.random.default_rng(0), engine._phi, use_fakes=False)
    drawn = np.concatenate([batch.unl_user for batch in batches])
    assert set(drawn.tolist()) == {3, 8}
    assert (drawn == 3).mean() == pytest.approx(0.75, abs=0.03)


def test_a_turn_changes_the_memory_of_its_shard(source):
    memory = Memory(90, 50, PLAIN)
    memory.write(0, initial_parameters(90, 50, PLAIN, np.random.default_rng(0)))
    before = [memory.read(part) for part in range(len(SUFFIXES))]
    part = TorchPart(source, PLAIN, seed=0, part=GamePart(source.positives().users, 1.0), memory=memory)
    part.set_counters(steps=7, epochs=2)
    sums = part.discriminator_sums(learning_rate=0.02, use_fakes=False)
    assert np.all(np.isfinite(sums))
    for number, old in enumerate(before):
        assert all(not np.array_equal(memory.read(number)[name], old[name]) for name in ("user", "item"))


def test_an_engine_by_name_is_shared(source):
    with sharing_with(Group()):
        engine = new_engine("torch", source, PLAIN, seed=0)
        assert {type(part) for shard in engine._crew.shards.values() for part in shard._part_engines} == {TorchPart}
        with pytest.raises(ConfigError, match="scorer of your own"):
            new_engine("auto", source, PLAIN, seed=0, scorer_module=torch.nn.Identity())
        with pytest.raises(ConfigError, match="cannot share the scorer 'mlp'"):
            new_engine("auto", source, replace(PLAIN, scorer="mlp"), seed=0)


def test_workers_and_one_process_do_not_continue_each_other(tmp_path):
    """The torch engine's own checkpoint has different tensors from that of workers."""
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(rng.integers(0, 50, 900), rng.integers(0, 30, 900))

    class Cut(Exception):
        pass

    def cut(record):
        if record.epoch == 1:
            raise Cut

    def fit(name, **options):
        model = pr.PUGMF(epochs=3, dim=4, engine="torch")
        return model.fit(log, seed=0, run=Run(checkpoint=tmp_path / name, **options))

    def interrupted(name):
        with pytest.raises(Cut):
            fit(name, checkpoint_epochs=1, callbacks=(cut,))

    def shared(use, *args, **options):
        def inside(group):
            with sharing_with(group):
                return use(*args, **options)

        return with_group(2, inside)

    shared(interrupted, "of workers")
    interrupted("of one")
    with pytest.raises(StoreError, match="of workers was written by workers; resume with --workers 1 or more"):
        fit("of workers", resume=True)
    with pytest.raises(StoreError, match="of one was written by one process; resume without --workers"):
        shared(fit, "of one", resume=True)
    assert len(shared(fit, "of workers", resume=True).history.records) == 3
    assert len(fit("of one", resume=True).history.records) == 3
