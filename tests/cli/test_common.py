"""What every command has: --quiet, --verbose, --import; and completion in the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Command, refused
from conftest import need, purerec
from own_code import own_code

__all__ = ["own_code"]

MINE = """
import purerec as pr

@pr.register
class Same:
    def fit(self, train):
        self.shape_ = train.shape

    def score(self, user_idx):
        import numpy
        return numpy.zeros((len(user_idx), self.shape_[1]))

class Fails(Same):
    def fit(self, train):
        raise KeyError("this")
"""


def test_quiet_leaves_only_the_answer(command: Command, clicks: Path) -> None:
    usual = command("fit", clicks, "--model", "itempop", "--out", "m")
    assert "next: purerec recommend m" in usual.err
    quiet = command("fit", clicks, "--model", "itempop", "--out", "m", "--quiet")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out.startswith("itempop fitted on")
    refused(command("fit", clicks, "--model", "itempop", "--out", "m", "-q", "-v"), "--quiet or --verbose, not both")


def test_verbose_says_what_was_read_the_settings_and_each_epoch(command: Command, clicks: Path) -> None:
    done = command("fit", clicks, "--model", "bpr", "--set", "epochs=2", "--out", "m", "--verbose")
    lines = done.err.splitlines()
    assert lines[0].startswith(f"read {clicks}: Interactions('clicks'")
    assert lines[1] == f"{clicks}: 'user' is the user, 'item' is the item"
    assert lines[2].startswith("epoch 0 (triples): loss ")
    assert "bpr: epochs 2, " in done.err
    assert "dim 5 (by default)" in done.err


def test_columns_that_go_by_position_are_told(command: Command, tmp_path: Path) -> None:
    people = "anna,tea\nanna,milk\nbob,tea\nbob,cake\ncarl,milk\n"
    Path("log.csv").write_text("who,what\n" + people)
    told = "log.csv: no header, so columns go by position: user, item\n"
    assert told in command("fit", "log.csv", "--model", "itempop", "--out", "m").err
    assert told not in command("fit", "log.csv", "--model", "itempop", "--out", "m", "--quiet").err
    named = command("fit", "log.csv", "--model", "itempop", "--user", "who", "--item", "what", "--out", "m")
    assert told not in named.err
    assert "5 positives of 3 users" in named.out
    Path("test.csv").write_text("anna,cake\n")
    parts = command("evaluate", "--train", "log.csv", "--test", "test.csv", "--model", "itempop")
    assert told in parts.err
    assert "test.csv: no header" in parts.err


def test_a_fit_that_its_limit_cut_short_says_so(command: Command, clicks: Path) -> None:
    fit = ["fit", clicks, "--model", "bpr", "--out", "m"]
    cut = command(*fit, "--set", "epochs=100000", "--limit", "0.001s")
    assert "stopped by the time limit of 0.001 s, after " in cut.err
    assert "stopped" not in command(*fit, "--set", "epochs=2", "--limit", "10m").err


def test_a_model_that_has_seen_the_test_part_and_how_to_fit_it(command: Command, clicks: Path) -> None:
    command("fit", clicks, "--model", "itempop", "--out", "m")
    refused(
        command("evaluate", clicks, "--from", "m", "--split-seed", "3"),
        "; fit it with --split ratio --test 0.2 --split-seed 3\n",
    )
    command(
        "fit", clicks, "--model", "itempop", "--split", "ratio", "--test", "0.2", "--split-seed", "3", "--out", "m"
    )
    assert command("evaluate", clicks, "--from", "m", "--split-seed", "3").code == 0


def test_fit_tells_a_program_what_it_did(command: Command, clicks: Path) -> None:
    done = command("fit", clicks, "--model", "itemknn", "--split", "ratio", "--out", "m", "--json", "-", "-q")
    found = json.loads(done.out)
    assert (found["model"], found["folder"], found["split"]) == ("itemknn", "m", "ratio test=0.2 seed=0")
    assert found["fitted_on"]["users"] == 60
    assert found["fitted_on"]["resolved"].keys() <= found["settings"].keys()
    assert next(iter(found["metrics"])) == "P@3"
    assert command("fit", clicks, "--model", "itemknn", "--out", "m", "--json", "fit.json").code == 0
    assert "metrics" not in json.loads(Path("fit.json").read_text())
    refused(command("fit", clicks, "--model", "itemknn", "--out", "m", "--json", clicks), "is DATA itself")


def test_a_module_is_imported_first_if_it_is_named(own_code: Path, command: Command, clicks: Path) -> None:
    (own_code / "mine.py").write_text(MINE)
    done = command("fit", clicks, "--model", "mine:Same", "--out", "m")
    assert "purerec recommend m --user u" in done.err
    assert done.err.count("--import mine:Same") == 2
    assert command("recommend", "m", "--user", "u1", "--import", "mine").code == 0
    assert "same" in command("models", "--import", "mine").out
    refused(command("models", "--import", "mine.py"), "there is no module 'mine.py'")
    refused(command("models", "--import", "mine/"), "'mine/' is not a module")
    for nothing in ("", " ", "mine,"):
        refused(command("models", "--import", nothing), f"the name of a module, such as my_model, not {nothing!r}")
    failed = command("fit", clicks, "--model", "mine:Fails", "--out", "n")
    assert failed.code == 1
    assert "error: fails failed in fit: KeyError: 'this'" in failed.err


def test_a_folder_of_an_unknown_model_says_what_to_add(own_code: Path, clicks: Path) -> None:
    (own_code / "mine.py").write_text(MINE)
    purerec(
        "fit", clicks, "--model", "mine:Same", "--out", own_code / "m", env={"PYTHONPATH": str(own_code)}, check=0
    )
    done = purerec("recommend", own_code / "m", "--user", "u1", check=2)
    assert "'same', which is not part of purerec" in done.stderr
    assert "if you trust it, add --import mine:Same" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("purerec fit x --model it", ["itempop", "itemknn"]),
        ("purerec fit x --model bpr --set le", ["learning_rate="]),
        ("purerec compare x --models pure,ea", ["pure,ease"]),
        ("purerec compare x --models pure,ease --set neighb", ["neighbors="]),
        ("purerec models gm", ["gmf"]),
        ("purerec fit x --model nothing --set d", []),
    ],
)
def test_the_shell_completes_models_and_settings(
    typed: str,
    offered: list[str],
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_PUREREC_COMPLETE": "complete_bash"}
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        command()
    assert capsys.readouterr().out.split() == offered


def test_names_of_0_1_are_still_understood(command: Command, clicks: Path, model: Path, tmp_path: Path) -> None:
    """One spelling for one thing; the different spellings of the first release still work, but are not shown."""
    need("optuna")
    (tmp_path / "ids.txt").write_text("u1\nu2\n")
    for old, new in (
        (["--users-file", tmp_path / "ids.txt"], ["--users", tmp_path / "ids.txt"]),
        (["--user", "u1", "--items", "i1,i3"], ["--user", "u1", "--only", "i1,i3"]),
    ):
        assert command("recommend", model, *old).out == command("recommend", model, *new).out != ""
    fit = ["fit", clicks, "--model", "gmf", "--set", "epochs=1", "--out", tmp_path / "m"]
    for limit in (["--time-limit", "60"], ["--limit", "1m"]):
        assert command(*fit, *limit).code == 0
    wrong = command(*fit, "--limit", "soon")
    assert (wrong.code, "90s, 5m or 1h, not as 'soon'" in wrong.err) == (2, True)
    tune = ["tune", clicks, "--model", "itemknn", "--trials", "1", "--folds", "1", "--json", "-"]
    for told in (["--minutes", "2", "--fresh", "1"], ["--limit", "2m", "--fresh-folds", "1"]):
        found = json.loads(command(*tune, *told).out)
        assert (found["minutes_each"], found["fresh_folds"]) == (2, 1)
    assert command(*tune, "--limit", "2m", "--minutes", "2").code == 2
    for name, gone in {"fit": "--time-limit", "recommend": "--users-file", "tune": "--minutes"}.items():
        assert gone not in command(name, "--help").out
