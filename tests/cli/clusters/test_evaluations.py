"""`purerec evaluate --on ray`: the same digits as one process, even if a worker dies."""

import json

import pytest

import purerec as pr
from cli.conftest import refused


def fitted(clicks, folder):
    """The arguments of the evaluation, and the metrics that one process finds."""
    split = pr.split(pr.read(clicks), "ratio")
    model = pr.make_model("pugmf", epochs=2, dim=4).fit(split.full_train, seed=0)
    words = ["evaluate", clicks, "--from", model.save(folder), "--split", "ratio"]
    return words, lambda **how: pr.evaluate(model, split, **how).metrics


@pytest.mark.slow
def test_the_same_digits(clicks, tmp_path, on_ray):
    words, alone = fitted(clicks, tmp_path / "m")
    on_ray.run(*words, "--json", tmp_path / "found.json")
    assert (on_ray.died / "ranking").exists()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["metrics"] == alone()
    assert (found["users"], found["users_without_positives"]) == (60, 0)


def test_what_is_of_all_users_at_once(command, clicks):
    asked = "evaluate", clicks, "--model", "itempop", "--metrics", "P@5,Coverage@10", "--on", "ray"
    refused(command(*asked), "Coverage@10 needs the lists of all users at once; leave it or --on out")
