"""What a model's folder keeps."""

import json

import numpy as np
import pytest

from purerec.data.interactions import Interactions
from purerec.errors import StoreError
from purerec.models.registry import load_model, make_model
from purerec.storage import read_manifest
from purerec.storage.manifests import manifest_digest


def test_a_model_that_is_loaded_and_saved_keeps_its_curve_until_it_is_fitted_again(tmp_path):
    rng = np.random.default_rng(0)
    log = Interactions.from_columns(rng.integers(0, 20, 200), rng.integers(0, 15, 200))
    make_model("gmf", epochs=3, dim=2).fit(log).save(tmp_path / "a")
    model = load_model(tmp_path / "a")
    model.save(tmp_path / "b")
    first, second = (read_manifest(tmp_path / name, kind="model") for name in "ab")
    assert len(first["history"]) == 3
    assert second["history"] == first["history"]
    model.fit(log, seed=1).save(tmp_path / "c")
    assert read_manifest(tmp_path / "c", kind="model")["history"] != first["history"]


@pytest.mark.parametrize("history", [3, [1], [{"epoch": 0, "loss": "low"}], {"epoch": 0}])
def test_a_history_that_is_none_is_refused(history, tmp_path):
    log = Interactions.from_columns(np.arange(40) % 8, np.arange(40) % 11)
    folder = make_model("gmf", epochs=2, dim=2).fit(log).save(tmp_path / "m")
    manifest = json.loads((folder / "manifest.json").read_text()) | {"history": history}
    del manifest["manifest_sha256"]
    (folder / "manifest.json").write_text(json.dumps({**manifest, "manifest_sha256": manifest_digest(manifest)}))
    with pytest.raises(StoreError, match=r"does not fit this version of gmf \(history: .*should be a valid") as told:
        load_model(folder)
    assert "\n" not in str(told.value)
