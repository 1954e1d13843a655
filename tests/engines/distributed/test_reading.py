"""A data set in parts: each worker reads its own, and the model does not depend on the number of workers."""

import threading

import numpy as np
import polars as pl
import pytest

import purerec as pr
from engines.distributed.test_stored import Cut
from engines.distributed.threads import with_group
from purerec.data.large.dataset import Dataset
from purerec.engines.distributed.group import sharing_with
from purerec.engines.distributed.reading import lead_reading
from purerec.errors import SharedError
from purerec.training.run import Run

PARTS, SHARDS = 7, 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("large")
    n = 12_000  # PURE chooses its history's weight only on logs of some size
    table = {
        "user": [f"u{u}" for u in rng.integers(0, 600, n)],
        "item": [f"i{i}" for i in (60 * rng.random(n) ** 2).astype(int)],
        "rating": rng.integers(1, 6, n),
        "timestamp": rng.integers(0, 10**9, n),
    }
    pl.DataFrame(table).write_csv(folder / "clicks.csv")
    return pr.ingest(folder / "clicks.csv", folder / "clicks", partitions=PARTS)


def read(group, data, positive_rating=None):
    group.shards = SHARDS
    log, group.read = lead_reading(group, data, positive_rating)
    return log


@pytest.mark.parametrize("positive_rating", [None, 4])
@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_the_positives_are_those_of_the_whole(data, n_workers, positive_rating):
    log = with_group(n_workers, lambda group: read(group, data, positive_rating))
    whole = data.read().with_positives(positive_rating)
    assert log.users == whole.users
    assert log.items == whole.items
    assert np.array_equal(log.positives.indptr, whole.positives.indptr)
    assert np.array_equal(log.positives.indices, whole.positives.indices)


def test_each_part_is_read_once_by_the_worker_that_has_its_users(data, monkeypatch):
    opened, rows = [], Dataset.rows

    def noted(self, part):
        opened.append((part, threading.get_ident()))
        return rows(self, part)

    monkeypatch.setattr(Dataset, "rows", noted)

    def begun(group):
        log = read(group, data)
        with sharing_with(group):
            pr.PUGMF(epochs=1, dim=4).fit(log)

    with_group(3, begun)
    assert sorted(part for part, _ in opened) == list(range(PARTS))
    readers = [who for _, who in sorted(opened)]
    assert len(set(readers)) == 3
    assert readers == [readers[0]] * 3 + [readers[3]] * 2 + [readers[5]] * 2


@pytest.mark.parametrize("model", [pr.PUGMF(epochs=3, dim=4), pr.PURE(epochs=5, pretrain_epochs=2, dim=4)])
def test_any_number_of_workers_fits_the_same(data, model):
    """PURE's first epochs hold out pairs for choosing its history; the workers hold them out, too."""

    def fitted(group):
        log = read(group, data, 3)
        with sharing_with(group):
            return type(model)(model.config).fit(log, seed=0)._state()

    alone = with_group(1, fitted)
    for n_workers in (2, 3):
        shared = with_group(n_workers, fitted)
        assert shared.keys() == alone.keys()
        for name, value in alone.items():
            assert np.array_equal(shared[name], value), name


def test_nothing_is_sent_to_those_who_have_read_it(data, monkeypatch):
    def begun(group):
        log, sent = read(group, data), []
        monkeypatch.setattr(group, "exchange", lambda out, into: sent.append((out, into)))
        with sharing_with(group):
            game = pr.PURE(epochs=5, pretrain_epochs=2, dim=4)._fitting(log, 0)
        assert game.held_out is not None
        return sent

    assert with_group(3, begun) == []


def test_a_part_that_one_worker_cannot_read_is_told_by_all(data, monkeypatch):
    first, rows = threading.get_ident(), Dataset.rows

    def damaged(self, part):
        if threading.get_ident() != first and part == 6:
            raise pr.errors.ReadError("part-00006.parquet: is damaged; copy or ingest it again")
        return rows(self, part)

    monkeypatch.setattr(Dataset, "rows", damaged)

    def refused(group):
        with pytest.raises(SharedError, match=r"worker 2 on .*: part-00006\.parquet: is damaged; copy"):
            read(group, data)

    with_group(3, refused)


def test_a_worker_that_sees_another_data_set(data, monkeypatch):
    opened = Dataset.open.__func__
    monkeypatch.setattr(Dataset, "open", classmethod(lambda cls, place: None))

    def refused(group):
        with pytest.raises(SharedError, match=r"worker 1 on .*: .*is not the data set that worker 0 reads"):
            read(group, data)

    with_group(2, refused)
    assert opened(Dataset, data.place) is not None


def test_a_resumed_fit_ends_in_the_same_bits_with_other_workers(data, tmp_path):
    def fitted(group, **options):
        log = read(group, data)
        with sharing_with(group):
            return pr.PUGMF(epochs=6, dim=4).fit(log, seed=0, run=Run(**options))._state()

    def cut(record):
        if record.epoch == 3:
            raise Cut

    def interrupted(group):
        with pytest.raises(Cut):
            fitted(group, checkpoint=tmp_path / "c", checkpoint_epochs=2, callbacks=(cut,))

    with_group(3, interrupted)
    resumed = with_group(2, lambda group: fitted(group, checkpoint=tmp_path / "c", resume=True))
    for name, value in with_group(1, fitted).items():
        assert np.array_equal(resumed[name], value), name
