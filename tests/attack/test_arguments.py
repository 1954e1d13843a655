"""Bad arguments at the command line: exit code 2, and one line that names the remedy as a command."""

import gzip
import io
import json
import os
import re
import shutil
import sys

import polars as pl
import pytest

import purerec as pr
from attack.inputs import GOOD, write
from purerec.errors import DataError
from purerec.models.registry import make_model

FIT = ("fit", "good.csv", "--model", "itempop", "--out", "m")


@pytest.mark.parametrize(
    ("args", "remedy"),
    [
        (("recommend", "m", "--user", "nobody"), "`purerec recommend DIR --history ITEM,ITEM`"),
        (("recommend", "nowhere", "--user", "u1"), "written by `purerec fit --out`"),
        (("evaluate", "nonsense", "--model", "itempop"), "give its path, such as ./file.csv"),
        (("data", "get", "world"), "such as `purerec fit world`"),
        (("data", "show", "latin.csv"), "give --encoding latin-1"),
        (("data", "show", "utf16.csv"), "give --encoding utf-16"),
        (("data", "show", "other.csv"), "say which with --user NAME"),
        (("evaluate", "bare.csv", "--model", "itempop", "--user", "x"), "give positions from 1: --user 1"),
        (("evaluate", "bare.csv", "--model", "itempop", "--min-rating", "4"), "leave --min-rating out"),
        (("evaluate", "bare.csv", "--model", "svd", "--set", "target=rating"), "use --set target=binary"),
        (("evaluate", "good.csv", "--model", "itempop", "--split", "leave_n_out"), "give it with --n"),
        (("evaluate", "good.csv", "--model", "bpr", "--set", "epochs=1", "--memory-mb", "nan"), "give --memory-mb"),
        (
            ("fit", "good.csv", "--model", "itempop", "--out", "n", "--titles", "other.csv"),
            "call them item and title",
        ),
    ],
)
def test_remedies_at_the_command_line_are_commands(command, tmp_path, args, remedy):
    write(tmp_path, "latin.csv", "user,item\nJosé,1\n".encode("latin-1"))
    write(tmp_path, "utf16.csv", "user,item\nJosé,1\n".encode("utf-16"))
    write(tmp_path, "other.csv", "who,what\n" + "u1,sku1\n" * 9)
    write(tmp_path, "bare.csv", "".join(f"{n % 5},{n % 3}\n" for n in range(40)))
    assert command(*FIT)[0] == 0
    code, said = command(*args)
    assert code == 2
    assert remedy in said
    *_notes, error = said.strip().splitlines()
    assert sum(line.startswith("error: ") for line in said.splitlines()) == 1
    advice = error.split(";", 1)[-1]
    assert not re.search(r"\w+\([^)]*\)(?! )|\b\w+='|\.save", advice), advice  # no Python


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("evaluate", "", "--model", "itempop"), "DATA"),
        (("evaluate", "--train", "good.csv", "--test", "", "--model", "itempop"), "--test"),
        (("evaluate", "--train", "", "--test", "good.csv", "--model", "itempop"), "--train"),
        (("evaluate", "good.csv", "--from", ""), "--from"),
        (("fit", "good.csv", "--model", "itempop", "--out", ""), "--out"),
        (("fit", "good.csv", "--model", "itempop", "--out="), "--out"),
        ((*FIT, "--log", ""), "--log"),
        ((*FIT, "--titles", ""), "--titles"),
        (("recommend", "", "--user", "u1"), "DIR"),
        (("recommend", "m", "--user", "u1", "--json", ""), "--json"),
        (("recommend", "m", "--users", ""), "--users"),
        (("compare", "good.csv", "--models", "itempop", "--against", ""), "''"),
        (("ingest", "", "--out", "d"), "FILES"),
        (("serve", "m", "--token-file", ""), "--token-file"),
    ],
)
def test_an_empty_word_is_no_path(command, tmp_path, args, what):
    """The empty word of an unset shell variable is not taken for the current folder."""
    code, said = command(*args)
    assert (code, said.count("error: ")) == (2, 1)
    assert f"error: {what} is " in said
    assert [p.name for p in tmp_path.iterdir()] == ["good.csv"]


@pytest.mark.parametrize("out", [".", "../here", "/"])
def test_the_current_folder_may_be_written_to_if_it_is_purerecs_own(command, tmp_path, monkeypatch, out):
    here = tmp_path / "here"
    here.mkdir()
    for _ in ("new", "replaced"):
        monkeypatch.chdir(here)
        for words in (("fit", "../good.csv", "--model", "itempop"), ("ingest", "../good.csv")):
            code, said = command(*words, "--out", out)
            if out == "/":
                assert (code, said.count("\n")) == (2, 1)
                continue
            assert code == 0, said
            assert (here / "manifest.json").exists()
            shutil.rmtree(here)
            here.mkdir()
            monkeypatch.chdir(here)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["good.csv", "here"]


def test_the_same_remedies_in_python_are_python():
    model = make_model("itempop").fit(pr.Interactions.from_columns([1, 2], [1, 2]))
    with pytest.raises(DataError, match=r"use recommend_for\(history=\.\.\.\)"):
        model.recommend(["nobody"])
    with pytest.raises(DataError, match=r"read\('path/to/file'\)"):
        pr.load("nonsense")


@pytest.mark.parametrize(
    "args",
    [
        ("evaluate", "good.csv", "--model", "itempop", "--split", "temporal", "--at", "1960-01-01"),
        ("evaluate", "good.csv", "--model", "itempop", "--split", "temporal", "--at", "2050-01-01"),
        ("evaluate", "good.csv", "--model", "itempop", "--user", "item", "--item", "item"),
        ("evaluate", "good.csv", "--model", "itempop", "--encoding", "zip"),
        ("evaluate", "good.csv", "--model", "bpr", "--settings", "deep.toml"),
        ("evaluate", "good.csv", "--model", "bpr", "--set", "dim=true"),
        ("evaluate", "bad.csv.gz", "--model", "itempop"),
        ("evaluate", "list.parquet", "--model", "itempop"),
        ("evaluate", "x" * 300, "--model", "itempop"),
        ("evaluate", "pipe", "--model", "itempop"),
        ("data", "show", os.fsdecode(b"\xff")),
        ("data", "show", "."),
    ],
)
def test_bad_input_ends_with_2_and_one_line(command, tmp_path, args):
    write(tmp_path, "deep.toml", "a = " + "[" * 100_000)
    write(tmp_path, "bad.csv.gz", gzip.compress(GOOD)[:-20])
    pl.DataFrame({"user": [[1], [2]], "item": [1, 2]}).write_parquet(tmp_path / "list.parquet")
    os.mkfifo(tmp_path / "pipe")
    code, said = command(*args)
    assert code == 2
    assert [line.startswith("error: ") for line in said.splitlines()].count(True) == 1
    assert said.splitlines()[-1].startswith("error: ")
    assert "internal error" not in said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_titles_on_a_screen_that_lacks_their_letters(command, tmp_path, monkeypatch, encoding):
    write(tmp_path, "t.csv", "item,title\n" + "".join(f"i{n},日本 é {n}\n" for n in range(13)))
    assert command(*FIT, "--titles", "t.csv")[0] == 0
    for more in ((), ("--json", "-")):
        screen = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            assert command("recommend", "m", "--user", "u1", "--include-seen", "-k", "2", *more)[0] == 0
        screen.flush()
        printed = screen.buffer.getvalue().decode(encoding)
        assert "u1" in printed
        if more:
            assert json.loads(printed)[0]["label"].startswith("日本 é")


def test_what_data_show_advises_it_takes(command, tmp_path):
    write(tmp_path, "latin.csv", "who,what\nJosé1,sku1\n".encode("latin-1") + b"u1,sku1\n" * 9)
    assert command("data", "show", "latin.csv", "--encoding", "latin-1", "--user", "who", "--item", "what")[0] == 0


def test_a_file_with_a_foreign_name_from_end_to_end(command, tmp_path):
    name = os.fsdecode(b"\xff\xfe.csv")
    write(tmp_path, name, GOOD)
    assert command("fit", name, "--model", "itempop", "--out", "m")[0] == 0
    assert command("recommend", "m", "--user", "u1")[0] == 0
