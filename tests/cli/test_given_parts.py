"""--train, --test and --valid of evaluate, compare and tune."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Command, refused
from conftest import need


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    """Files with 60 people and 40 items, with two tastes; the test part has one more person."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, 60, 1500)
    pairs = sorted({(int(u), int(2 * i + u % 2)) for u, i in zip(user, rng.integers(0, 20, 1500), strict=True)})
    rng.shuffle(pairs)
    rows = [f"u{u},i{i}\n" for u, i in pairs]
    cuts = {"train": rows[100:-100], "valid": rows[-100:], "test": [*rows[:100], "u99,i1\n"]}
    for name, part in cuts.items():
        (tmp_path / f"{name}.csv").write_text("user,item\n" + "".join(part))
    return ["--train", "train.csv", "--test", "test.csv"]


def test_evaluate(command: Command, parts: list[str]) -> None:
    done = command("evaluate", *parts, "--valid", "valid.csv", "--model", "itempop", "--json", "found.json")
    found = json.loads(Path("found.json").read_text())
    assert (done.code, found["split"], found["data"]) == (0, "given", "train")
    assert "test 101 (1 of " in done.out
    assert "next: purerec fit train.csv --model itempop --out model" in done.err
    fewer = json.loads(command("evaluate", *parts, "--model", "itempop", "--json", "-").out)
    assert fewer["metrics"] != found["metrics"]  # the model is also fitted on the validation part


def test_warm(command: Command, parts: list[str]) -> None:
    everybody, warm = (
        json.loads(command("evaluate", *parts, *more, "--model", "itempop", "--json", "-").out)
        for more in ([], ["--warm"])
    )
    assert (everybody["users"] - warm["users"], warm["split"]) == (1, "given warm")
    compared = command("compare", *parts, "--warm", "--models", "itempop", "--seeds", "1", "--json", "-").out
    assert json.loads(compared)["models"]["itempop"][0]["metrics"] == warm["metrics"]


def test_compare(command: Command, parts: list[str]) -> None:
    done = command("compare", *parts, "--models", "itempop,itemknn", "--seeds", "1")
    assert done.code == 0
    assert "Use itemknn: it beats every other model" in done.out
    assert "users; with so few, only large differences" in done.err


def test_tune_and_use_what_it_found(command: Command, parts: list[str]) -> None:
    need("optuna")
    done = command("tune", *parts, "--model", "itemknn", "--trials", "2", "--folds", "1", "--fresh-folds", "1",
                   "--out", "s.toml")  # fmt: skip
    assert done.code == 0, done.err
    advice = done.err.split("next: purerec ")[1].split()
    assert advice == ["evaluate", *parts, "--model", "itemknn", "--settings", "s.toml"]
    again = command(*advice, "--quiet")
    assert (again.code, again.err) == (0, "")  # no warning that it was searched on other data


def test_a_fitted_model_among_people_and_things_that_are_new_to_it(command: Command, parts: list[str]) -> None:
    """As good as one that is fitted here: nobody has u99 or i99 in train."""
    with Path("test.csv").open("a") as file:
        file.write("u98,i99\n")
    assert command("fit", "train.csv", "--model", "itempop", "--out", "m").code == 0
    there, here = (
        command("evaluate", *parts, *model, "--metrics", "MRR,Recall@40,Coverage@10", "--json", "-")
        for model in (["--from", "m"], ["--model", "itempop"])
    )
    assert there.code == 0, there.err
    assert json.loads(there.out)["metrics"] == json.loads(here.out)["metrics"]
    assert json.loads(there.out)["users"] == json.loads(here.out)["users"]


def test_a_fitted_model_that_has_seen_the_test_file(command: Command, parts: list[str]) -> None:
    assert command("fit", "test.csv", "--model", "itempop", "--out", "m").code == 0
    refused(command("evaluate", *parts, "--from", "m"), "would be inflated; fit it on the file of --train alone")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--model", "itempop"], "give DATA (a name or a path), or its parts with --train FILE --test FILE"),
        (["--model", "itempop", "--test", "test.csv"], "give DATA"),
        (["x.csv", "--model", "itempop", "--test", "test.csv"], "--test takes a share such as 0.2, not 'test.csv'"),
        (["x.csv", "--model", "itempop", "--valid", "valid.csv"], "--valid goes with --train and --test"),
        (["--model", "itempop", "--train", "train.csv"], "--train needs --test FILE"),
        (["PARTS", "--model", "itempop", "x.csv", "--split", "ratio", "--n", "3"],
         "are a split already; leave out DATA and --split and --n"),
        (["PARTS", "--model", "itempop", "--split-seed", "3"], "leave out --split-seed"),
        (["PARTS", "--model", "itempop", "--json", "test.csv"], "is --test itself"),
        (["PARTS", "--model", "itempop", "--user", "who"], "train.csv: there is no column 'who' for the user"),
        (["--train", "train.csv", "--test", "no.csv", "--model", "itempop"], "no.csv: there is no such file"),
        (["--train", "train.csv", "--test", "train.csv", "--model", "itempop"], "are in the train part too"),
    ],
)  # fmt: skip
def test_wrong_use(command: Command, parts: list[str], args: list[str], message: str) -> None:
    words = [word for arg in args for word in (parts if arg == "PARTS" else [arg])]
    refused(command("evaluate", *words), message)
