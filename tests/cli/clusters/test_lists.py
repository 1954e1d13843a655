"""`purerec recommend --all --on ray`: everybody once, even if a worker dies, and finished files are not redone."""

import numpy as np
import polars as pl
import pytest

import purerec as pr
from purerec.output.partitions import partitions

pytestmark = pytest.mark.slow


def saved_model(folder):
    rng = np.random.default_rng(0)
    log = pr.Interactions.from_columns(rng.integers(0, 700, 8000), (90 * rng.random(8000) ** 2).astype(np.int64))
    model = pr.make_model("ials", epochs=2).fit(log, seed=0)
    model.save(folder)
    return model


def test_everybody_once(tmp_path, on_ray):
    model, lists = saved_model(tmp_path / "model"), tmp_path / "lists"
    asked = "recommend", tmp_path / "model", "--all", "-k", 4, "--out", lists
    n = len(model.users)
    files = [part.file for part in partitions(n)]
    assert len(files) == 3
    assert f"{4 * n:,} recommendations in 3 files" in on_ray.run(*asked).out
    assert (on_ray.died / "writing").exists()
    assert sorted(path.name for path in lists.iterdir()) == ["lists.json", *files]
    found = pl.read_parquet(lists / "*.parquet")
    expected = model.recommend(k=4)
    assert found.select("user", "item", "rank").equals(expected.select("user", "item", "rank"))
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-5)

    before = (lists / files[0]).stat().st_mtime_ns
    (lists / files[1]).unlink()
    assert "recommendations in 1 file:" in on_ray.run(*asked).out
    assert (lists / files[0]).stat().st_mtime_ns == before
    assert pl.read_parquet(lists / "*.parquet").equals(found)
