"""A checkpoint in parts: a torn set is never resumed, and any number of workers can continue from a whole one."""

from pathlib import Path

import numpy as np
import pytest

import purerec as pr
from engines.distributed.test_engine import GAME, assert_same
from engines.distributed.threads import with_group, with_workers
from purerec.engines.distributed import stored
from purerec.engines.distributed.group import sharing_with
from purerec.engines.pure.cpu.engine import CpuEngine
from purerec.errors import SharedError, StoreError
from purerec.storage import whole_state
from purerec.training.run import Run


def train(engine, number):
    for _ in range(number):
        engine.train_discriminator(learning_rate=0.02)
        engine.train_generators(learning_rate=0.02, steps=6)


def written(engine, folder, generation=1):
    train(engine, 1)
    return engine.write_parts(folder, generation)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "set").mkdir()
    return tmp_path / "set"


def test_each_worker_goes_on_from_its_own_part(source, folder):
    rest, parts = with_workers(3, 3, source, GAME, lambda engine: written(engine, folder))
    assert sorted(parts) == sorted(path.name for path in folder.iterdir())
    assert sorted(parts) == [f"part-000001-0000{n}.safetensors" for n in range(3)]

    def resumed(engine):
        engine.restore_parts(rest, folder, parts)
        train(engine, 1)
        return engine.state()

    def at_once(engine):
        train(engine, 2)
        return engine.state()

    whole = with_workers(2, 3, source, GAME, at_once)
    for n_workers in (1, 2, 3):
        assert_same(with_workers(n_workers, 3, source, GAME, resumed), whole)


def test_a_worker_reads_only_its_own_part_if_there_are_as_many(source, folder, monkeypatch):
    rest, parts = with_workers(3, 3, source, GAME, lambda engine: written(engine, folder))
    read, read_part = [], stored.read_state_part
    monkeypatch.setattr(stored, "read_state_part", lambda path, digest: read.append(path) or read_part(path, digest))
    with_workers(3, 3, source, GAME, lambda engine: engine.restore_parts(rest, folder, parts))
    assert sorted(read) == sorted(folder.iterdir())


@pytest.mark.parametrize("n_shards", [1, 2, 5])
def test_another_number_of_shards_goes_on_from_the_same_bits(source, folder, n_shards):
    (rest, parts), state = with_workers(3, 3, source, GAME, lambda engine: (written(engine, folder), engine.state()))

    def restored(engine):
        engine.restore_parts(rest, folder, parts)
        return engine.state()

    assert_same(with_workers(min(2, n_shards), n_shards, source, GAME, restored), state)
    plain = CpuEngine(source, GAME, seed=0)
    plain.restore(rest | whole_state(folder, parts))
    assert_same(plain.state(), state)


def torn(folder: Path, how: str) -> str:
    first, second, _ = sorted(folder.iterdir())
    if how == "missing":
        second.unlink()
    elif how == "of another generation":
        (folder / second.name).write_bytes((folder.parent / "older" / second.name.replace("2-", "1-")).read_bytes())
    elif how == "another worker's":
        second.write_bytes(first.read_bytes())
    else:
        second.write_bytes(second.read_bytes()[:-4])
    return second.name


@pytest.mark.parametrize("how", ["missing", "truncated", "another worker's", "of another generation"])
@pytest.mark.parametrize("n_workers", [1, 3])
def test_a_torn_set_is_never_resumed(source, folder, how, n_workers):
    older = folder.parent / "older"
    older.mkdir()

    def two_sets(engine):
        written(engine, older)
        return written(engine, folder, 2)

    rest, parts = with_workers(3, 3, source, GAME, two_sets)
    name = torn(folder, how)

    def refused(engine):
        with pytest.raises(SharedError, match=rf"worker \d on .*: .*{name}.* is torn; fit without --resume"):
            engine.restore_parts(rest, folder, parts)

    with_workers(n_workers, 3, source, GAME, refused)
    with pytest.raises(StoreError, match="is torn"):
        whole_state(folder, parts)


def test_parts_that_are_not_of_one_whole(source, folder):
    """Each matches its checksum, but together they do not have everybody."""
    rest, parts = with_workers(3, 3, source, GAME, lambda engine: written(engine, folder))
    fewer = dict(list(parts.items())[:2])

    def refused(engine):
        with pytest.raises(SharedError, match="does not have each user and item once"):
            engine.restore_parts(rest, folder, fewer)

    with_workers(2, 2, source, GAME, refused)
    with pytest.raises(StoreError, match="its parts do not have each"):
        whole_state(folder, fewer)


def test_a_part_that_cannot_be_written_is_told_by_all(source, tmp_path):
    def refused(engine):
        with pytest.raises(SharedError, match=r"worker 0 on .*: cannot write .*part-000001-00000"):
            engine.write_parts(tmp_path / "gone", 1)

    with_workers(2, 2, source, GAME, refused)


def test_a_worker_without_memory_is_named_by_all(source, folder, monkeypatch):
    def full(*_):
        raise MemoryError

    def refused(engine):
        with monkeypatch.context() as patch:
            patch.setattr(stored, "write_state_part", full)
            with pytest.raises(SharedError, match=r"worker 0 on .*: out of memory; use more workers"):
                engine.write_parts(folder, 1)

    with_workers(2, 2, source, GAME, refused)
    assert not np.any([path.exists() for path in folder.glob("manifest*")])


class Cut(Exception):
    pass


@pytest.mark.parametrize("last", [1, 4], ids=["before the game", "in the game"])
def test_a_fit_of_pure_is_resumed_by_other_workers_to_the_same_bits(tmp_path, last):
    """Its first epochs hold out pairs for choosing the history; that is part of a checkpoint, too."""
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(rng.integers(0, 400, 6000), (60 * rng.random(6000) ** 2).astype(np.int64))

    def cut(record):
        if record.epoch == last:
            raise Cut

    def fitted(group, **options):
        group.shards = 3
        with sharing_with(group):
            return pr.PURE(epochs=7, pretrain_epochs=3, dim=4).fit(log, seed=0, run=Run(**options))._state()

    def interrupted(group):
        with pytest.raises(Cut):
            fitted(group, checkpoint=tmp_path / "c", checkpoint_epochs=1, callbacks=(cut,))

    with_group(3, interrupted)
    assert len(list((tmp_path / "c").glob("part-*"))) == 3
    resumed = with_group(2, lambda group: fitted(group, checkpoint=tmp_path / "c", resume=True))
    assert_same(resumed, with_group(1, fitted))

    torn = next((tmp_path / "c").glob("part-*-00001.safetensors"))
    torn.unlink()
    with pytest.raises(StoreError, match=r"c is not a valid checkpoint \(part-.* is missing, one of 3 parts"):
        with_group(2, lambda group: fitted(group, checkpoint=tmp_path / "c", resume=True))
