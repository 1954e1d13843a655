"""Numbers that must not be trusted, and commands that must survive a single failure."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from conftest import PUREREC, need, purerec


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """60 people and 40 items, with two tastes; ratings from 1 to 5."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, 60, 1500)
    item = 2 * rng.integers(0, 20, 1500) + user % 2
    path = tmp_path_factory.mktemp("some data") / "clicks.csv"
    rows = zip(user, item, rng.integers(1, 6, 1500), strict=True)
    path.write_text("who,what,stars\n" + "".join(f"u{u},i{i},{r}\n" for u, i, r in rows))
    return path


READING = ["--user", "who", "--item", "what", "--rating", "stars", "--min-rating", "4"]


# ---------------------------------------------------------------------- compare


@pytest.mark.parametrize("metric", ["P@7", "Recall@20"])
def test_any_metric_of_ranks_will_do(clicks, metric):
    done = purerec(
        "compare",
        clicks,
        *READING,
        "--models",
        "itempop,ease",
        "--seeds",
        1,
        "--metric",
        metric,
        "--json",
        "-",
        check=0,
    )
    found = json.loads(done.stdout)
    assert found["metric"] == metric
    assert 0 < found["models"]["ease"][0]["metrics"][metric] <= 1
    assert {row["model"] for row in found["tests"]} == {"itempop", "ease"}


@pytest.mark.parametrize(("metric", "said"), [("foo", "choose from MAP, MRR"), ("Gini@5", "choose a rank metric")])
@pytest.mark.parametrize("command", ["compare", "tune"])
def test_an_unknown_metric_is_refused_before_anything_is_fitted(clicks, command, metric, said):
    done = purerec(command, clicks, *READING, "--models", "itempop,ease", "--metric", metric, check=2)
    assert said in done.stderr
    assert "seed 0" not in done.stderr
    assert done.stdout == ""


def test_an_unknown_metric_to_stop_by_is_refused_before_anything_is_fitted(clicks, tmp_path):
    out = tmp_path / "m"
    done = purerec("fit", clicks, "--model", "svd", "--set", "metric=foo", "--early-stopping", "--out", out, check=2)
    assert "svd: metric='foo' unknown metric 'foo'; choose from MAP, MRR, P@k" in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_fails_does_not_take_the_others_down(clicks, tmp_path):
    command = ["compare", clicks, *READING, "--seeds", 1, "--set", "memory_mb=0.0001"]
    done = purerec(*command, "--models", "ease,itempop,itemknn", "--json", tmp_path / "found.json", check=0)
    found = json.loads((tmp_path / "found.json").read_text())
    assert list(found["models"]) == ["itempop", "itemknn"]
    assert list(found["failed"]) == ["ease"]
    assert "memory_mb" in found["failed"]["ease"]
    assert "ease failed and is left out: ease needs" in " ".join(done.stderr.split())
    assert "Use itemknn: it beats every other model" in done.stdout
    alone = purerec(*command, "--models", "ease", check=2)
    assert "no model could be compared: ease: ease needs" in " ".join(alone.stderr.split())


# ---------------------------------------------------------------------- settings of another split


def test_settings_that_were_searched_on_test_rows_are_refused(clicks, tmp_path):
    need("optuna")
    out = tmp_path / "tuned.toml"
    done = purerec("tune", clicks, *READING, "--model", "itemknn", "--trials", 2, "--out", out, check=0)
    assert tomllib.loads(out.read_text())["searched"]["positive_rating"] == 4
    model = ["--model", "itemknn", "--settings", out]
    for command in (
        ["evaluate", clicks, *READING, *model],
        ["compare", clicks, *READING, "--models", "itemknn", "--settings", out, "--seeds", 1],
        ["fit", clicks, *READING, *model, "--split", "ratio", "--out", tmp_path / "m"],
        ["tune", clicks, *READING, *model, "--trials", 1],
    ):
        refused = purerec(*command, "--split-seed", 1, check=2)
        assert "so the score would be inflated" in " ".join(refused.stderr.split())
        assert not (tmp_path / "m").exists()
    fitted = purerec("fit", clicks, *READING, *model, "--out", tmp_path / "m", check=0)  # nothing is evaluated
    assert "inflated" not in fitted.stderr
    # The suggested next step evaluates the task that was searched: it is run as printed.
    (step,) = re.findall(r"^next: purerec (.*)$", done.stderr, flags=re.MULTILINE)
    assert "--min-rating 4 " in step
    scored = purerec(*shlex.split(step), "--json", "-", check=0)
    assert "warning" not in scored.stderr
    assert json.loads(scored.stdout)["users"] > 0


def test_the_next_step_after_a_fit_can_be_typed_as_it_stands(tmp_path):
    data = tmp_path / "clicks.csv"
    data.write_text("user,item\n" + "".join(f"ann; {u},i{u * i % 7}\n" for u in range(5) for i in range(1, 4)))
    done = purerec("fit", data, "--model", "itempop", "--out", tmp_path / "my model", check=0)
    (step,) = re.findall(r"^next: purerec (.*?)   or   ", done.stderr, flags=re.MULTILINE)
    assert "ann; 0" in purerec(*shlex.split(step), check=0).stdout


def test_tuned_settings_are_not_for_every_split(ml_100k):
    refused = purerec("compare", "ml-100k", "--split", "u2", "--tuned", "--models", "itempop", "--seeds", 1, check=2)
    assert "was tuned on 20,000 of the 20,000 rows of this test part" in " ".join(refused.stderr.split())
    done = purerec("compare", "ml-100k", "--split", "u1", "--tuned", "--models", "itempop", "--seeds", 1, check=0)
    assert "inflated" not in done.stderr


def test_what_cannot_be_written_is_said_before_the_search(clicks, tmp_path):
    need("optuna")
    foreign = tmp_path / "pyproject.toml"
    foreign.write_text("[project]\n")
    args = ["tune", clicks, *READING, "--model", "itemknn", "--trials", 1]
    for wrong, says in (
        (["--out", foreign], "is not a settings file and was not changed"),
        (["--out", tmp_path], "is a folder"),
        (["--json", foreign / "x.json"], "cannot write"),
    ):
        done = purerec(*args, *wrong, check=2)
        assert says in " ".join(done.stderr.split())
        assert "trial" not in done.stderr
    assert foreign.read_text() == "[project]\n"
    for _ in range(2):  # a settings file of ours is replaced
        purerec(*args, "--out", tmp_path / "new" / "tuned.toml", check=0)


# ---------------------------------------------------------------------- two at once


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_two_searches_on_the_same_data_both_end_well(clicks, tmp_path):
    need("optuna")
    both = [
        subprocess.Popen(
            [
                *PUREREC,
                "tune",
                str(clicks),
                *READING,
                "--models",
                models,
                "--trials",
                "12",
                "--json",
                str(tmp_path / out),
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PUREREC_CACHE": str(tmp_path / "cache")},
        )
        for models, out in (("itemknn,ease", "1.json"), ("ease,itemknn", "2.json"))
    ]
    try:
        for one in both:
            _, errors = one.communicate(timeout=300)
            assert one.returncode == 0, errors
    finally:
        for one in both:
            one.kill()
    first, second = (json.loads((tmp_path / f"{n}.json").read_text())["models"] for n in (1, 2))
    for name in ("itemknn", "ease"):
        assert first[name]["trials"] == second[name]["trials"] == 12
        assert first[name]["best_settings"] == second[name]["best_settings"]
