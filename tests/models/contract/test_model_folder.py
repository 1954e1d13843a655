"""What a model's folder keeps."""

import numpy as np

from purerec.data.interactions import Interactions
from purerec.models.registry import load_model, make_model
from purerec.storage import read_manifest


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
