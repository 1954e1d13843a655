"""Hundreds of folders with matching checksums and meaningless content; see test_damage.

    python damage.py FOLDER SEED TIMES

Every model folder in FOLDER is changed TIMES times at random, one thing each time. Loading it must raise
StoreError, or give a model whose answers are finite or a proper error. Prints what it does before it does it, so that
the last line shows what crashed the process.
"""

import json
import sys
from pathlib import Path

import numpy as np

from purerec.errors import PurerecError, StoreError
from purerec.models.registry import restore_model
from purerec.storage import Stored, read_folder

WILD = {
    "f": [np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45, 0.0],
    "i": [10**12, -(10**12), -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 0, 1, 2],
    "u": [255, 128, 0],
}
ODD = [None, -1, 0, 10**30, 1e308, "", "x", [], {}, True, [[1]], {"a": {"b": 1}}, float("nan")]


def change_tensor(tensors, rng):
    name = str(rng.choice(sorted(tensors)))
    array = tensors[name].copy()
    way = rng.choice(
        ["value", "values", "shorter", "longer", "gone", "type", "shape", "order", "empty", "scalar", "more"]
    )
    if way in ("value", "values") and array.size:
        wild = [v for v in WILD[array.dtype.kind] if array.dtype.kind == "f" or fits(v, array.dtype)]
        where = slice(None) if way == "values" else rng.integers(array.size)
        array.reshape(-1)[where] = rng.choice(np.array(wild, dtype=array.dtype))
    elif way == "shorter":
        array = array[: max(0, len(array) - int(rng.integers(1, 4)))]
    elif way == "longer":
        array = np.concatenate([array, array[:1]])
    elif way == "type":
        array = array.astype(rng.choice(["f8", "i8", "i4", "u1", "f2"]))
    elif way == "shape":
        array = array.reshape(-1, 1) if array.ndim == 1 else array.reshape(-1)
    elif way == "order":
        array = array.T.copy() if array.ndim == 2 and rng.random() < 0.5 else array[::-1].copy()
    elif way == "empty":
        array = array[:0]
    elif way == "scalar":
        array = array.reshape(-1)[:1].sum()
    changed = {**tensors, name: np.asarray(array)}
    if way == "gone":
        del changed[name]
    elif way == "more":
        changed[f"model.{rng.integers(9)}"] = array
    return f"{name} {way}", changed


def fits(value, dtype):
    return np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def change_manifest(manifest, rng):
    changed = json.loads(json.dumps(manifest))
    places = [(changed, key) for key in changed]
    places += [(changed[part], key) for part in ("config", "fitted_on") for key in changed[part]]
    table, key = places[rng.integers(len(places))]
    table[key] = ODD[rng.integers(len(ODD))]
    if rng.random() < 0.2:
        del table[key]
    return f"{key} = {table.get(key, 'gone')!r}", changed


def answer(model):
    """Query a model in every way."""
    users, items = model.users.ids.to_list(), model.items.ids.to_list()
    found = [model.recommend(users, k=5)]
    for ask in (
        lambda: model.recommend_for(items[:3], k=5),
        lambda: model.similar_items(items[0], k=3),
        lambda: model.explain(users[0], items[-1]),
    ):
        try:
            found.append(ask())
        except PurerecError:
            continue
    for table in found[:2]:
        assert np.isfinite(table["score"].to_numpy()).all()


def main(place, seed, times):
    rng = np.random.default_rng(seed)
    np.seterr(all="ignore")
    loaded = refused = 0
    for folder in sorted(p for p in place.iterdir() if p.is_dir()):
        stored = read_folder(folder, kind="model")
        for _ in range(times):
            manifest, tensors = stored.manifest, stored.tensors
            if rng.random() < 0.8:
                what, tensors = change_tensor(tensors, rng)
            else:
                what, manifest = change_manifest(manifest, rng)
            print(folder.name, what, flush=True)
            try:
                model = restore_model(Stored(manifest, {n: a.copy() for n, a in tensors.items()}), "it")
            except StoreError:
                refused += 1
                continue
            loaded += 1
            try:
                answer(model)
            except PurerecError:
                continue
    print(loaded, "loaded,", refused, "refused")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
