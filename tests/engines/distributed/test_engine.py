"""A fit in shards is bit-identical, however many processes share them; and learns what one engine learns."""

from dataclasses import replace

import numpy as np
import pytest

from engines.distributed.threads import ranked_right, with_workers
from purerec.engines.distributed.crew import lead
from purerec.engines.distributed.engine import DistributedEngine
from purerec.engines.distributed.group import Group
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.engines.pure.spec import GameSettings
from purerec.errors import ConfigError

PLAIN = GameSettings(dim=4, scorer="fm", prior=0.05, unlabeled_per_epoch=3000, batch_size=64, regularization=0.05)
GAME = GameSettings(
    dim=4,
    scorer="fm",
    prior=0.05,
    unlabeled_per_epoch=3000,
    batch_size=64,
    generators="user",
    conditional=True,
    constraint="norm",
    fake_weight=0.01,
    fake_ratio=0.2,
)


def three_epochs(engine, use_fakes=False):
    stats = [engine.train_discriminator(learning_rate=0.02, use_fakes=use_fakes) for _ in range(3)]
    if use_fakes:
        stats += [engine.train_generators(learning_rate=0.02, steps=8) for _ in range(2)]
        stats += [engine.train_discriminator(learning_rate=0.02, use_fakes=True)]
    return engine.state(), stats, engine.norms()


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert np.array_equal(one[name], other[name]), name


SHARED = replace(GAME, unlabeled="shared", unlabeled_per_epoch=12_000)


@pytest.mark.parametrize("settings", [PLAIN, GAME, SHARED], ids=["pugmf", "pure", "shared draws"])
def test_one_worker_walks_the_schedule_of_four(source, settings):
    fakes = settings.generators != "none"
    alone = with_workers(1, 4, source, settings, lambda engine: three_epochs(engine, fakes))
    for n_workers in (2, 3, 4):
        state, stats, norms = with_workers(n_workers, 4, source, settings, lambda engine: three_epochs(engine, fakes))
        assert_same(state, alone[0])
        assert repr((stats, norms)) == repr(alone[1:])


def test_a_run_is_resumed_with_another_number_of_workers(source):
    def first(engine):
        engine.train_discriminator(learning_rate=0.02)
        return engine.state()

    half = with_workers(3, 3, source, GAME, first)

    def second(engine):
        engine.restore(half)
        engine.train_generators(learning_rate=0.02, steps=6)
        engine.train_discriminator(learning_rate=0.02)
        return engine.state()

    def at_once(engine):
        first(engine)
        engine.train_generators(learning_rate=0.02, steps=6)
        engine.train_discriminator(learning_rate=0.02)
        return engine.state()

    whole = with_workers(2, 3, source, GAME, at_once)
    for n_workers in (1, 2, 3):
        assert_same(with_workers(n_workers, 3, source, GAME, second), whole)

    # With other shards, or with none, the steps differ, but they continue from the same parameters.
    def restored(engine):
        engine.restore(half)
        return engine.state()

    assert_same(with_workers(2, 5, source, GAME, restored), half)
    plain = CpuEngine(source, GAME, seed=0)
    plain.restore(half)
    assert_same(plain.state(), half)


@pytest.mark.parametrize("unlabeled", ["per_user", "shared"])
def test_it_learns_what_one_engine_learns(source, unlabeled):
    """Even users like even items: each must rank them before the odd ones, as often as with one engine."""
    settings = replace(PLAIN, prior=0.35, observed=0.3, unlabeled=unlabeled)
    plain = ranked_right(CpuEngine(source, settings, seed=0))
    assert plain > 0.9
    for n_shards in (1, 2, 4):
        assert with_workers(1, n_shards, source, settings, ranked_right) > plain - 0.02


def test_the_parts_of_the_risk_add_up_to_the_whole(source):
    """Over all parts, the weights of positives and of unlabeled pairs are those of one engine."""
    crew = lead(Group(), source.positives(), "cpu", PLAIN, 0, 4)
    parts = [(shard, engine) for shard in crew.shards.values() for engine in shard._part_engines]
    n = len(source.positives())
    assert sum(engine._pairs.size for _, engine in parts) == n
    drawn = sum(engine.settings.unlabeled_per_epoch for _, engine in parts)
    assert drawn == pytest.approx(PLAIN.unlabeled_per_epoch, abs=len(parts))
    # An epoch has a step for every batch of positives, and each step has the full weight of the unlabeled part.
    weights = [engine._kernel_settings.unlabeled * engine._pairs.size / n for _, engine in parts]
    assert sum(weights) == pytest.approx(PLAIN.logistic.unlabeled, rel=0.01)
    # Unlabeled pairs are drawn equally for every positive of a user, in all blocks.
    for shard, engine in parts:
        counts = source.positives().counts[shard.users]
        assert np.array_equal(np.bincount(engine._asked, minlength=len(shard.users)), counts)


def test_a_given_start_is_taken(source):
    start = CpuEngine(source, PLAIN, seed=5).parameters()
    engine = DistributedEngine(source, PLAIN, seed=0, params=start, group=Group(), n_shards=3)
    assert_same(engine.parameters(), start)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scorer": "gmf"}, "cannot share the scorer 'gmf'"),
        ({"unlabeled": "popularity"}, "cannot share unlabeled=popularity"),
        ({"negatives": "dns"}, "cannot share negatives=dns"),
        ({"risk": "softmax"}, "cannot share prior='per_user'"),
    ],
)
def test_what_cannot_be_shared_is_refused(source, changes, message):
    with pytest.raises(ConfigError, match=message):
        with_workers(1, 2, source, replace(PLAIN, **changes), three_epochs)


def test_too_many_workers(source):
    with pytest.raises(ConfigError, match="too few for 60 workers"):
        with_workers(1, 60, source, PLAIN, three_epochs)
