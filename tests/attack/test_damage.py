"""Damaged folders, and meaningless folders with matching checksums: a proper error, never a crash."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import purerec as pr
from conftest import checkerboard
from purerec.data.splits import split
from purerec.errors import StoreError
from purerec.experiments.cells import work
from purerec.experiments.cells.cell import CellStore
from purerec.experiments.panels import compare_panel, make_panel
from purerec.experiments.plans import Plan
from purerec.models.registry import REGISTRY, load_model, make_model
from purerec.storage import HEAD, load_split, read_folder, read_manifest, save_split, take_snapshot, write_folder
from purerec.storage.manifests import manifest_digest

SETTINGS = {
    "pure": [{}, {"scorer": "gmf"}, {"scorer": "bilinear"}, {"scorer": "mlp"}, {"neighbors": 3}],
    "cfgan": [{}, {"based": "user"}],
    "ease": [{}, {"neighbors": 3}],
}


def log():
    """With text ids and titles, so that there are strings to damage."""
    board = checkerboard(12)
    users, items = (
        ids.take(idx).cast(str) for ids, idx in ((board.users, board.user_idx), (board.items, board.item_idx))
    )
    return pr.Interactions.from_columns(users, items).with_labels({str(n): f"Ünit {n}" for n in range(9)})


def quick(name, **settings):
    fields = type(make_model(name).config).model_fields
    short = {"epochs": 2, "pretrain_epochs": 1}
    return make_model(name, **{k: v for k, v in short.items() if k in fields}, **settings)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place, data = tmp_path_factory.mktemp("models"), log()
    for name in reversed(REGISTRY):  # the other worker starts from the front: each compiles one half
        for n, settings in enumerate(SETTINGS.get(name, [{}])):
            quick(name, **settings).fit(data).save(place / f"{name}{n or ''}")
    return place


@pytest.mark.slow
def test_senseless_folders_never_crash(folders):
    script = Path(__file__).with_name("damage.py")
    command = [sys.executable, script, folders, "0", "60"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr[-2000:]
    loaded, refused = (int(word) for word in done.stdout.splitlines()[-1].split() if word.isdigit())
    assert loaded > 20
    assert refused > 300


def test_what_every_model_writes_has_the_layout_it_declares(folders):
    for folder in folders.iterdir():
        model = load_model(folder)
        state = model._state()
        assert set(state) == set(model._layout())
        for name, part in model._layout().items():
            assert state[name].dtype == part.dtype, (folder.name, name)
            assert state[name].ndim == len(part.shape), (folder.name, name)


def rewritten(folder, place, change, kind="model"):
    stored = read_folder(folder, kind=kind)
    facts = {name: value for name, value in stored.manifest.items() if name not in HEAD}
    tensors = {name: array.copy() for name, array in stored.tensors.items()}
    change(facts, tensors)
    return write_folder(place, kind=kind, manifest=facts, tensors=tensors)


def put(name, where, value):
    def change(facts, tensors):
        tensors[name][where] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("seen.indptr", 3, 10**12), "rows of seen"),
        (put("seen.indptr", 0, 1), "rows of seen"),
        (put("seen.indices", 0, 10**6), "seen has indices"),
        (put("seen.indices", 0, -1), "seen has indices"),
        (put("seen.indices", 1, 0), "sorted, or repeat"),
        (put("user.ids.ends", 2, 10**12), "ends of user.ids"),
        (put("user.ids.ends", 0, -1), "ends of user.ids"),
        (put("item.ids.bytes", 0, 255), "not UTF-8"),
        (put("item.ids.bytes", 0, ord("1")), "repeat"),
        (put("model.user", (0, 0), np.nan), "not finite"),
        (lambda f, t: t.update({"model.item": t["model.item"][:-1]}), "shape"),
        (lambda f, t: t.update({"model.item": t["model.item"].astype(np.float64)}), "float64 numbers"),
        (lambda f, t: t.pop("model.item_bias"), "missing"),
        (lambda f, t: f.update(fitted_on={**f["fitted_on"], "positives": "many"}), "positives"),
        (lambda f, t: f.update(config=[]), "does not fit"),
    ],
)
def test_tensors_that_make_no_sense(folders, tmp_path, change, message):
    folder = rewritten(folders / "bpr", tmp_path / "m", change)
    with pytest.raises(StoreError, match=message):
        load_model(folder)


OWN, FEW = "pure", "pure4"
"""With all weights of the history, and with those that are not zero"""


def history(name, value, where=...):
    return put(f"model.history.{name}", where, value)


def with_a_scorer_from_outside(facts, tensors):
    for side in ("user", "item"):
        tensors[f"model.scorer.{side}"] = tensors.pop(f"model.{side}_bias")


@pytest.mark.parametrize(
    ("of", "change", "message"),
    [
        (OWN, history("weights", np.nan, (0, 0)), "not finite"),
        (OWN, history("weight", np.inf), "not finite"),
        (OWN, history("weight", -1), "weight of the history is -1"),
        (OWN, history("weight", 1e30), "weight of the history is 1e"),
        (OWN, lambda f, t: t.pop("model.history.weight"), "'weight' is missing"),
        (OWN, lambda f, t: t.pop("model.history.weights"), "'weights' is missing"),
        (OWN, lambda f, t: t.update({"model.history.more": np.ones(2, np.float32)}), "'more' is not known"),
        (OWN, lambda f, t: t.update({"model.history.weight_starts": np.zeros(13, np.int64)}), "is missing"),
        (OWN, lambda f, t: f["config"].update(users="free"), "these settings does not have"),
        (OWN, with_a_scorer_from_outside, "these settings does not have"),
        (FEW, history("weight_starts", 10**12, 3), "rows of weights"),
        (FEW, history("weight_starts", 1, 0), "rows of weights"),
        (FEW, history("weight_starts", 0), "rows of weights"),
        (FEW, history("weight_items", 10**6, 0), "weights has indices"),
        (FEW, history("weight_items", -1, 0), "weights has indices"),
        (FEW, history("weight_items", 5), "sorted, or repeat"),
        (FEW, history("weight_values", np.nan, 0), "not finite"),
        (FEW, lambda f, t: t.pop("model.history.weight_items"), "'weight_items' is missing"),
        (FEW, lambda f, t: t.update({"model.history.weights": np.ones((12, 12), np.float32)}), "is not known"),
    ],
)
def test_histories_that_make_no_sense(folders, tmp_path, of, change, message):
    folder = rewritten(folders / of, tmp_path / "m", change)
    with pytest.raises(StoreError, match=message):
        load_model(folder)


def test_a_service_does_not_take_over_what_makes_no_sense(folders, tmp_path):
    from purerec.serving.model.loaded_model import load

    folder = rewritten(folders / "bpr", tmp_path / "m", put("seen.indptr", 3, 10**12))
    snapshot = take_snapshot(folder, kind="model")
    with pytest.raises(StoreError, match="rows of seen"):
        load(snapshot, "m")
    snapshot.close()


# ---------------------------------------------------------------------- the manifest


def test_every_bit_of_the_manifest_counts(folders, tmp_path):
    folder = Path(shutil.copytree(folders / "pure", tmp_path / "m"))
    path = folder / "manifest.json"
    raw = path.read_bytes()
    before = read_manifest(folder, kind="model")
    rng = np.random.default_rng(0)
    for at in rng.choice(len(raw), 200, replace=False):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << rng.integers(7)
        path.write_bytes(damaged)
        try:
            assert read_manifest(folder, kind="model") == before  # one kind of space became another
        except StoreError:
            continue


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["config"].update(prior=0.3),
        lambda m: m["fitted_on"].update(positive_rating=3.0),
        lambda m: m.pop("manifest_sha256"),
        lambda m: m.update(manifest_sha256=None),
        lambda m: m.update(format=1),  # format 1 needs no checksum, but this has one
    ],
)
def test_a_changed_manifest_is_damaged(folders, tmp_path, change):
    folder = Path(shutil.copytree(folders / "pure", tmp_path / "m"))
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    for use in (load_model, lambda f: take_snapshot(f, kind="model")):
        with pytest.raises(StoreError, match="checksum differs"):
            use(folder)


def test_folders_of_format_1_are_read(folders, tmp_path):
    """As written by every version before format 2: no list of files, no checksum of the manifest."""
    for original in sorted(folders.iterdir()):
        folder = Path(shutil.copytree(original, tmp_path / original.name))
        manifest = json.loads((folder / "manifest.json").read_text())
        for name in ("files", "manifest_sha256"):
            del manifest[name]
        (folder / "manifest.json").write_text(json.dumps({**manifest, "format": 1}))
        model = load_model(folder)
        assert model.recommend(["1"], k=3).equals(load_model(original).recommend(["1"], k=3))
        model.save(folder)  # may be replaced, and then has the current format
        assert json.loads((folder / "manifest.json").read_text())["format"] == 2


@pytest.mark.parametrize("depth", [40, 900, 100_000])
@pytest.mark.parametrize("signed", [True, False])
def test_deep_manifests(folders, tmp_path, depth, signed):
    folder = Path(shutil.copytree(folders / "itempop", tmp_path / "m"))
    manifest = json.loads((folder / "manifest.json").read_text()) | {"format": 1}
    del manifest["manifest_sha256"]
    if signed and depth < 100:
        inner: list[object] = []
        for _ in range(depth):
            inner = [inner]
        manifest["manifest_sha256"] = manifest_digest(manifest | {"deep": inner})
    text = json.dumps(manifest)
    (folder / "manifest.json").write_text(text[:-1] + ', "deep": ' + "[" * depth + "]" * depth + "}")
    for use in (load_model, lambda f: take_snapshot(f, kind="model")):
        with pytest.raises(StoreError, match="nested too deeply"):
            use(folder)


# ---------------------------------------------------------------------- other kinds of folders


@pytest.mark.parametrize(
    "change",
    [
        put("log.user", 0, 10**6),
        put("log.item", 0, -1),
        lambda f, t: t.update({"log.item": t["log.item"][:-1]}),
        lambda f, t: f.update(sizes=[1, 1]),
        lambda f, t: f.update(sizes=[-1, 1, 2]),
        lambda f, t: f.update(sizes="x"),
        lambda f, t: f["data"].update(time_unit="y"),
        lambda f, t: f["data"].update(positive_rating="x"),
        lambda f, t: f.pop("data"),
        lambda f, t: t.pop("log.user"),
        put("log.item", slice(None), 0),
    ],
)
def test_splits_that_make_no_sense(tmp_path, change):
    folder = save_split(split(log(), "ratio"), tmp_path / "s")
    with pytest.raises(StoreError, match="is not a valid split"):
        load_split(rewritten(folder, tmp_path / "t", change, kind="split"))


@pytest.mark.parametrize(
    "change",
    [
        lambda f, t: t.update(user_idx=t["user_idx"][:-1]),
        lambda f, t: f["evaluation"].pop("metrics"),
        lambda f, t: f.update(result=None),
        lambda f, t: t.update(user_idx=t["user_idx"].astype(np.float64)),
    ],
)
def test_runs_that_make_no_sense_are_run_again(tmp_path, change, monkeypatch):
    store = CellStore(tmp_path / "runs")
    parts = split(log(), "ratio")
    first = compare_panel(make_panel(parts, [Plan("itempop", "itempop")], seeds=1), store=store)
    (folder,) = (tmp_path / "runs").iterdir()
    rewritten(folder, folder, change, kind="cell")
    again = compare_panel(make_panel(parts, [Plan("itempop", "itempop")], seeds=1), store=store)
    assert again.scores() == first.scores()
    monkeypatch.setattr(work, "run", None)  # the repeated run is intact in the store
    assert (
        compare_panel(make_panel(parts, [Plan("itempop", "itempop")], seeds=1), store=store).scores()
        == first.scores()
    )


def test_finished_runs_are_forgotten_in_one_step(tmp_path, monkeypatch):
    store = CellStore(tmp_path / "runs")
    compare_panel(make_panel(split(log(), "ratio"), [Plan("itempop", "itempop")], seeds=1), store=store)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed before anything was removed
    store.clear()
    assert not store.path.exists()
    monkeypatch.undo()
    store.clear()
    compare_panel(make_panel(split(log(), "ratio"), [Plan("itempop", "itempop")], seeds=1), store=store)
    store.clear()
    assert list(tmp_path.iterdir()) == []
