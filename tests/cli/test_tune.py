"""`purerec tune`."""

import json
import signal
import subprocess
import sys
import time
import tomllib

import pytest

from conftest import PUREREC, need, purerec
from purerec.errors import DataError
from purerec.tuning import search
from tuning.tastes import columns, settings_tried

need("optuna")


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in zip(*columns(), strict=True)))
    return path


def test_from_a_file_to_settings_that_other_commands_take(clicks, tmp_path):
    out, study = tmp_path / "tuned.toml", tmp_path / "study"
    command = ["tune", clicks, "--models", "itempop,itemknn,svd", "--trials", 4, "--set", "dim=3", "--study", study]
    done = purerec(*command, "--out", out, "--json", tmp_path / "found.json", check=0)
    assert "mattered" not in done.stdout  # too few trials to say
    assert "fresh" in done.stdout
    content = tomllib.loads(out.read_text())
    assert list(content["models"]) == ["itempop", "svd", "itemknn"]
    assert content["models"]["svd"]["settings"]["dim"] == 3
    assert "dim" not in content["models"]["itemknn"]["settings"]
    assert content["trials_each"] == 4
    assert str(tmp_path) not in content["command"].replace(str(clicks), "")
    assert f"next: purerec compare {clicks} --settings {out}\n" in done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert {name: one["trials"] for name, one in found["models"].items()} == {"itempop": 1, "itemknn": 4, "svd": 4}
    # The study file is not overwritten by accident; with --resume the answer is immediate.
    again = purerec(*command, check=2)
    assert again.stderr.count("\n") == 1
    assert "--resume" in again.stderr
    same = purerec(*command, "--resume", "--json", "-", check=0)
    assert json.loads(same.stdout)["models"] == found["models"]
    scored = purerec("evaluate", clicks, "--model", "svd", "--settings", out, "--json", "-", check=0)
    assert json.loads(scored.stdout)["settings"]["dim"] == 3
    over = purerec("evaluate", clicks, "--model", "svd", "--settings", out, "--set", "dim=2", "--json", "-", check=0)
    assert json.loads(over.stdout)["settings"]["dim"] == 2
    purerec("fit", clicks, "--model", "svd", "--settings", out, "--out", tmp_path / "m", check=0)
    both = purerec(
        "compare", clicks, "--models", "svd,itempop", "--seeds", 1, "--settings", out, "--json", "-", check=0
    )
    assert json.loads(both.stdout)["models"]["svd"][0]["settings"]["dim"] == 3


def test_the_test_part_is_never_looked_at(clicks, monkeypatch, tmp_path):
    """The command runs with a split whose test part cannot be accessed, and finds the same."""
    from purerec.cli.commands import app
    from purerec.cli.groups import HoldingOut

    class Poisoned:
        def __init__(self, parts):
            self.full_train, self.made, self.label = parts.full_train, parts.made, parts.label

        def __getattr__(self, name):
            raise AssertionError(f"the search looked at .{name}")

    real = HoldingOut.split
    arguments = ["tune", str(clicks), "--model", "itemknn", "--trials", "4"]
    outcomes = []
    for poison in (lambda parts: parts, Poisoned):
        monkeypatch.setattr(HoldingOut, "split", lambda *a, poison=poison: poison(real(*a)))
        out = tmp_path / f"{len(outcomes)}.json"
        study = str(tmp_path / f"{len(outcomes)}.study")
        app([*arguments, "--study", study, "--json", str(out)], standalone_mode=False)
        outcomes.append(json.loads(out.read_text())["models"]["itemknn"])
    for one in outcomes:
        del one["seconds"]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nothing"], "unknown model 'nothing'"),
        (["--model", ","], "at least one model"),
        (["--model", "ease", "--metric", "P"], "unknown metric"),
        (["--model", "ease", "--trials", "0"], "--trials"),
        (["--model", "ease", "--limit", "-1"], "90s, 5m or 1h"),
        (["--model", "ease", "--set", "dim=3"], "no setting 'dim'"),
        (["--models", "ease,itempop", "--set", "dim=3"], "none of ease, itempop has a setting 'dim'"),
        (["--model", "svd", "--set", "dim=0"], "dim"),
        (["--model", "ease", "--settings", "nothing.toml"], "cannot read"),
        (["--model", "ease", "--protocol", "half"], "no protocol"),
        (["--model", "ease", "--protocol", "as_published"], "defective"),
    ],
)
def test_wrong_use_is_told_in_one_line(clicks, arguments, said, monkeypatch, capsys):
    from purerec.cli import commands

    monkeypatch.setattr(sys, "argv", ["purerec", "tune", str(clicks), *arguments])
    assert commands.run() == 2
    done = capsys.readouterr()
    assert said in done.err
    assert done.err.strip().count("\n") == 0
    assert done.out == ""


def test_a_search_of_which_nothing_came_is_not_a_success(clicks, tmp_path, monkeypatch, capsys):
    from purerec.cli import commands

    def broken(*_, **__):
        raise DataError("too few rows")

    monkeypatch.setattr(search, "tune", broken)
    arguments = ["tune", str(clicks), "--models", "ease,itemknn", "--study", str(tmp_path / "s"), "--json", "-"]
    monkeypatch.setattr(sys, "argv", ["purerec", *arguments])
    assert commands.run() == 2
    done = capsys.readouterr()
    assert "ease is left out: too few rows" in done.err
    assert "none of the models could be searched" in done.err
    assert done.out == ""


def tuned(clicks, *arguments, check=0):
    return purerec("tune", clicks, "--folds", 1, "--fresh-folds", 1, *arguments, check=check)


def test_a_search_leaves_the_trials_and_settings_of_other_models_alone(clicks, tmp_path, monkeypatch):
    monkeypatch.setenv("PUREREC_CACHE", str(tmp_path / "cache"))
    out = tmp_path / "tuned.toml"
    tuned(clicks, "--model", "ease", "--trials", 2, "--out", out)
    tuned(clicks, "--model", "itemknn", "--trials", 1, "--out", out)
    assert tomllib.loads(out.read_text())["models"].keys() == {"ease", "itemknn"}
    resumed = tuned(clicks, "--model", "ease", "--trials", 2, "--resume", "--json", "-")
    assert "trial 0" not in resumed.stderr  # none was run again
    before = out.read_bytes()
    refused = tuned(clicks, "--model", "itemknn", "--trials", 1, "--metric", "MRR", "--out", out, check=2)
    assert "has settings of ease from another search (metric was" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert out.read_bytes() == before


def test_the_usual_number_of_candidates_is_told(clicks, tmp_path):
    out = tmp_path / "tuned.toml"
    how = ("--model", "itempop", "--protocol", "sampled", "--study", tmp_path / "s", "--out", out)
    done = tuned(clicks, *how)
    assert tomllib.loads(out.read_text())["protocol"] == "sampled, 500 candidates"
    assert "--protocol sampled --pool 500" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_keeps_the_trials_and_says_how_to_go_on(clicks, tmp_path):
    study = tmp_path / "study"
    command = [*PUREREC, "tune", str(clicks), "--model", "svd", "--study", str(study), "--trials"]
    running = subprocess.Popen([*command, "100000"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        # The seconds of a trial are written before it ends: once those of the fourth are there, the third has ended.
        while not study.exists() or study.read_text().count('"seconds"') < 4:
            assert running.poll() is None, running.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "Traceback" not in errors
    assert f"{study}; run the same command with --resume to continue" in " ".join(errors.split())
    before = len(settings_tried(study, "svd"))
    assert before >= 3
    done = subprocess.run([*command, str(before + 1), "--resume", "--json", "-"], capture_output=True, text=True)
    assert json.loads(done.stdout)["models"]["svd"]["trials"] == before + 1
