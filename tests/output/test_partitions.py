"""Lists for everybody as a folder of files: which file has which users, and what is left to do."""

import numpy as np
import polars as pl
import pytest

import purerec as pr
from purerec.errors import StoreError
from purerec.output.partitions import Partition, left_to_do, partitions, write_partition


@pytest.mark.parametrize("n_users", [1, 255, 257, 6040, 4_000_001])
def test_every_user_is_in_one_partition(n_users):
    parts = partitions(n_users)
    assert [user for part in parts for user in (part.start, part.stop)][1:-1:2] == [part.start for part in parts[1:]]
    assert (parts[0].start, parts[-1].stop) == (0, n_users)
    assert all(0 < part.stop - part.start <= 50_000 for part in parts)
    assert [part.number for part in parts] == list(range(len(parts)))


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(rng.integers(0, 600, 6000), rng.integers(0, 30, 6000))
    fitted = pr.ItemPop().fit(log)
    fitted.save(tmp_path / "model")
    return fitted


def test_what_is_there_is_not_made_again(tmp_path, model):
    out, n = tmp_path / "lists", len(model.users)
    todo = left_to_do(out, tmp_path / "model", n, {"k": 3})
    assert todo == partitions(n)
    for part in todo[1:]:
        write_partition(out, model, part, 3, {})
    assert left_to_do(out, tmp_path / "model", n, {"k": 3}) == [todo[0]]
    write_partition(out, model, todo[0], 3, {})
    assert left_to_do(out, tmp_path / "model", n, {"k": 3}) == []
    assert pl.read_parquet(out / "*.parquet").equals(model.recommend(k=3))
    for wrong in ({"k": 4}, {"k": 3, "exclude_seen": False}):
        with pytest.raises(StoreError, match="lists of another model, or with other options"):
            left_to_do(out, tmp_path / "model", n, wrong)
    (out / "lists.json").write_text("{")
    with pytest.raises(StoreError, match="lists of another model"):
        left_to_do(out, tmp_path / "model", n, {"k": 3})


def test_other_peoples_files_are_left_alone(tmp_path, model):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="holds other files"):
        left_to_do(tmp_path / "mine", tmp_path / "model", 5, {})
    with pytest.raises(StoreError, match="is a file"):
        left_to_do(tmp_path / "mine" / "notes.txt", tmp_path / "model", 5, {})
    with pytest.raises(StoreError, match="cannot read"):
        left_to_do(tmp_path / "lists", tmp_path / "nothing", 5, {})
    assert not (tmp_path / "lists").exists()


def test_a_writer_that_fails_leaves_no_file(tmp_path, model, monkeypatch):
    monkeypatch.setattr(type(model), "recommend_blocks", lambda *_, **__: iter([model.recommend(k=2), 1 / 0]))
    with pytest.raises(ZeroDivisionError):
        write_partition(tmp_path, model, Partition(0, 0, 5), 2, {})
    assert not list(tmp_path.glob("*.parquet")) + list(tmp_path.glob(".purerec*"))
