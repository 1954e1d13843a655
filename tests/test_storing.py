import json

import numpy as np
import polars as pl
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from purerec import storing
from purerec.errors import StoreError
from purerec.vocabulary import Vocabulary


def save(path, **manifest):
    return storing.write_folder(path, kind="model", manifest=manifest, tensors={"a": np.arange(100_000)})


def test_round_trip(tmp_path):
    stored = storing.read_folder(save(tmp_path / "m", title="Ä"), kind="model")
    assert stored.manifest["title"] == "Ä"
    assert stored.manifest["format"] == storing.FORMAT
    np.testing.assert_array_equal(stored.tensors["a"], np.arange(100_000))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def test_single_numbers_keep_their_shape(tmp_path):
    tensors = {"n": np.array(3), "row": np.arange(6).reshape(2, 3).T}
    folder = storing.write_folder(tmp_path / "m", kind="model", manifest={}, tensors=tensors)
    again = storing.read_folder(folder, kind="model").tensors
    assert again["n"].shape == ()
    np.testing.assert_array_equal(again["row"], tensors["row"])


def test_saving_again_replaces(tmp_path):
    save(tmp_path / "m", n=1)
    save(tmp_path / "m", n=2)
    assert storing.read_manifest(tmp_path / "m", kind="model")["n"] == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def test_other_folders_and_files_are_left_alone(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "thesis.txt").write_text("years")
    with pytest.raises(StoreError, match="holds other files"):
        save(tmp_path / "docs")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file"):
        save(tmp_path / "file")
    assert (tmp_path / "docs" / "thesis.txt").read_text() == "years"


def test_who_may_read_the_folder_may_read_all_of_it(tmp_path):
    folder = save(tmp_path / "m")
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_a_failure_half_way_leaves_the_old_folder(tmp_path, monkeypatch):
    save(tmp_path / "m", n=1)

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    def full_disk_for_tensors(*_):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    for place, fails in ((storing, "_write_synced"), (safetensors.numpy, "save_file")):
        monkeypatch.setattr(place, fails, full_disk if place is storing else full_disk_for_tensors)
        with pytest.raises(StoreError, match="No space left"):
            save(tmp_path / "m", n=2)
        monkeypatch.undo()
    assert storing.read_folder(tmp_path / "m", kind="model").manifest["n"] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def truncate(folder):
    path = folder / storing.TENSORS
    path.write_bytes(path.read_bytes()[:-100])


def flip(folder):
    path = folder / storing.TENSORS
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)


def edit(**changes):
    def change(folder):
        path = folder / storing.MANIFEST
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "damaged or truncated"),
        (flip, "damaged or truncated"),
        (lambda f: (f / storing.TENSORS).unlink(), "cannot be read"),
        (lambda f: (f / storing.MANIFEST).unlink(), "not a purerec folder"),
        (lambda f: (f / storing.MANIFEST).write_text("{"), "damaged"),
        (lambda f: (f / storing.MANIFEST).write_bytes(b"\xff\xfe"), "damaged"),
        (lambda f: (f / storing.MANIFEST).write_text("[]"), "not written by purerec"),
        (edit(format=99), "upgrade purerec"),
        (edit(kind="split"), "holds a 'split', not a 'model'"),
    ],
)
def test_damage_is_an_error_and_never_a_wrong_number(tmp_path, damage, message):
    folder = save(tmp_path / "m")
    damage(folder)
    with pytest.raises(StoreError, match=message):
        storing.read_folder(folder, kind="model")


def test_no_folder(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        storing.read_folder(tmp_path / "none", kind="model")


@given(st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=20))
def test_strings_come_back(values):
    series = pl.Series(values, dtype=pl.String)
    assert storing.unpack_strings("x", storing.pack_strings("x", series)).to_list() == values


@given(st.one_of(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.lists(st.text(), min_size=1)))
def test_vocabularies_come_back(ids):
    vocabulary = Vocabulary.of(ids, "item")
    assert storing.unpack_vocabulary("item", storing.pack_vocabulary(vocabulary)) == vocabulary
