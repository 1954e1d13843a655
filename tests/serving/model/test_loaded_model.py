"""Snapshots: checked, mapped, and unaffected by what happens to the folder."""

import gc
from pathlib import Path

import numpy as np
import pytest

from purerec.errors import StoreError
from purerec.models.contract.recommender import Recommender
from purerec.models.registry import load_model
from purerec.serving.model.loaded_model import Holder, load, snapshot_model
from purerec.serving.model.names import Names
from purerec.storage import HEAD, pack_strings, read_folder, take_snapshot, write_folder
from serving.conftest import fitted


@pytest.mark.parametrize("name", ["ials", "ease", "itemknn", "itempop", "pure", "coclustering"])
def test_a_mapped_model_gives_the_same_lists(name: str, tmp_path: Path):
    settings = {"epochs": 2} if name in ("pure", "coclustering") else {}
    fitted(name=name, **settings).save(tmp_path / "m")
    snapshot = snapshot_model(tmp_path / "m")
    loaded = load(snapshot, "m")
    snapshot.close()
    expected, users = load_model(tmp_path / "m"), np.arange(5)
    assert np.array_equal(loaded.model.top_for_users(users, 5).items, expected.top_for_users(users, 5).items)
    assert [loaded.item_ids[i] for i in range(60)] == [str(i) for i in expected.items.ids.to_list()]
    assert expected.labels is not None
    assert [loaded.labels[i] for i in range(60)] == expected.labels.to_list()


def test_snapshots_hold_what_the_folder_held(folder: Path, model: Recommender, tmp_path: Path):
    model.save(tmp_path / "m")
    snapshot = take_snapshot(tmp_path / "m", kind="model")
    stored = snapshot.map()
    expected = read_folder(tmp_path / "m", kind="model").tensors
    (tmp_path / "m" / "tensors.safetensors").write_bytes(b"")  # truncated in place
    assert stored.tensors.keys() == expected.keys()
    for name, array in expected.items():
        assert stored.tensors[name].dtype == array.dtype
        assert np.array_equal(stored.tensors[name], array)
        assert stored.tensors[name].flags.aligned
    snapshot.close()


def test_maps_do_not_write_through(folder: Path):
    snapshot = take_snapshot(folder, kind="model")
    first, second = snapshot.map(), snapshot.map()
    snapshot.close()
    name = "seen.indices"
    before = second.tensors[name].copy()
    first.tensors[name][:] = 0
    assert np.array_equal(second.tensors[name], before)


def test_damage_is_an_error(folder: Path, model: Recommender, tmp_path: Path):
    model.save(tmp_path / "m")
    with (tmp_path / "m" / "tensors.safetensors").open("ab") as file:
        file.write(b"more")
    with pytest.raises(StoreError, match="damaged or truncated"):
        take_snapshot(tmp_path / "m", kind="model")
    (tmp_path / "m" / "tensors.safetensors").unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        take_snapshot(tmp_path / "m", kind="model")


def test_scalars_and_empty_tensors(tmp_path: Path):
    tensors = {"one": np.array(3.5), "none": np.zeros((0, 4), dtype=np.float32), "yes": np.array([True, False])}
    write_folder(tmp_path / "f", kind="model", manifest={}, tensors=tensors)
    snapshot = take_snapshot(tmp_path / "f", kind="model")
    found = snapshot.map().tensors
    snapshot.close()
    for name, array in tensors.items():
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


def test_a_model_that_cannot_answer_is_refused(folder: Path, tmp_path: Path):
    """The checksum is right, but the content is meaningless: such a folder must not replace the model."""
    stored = read_folder(folder, kind="model")
    tensors = {name: array.copy() for name, array in stored.tensors.items()}
    for name, array in tensors.items():
        if name.startswith("model.") and array.dtype.kind == "f":
            array[...] = np.nan
    facts = {k: v for k, v in stored.manifest.items() if k not in HEAD}
    write_folder(tmp_path / "nan", kind="model", manifest=facts, tensors=tensors)
    snapshot = snapshot_model(tmp_path / "nan")
    from purerec.errors import PurerecError

    with pytest.raises(PurerecError):
        load(snapshot, "nan")
    snapshot.close()


@pytest.mark.parametrize("error", [RecursionError, MemoryError, OverflowError, AttributeError, OSError])
def test_whatever_fails_is_a_folder_that_cannot_be_used(error: type[Exception], folder: Path, monkeypatch):
    """A reload waits for an answer, and a refusal is one."""

    def fail(*_args: object, **_kwargs: object) -> None:
        raise error("of all things")

    with monkeypatch.context() as patched:
        patched.setattr("purerec.serving.model.loaded_model.take_snapshot", fail)
        with pytest.raises(StoreError, match="cannot be used"):
            snapshot_model(folder)
    snapshot = snapshot_model(folder)
    monkeypatch.setattr("purerec.serving.model.loaded_model.restore_model", fail)
    with pytest.raises(StoreError, match="cannot be used"):
        load(snapshot, "m")
    snapshot.close()


def test_names():
    import polars as pl

    tensors = pack_strings("x", pl.Series(["a", None, "", "Amélie"]))
    assert [Names("x", tensors)[i] for i in range(4)] == ["a", None, "", "Amélie"]
    assert Names("ids", {"ids": np.array([7, -3])})[1] == "-3"
    assert Names("x", {})[0] is None


@pytest.mark.parametrize("name", ["ials", "ease", "pure", "itempop"])
def test_a_model_that_was_swapped_out_leaves_nothing_behind(name: str, tmp_path: Path):
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    fitted(name=name, **({"epochs": 1} if name == "pure" else {})).save(tmp_path / "m")

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:purerec")

    before, holder = mapped(), Holder()
    gc.disable()
    try:
        for _ in range(3):
            snapshot = snapshot_model(tmp_path / "m")
            holder.swap(load(snapshot, "m"))
            snapshot.close()
        assert mapped() == before + 1
    finally:
        gc.enable()
