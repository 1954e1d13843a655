"""`purerec evaluate --on ray`: the digits of one process, though a worker dies."""

import json

import pytest

import purerec as pr
from cli.conftest import refused
from conftest import purerec


@pytest.fixture
def fitted(clicks, tmp_path):
    """What is evaluated, as words of the command, and the result of one process."""
    split = pr.split(pr.read(clicks), "ratio")
    model = pr.make_model("pugmf", epochs=2, dim=4).fit(split.full_train, seed=0)
    words = ["evaluate", clicks, "--from", model.save(tmp_path / "m"), "--split", "ratio"]
    return words, lambda **how: pr.evaluate(model, split, **how).metrics


@pytest.mark.slow
def test_the_same_digits(fitted, tmp_path, on_ray):
    words, alone = fitted
    on_ray.run(*words, "--on", "ray", "--json", tmp_path / "found.json")
    assert (on_ray.died / "ranking").exists()
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["metrics"] == alone()
    assert (found["users"], found["users_without_positives"]) == (60, 0)


@pytest.mark.slow
def test_the_same_digits_on_a_cluster_that_runs(fitted, tmp_path, cluster):
    words, alone = fitted
    words += ["--protocol", "sampled", "--pool", 10, "--seed", 3, "--metrics", "NDCG@5,MRR"]
    (tmp_path / "items.csv").write_text("item,kind\n" + "".join(f"i{i},{'ab'[i % 2]}\n" for i in range(40)))
    words += ["--by", "kind", "--items", tmp_path / "items.csv", "--json", "-"]
    found = json.loads(purerec(*words, "--on", cluster, check=0).stdout)
    assert found["metrics"] == alone(protocol="sampled", pool=10, seed=3, metrics="NDCG@5,MRR")
    assert found["by"] == json.loads(purerec(*words, check=0).stdout)["by"]


def test_what_is_of_all_users_at_once(command, clicks):
    asked = "evaluate", clicks, "--model", "itempop", "--metrics", "P@5,Coverage@10", "--on", "ray"
    refused(command(*asked), "Coverage@10 is of the lists of all users at once; leave it out, or leave --on out")
