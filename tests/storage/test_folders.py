import json
import os
import subprocess
import sys
import threading

import numpy as np
import polars as pl
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from conftest import ROOT
from purerec import storage
from purerec.data.vocabulary import Vocabulary
from purerec.errors import StoreError
from purerec.models.registry import load_model
from purerec.storage import manifests, swapping


def save(path, **manifest):
    return storage.write_folder(path, kind="model", manifest=manifest, tensors={"a": np.arange(100_000)})


def test_round_trip(tmp_path):
    stored = storage.read_folder(save(tmp_path / "m", title="Ä"), kind="model")
    assert stored.manifest["title"] == "Ä"
    assert stored.manifest["format"] == storage.FORMAT
    np.testing.assert_array_equal(stored.tensors["a"], np.arange(100_000))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def test_single_numbers_keep_their_shape(tmp_path):
    tensors = {"n": np.array(3), "row": np.arange(6).reshape(2, 3).T}
    folder = storage.write_folder(tmp_path / "m", kind="model", manifest={}, tensors=tensors)
    again = storage.read_folder(folder, kind="model").tensors
    assert again["n"].shape == ()
    np.testing.assert_array_equal(again["row"], tensors["row"])


def test_saving_again_replaces(tmp_path):
    save(tmp_path / "m", n=1)
    save(tmp_path / "m", n=2)
    assert storage.read_manifest(tmp_path / "m", kind="model")["n"] == 2
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


def test_a_failure_half_way_leaves_the_old_folder(tmp_path, monkeypatch):
    save(tmp_path / "m", n=1)

    def full_disk(path, content):
        raise OSError(28, "No space left on device")

    def full_disk_for_tensors(tensors, path):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    # The last file of several, and the first.
    for place, name, fails in (
        (manifests, "write_synced", full_disk),
        (safetensors.numpy, "save_file", full_disk_for_tensors),
    ):
        monkeypatch.setattr(place, name, fails)
        with pytest.raises(StoreError, match="No space left"):
            save(tmp_path / "m", n=2)
        monkeypatch.undo()
    assert storage.read_folder(tmp_path / "m", kind="model").manifest["n"] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def test_who_may_read_the_folder_may_read_all_of_it(tmp_path):
    folder = save(tmp_path / "m")
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def truncate(folder):
    path = folder / storage.TENSORS
    path.write_bytes(path.read_bytes()[:-100])


def flip(folder):
    path = folder / storage.TENSORS
    raw = bytearray(path.read_bytes())
    raw[-5] ^= 1
    path.write_bytes(raw)


def edit(**changes):
    def change(folder):
        path = folder / storage.MANIFEST
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, "damaged or truncated"),
        (flip, "damaged or truncated"),
        (lambda f: (f / storage.TENSORS).unlink(), "cannot be read"),
        (lambda f: (f / storage.MANIFEST).unlink(), "incomplete, or not from purerec"),
        (lambda f: (f / storage.MANIFEST).write_text("{"), "damaged"),
        (lambda f: (f / storage.MANIFEST).write_bytes(b"\xff\xfe"), "damaged"),
        (lambda f: (f / storage.MANIFEST).write_text("[]"), "not written by purerec"),
        (edit(format=99), "upgrade purerec"),
        (edit(kind="split"), "holds a 'split', not a 'model'"),
        (edit(title="B"), "checksum differs"),
        (edit(manifest_sha256=None), "checksum differs"),
    ],
)
def test_damage_is_an_error_and_never_a_wrong_number(tmp_path, damage, message):
    folder = save(tmp_path / "m")
    damage(folder)
    with pytest.raises(StoreError, match=message):
        storage.read_folder(folder, kind="model")


def test_no_folder(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        storage.read_folder(tmp_path / "none", kind="model")


@given(st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=20))
def test_strings_come_back(values):
    series = pl.Series(values, dtype=pl.String)
    assert storage.unpack_strings("x", storage.pack_strings("x", series)).to_list() == values


@given(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True),
        st.lists(st.text(), min_size=1, unique=True),
    )
)
def test_vocabularies_come_back(ids):
    vocabulary = Vocabulary.of(ids, "item")
    assert storage.unpack_vocabulary("item", storage.pack_vocabulary(vocabulary)) == vocabulary


# ---------------------------------------------------------------------- concurrent processes

WRITING = """
import sys, time
from pathlib import Path
from purerec.storage import new_folder, open_output
with new_folder(sys.argv[1] + "/m", kind="model") as work, open_output(sys.argv[1] + "/f") as file:
    (work / "half").write_text("x")
    print(flush=True)
    time.sleep(99)
"""


def test_leftovers_of_dead_writers_go_and_those_of_living_ones_stay(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITING, tmp_path], stdout=subprocess.PIPE, env=os.environ)
    writer.stdout.readline()
    save(tmp_path / "other")
    assert len(list(tmp_path.glob(".purerec-*"))) == 2
    writer.kill()
    writer.wait()
    writer.stdout.close()
    (tmp_path / ".purerec-notours").mkdir()
    save(tmp_path / "other")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".purerec-notours", "other"]


def test_a_reader_never_sees_half_a_folder(tmp_path):
    save(tmp_path / "m", n=0)
    stop = threading.Event()

    def replace():
        n = 0
        while not stop.is_set():
            n += 1
            storage.write_folder(tmp_path / "m", kind="model", manifest={"n": n}, tensors={"a": np.full(99, n)})

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(50):
            stored = storage.read_folder(tmp_path / "m", kind="model")
            assert len(set(stored.tensors["a"].tolist())) == 1 or stored.manifest["n"] == 0
            assert stored.manifest["n"] in (0, stored.tensors["a"][0])
    finally:
        stop.set()
        writer.join()


def test_without_an_exchange_of_names_a_folder_is_put_back(tmp_path, monkeypatch):
    monkeypatch.setattr(swapping, "exchange", lambda one, other: False)
    save(tmp_path / "m", n=1)
    save(tmp_path / "m", n=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    (tmp_path / "m").rename(swapping._aside(tmp_path / "m"))  # where a kill between the two steps leaves it
    for read in (storage.read_folder, storage.take_snapshot):
        found = read(tmp_path / "m", kind="model")
        assert found.manifest["n"] == 2
    found.close()
    (tmp_path / "m").rename(swapping._aside(tmp_path / "m"))
    storage.check_target(tmp_path / "m", kind="model")
    save(tmp_path / "m", n=3)
    assert storage.read_manifest(tmp_path / "m", kind="model")["n"] == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]


def test_a_model_folder_of_the_first_release():
    """Written by the code before format 2, with the scores of that code."""
    model = load_model(ROOT / "tests" / "fixtures" / "model-format-1")
    expected = [-0.0024574, 0.01001406, -0.00187775, 0.05630706, -0.07294443, 0.00127738]
    np.testing.assert_allclose(model.score([0])[0], expected, rtol=1e-5)
    assert model.recommend([0], k=3)["item"].to_list() == [3, 1, 5]
