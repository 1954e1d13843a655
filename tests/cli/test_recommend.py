"""`purerec recommend`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli.conftest import Command, refused
from models.contract.small import N_USERS, small_log
from purerec.models.registry import load_model, make_model

READ = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = make_model("bpr", epochs=5).fit(small_log(), seed=0)
    return model.save(tmp_path_factory.mktemp("models") / "bpr")


@pytest.mark.parametrize("suffix", READ)
def test_everybody_into_a_file(command: Command, folder: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"recs{suffix}"
    target.write_text("an earlier file")
    done = command("recommend", folder, "--all", "-k", "4", "--out", target)
    assert done.code == 0, done.err
    assert f"{4 * N_USERS} recommendations for {N_USERS} people" in done.out
    found, expected = READ[suffix](target), load_model(folder).recommend(k=4)
    assert found.drop("score").cast(pl.String).equals(expected.drop("score").cast(pl.String))
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-6)
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


def test_some_into_a_file(command: Command, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("u3\n\nu1\n")
    options = ["--users", "users.txt", "--only", "i01,i02,i03,i04,i05,i06", "--exclude", "i02"]
    done = command("recommend", folder, *options, "--include-seen", "--out", "recs.jsonl")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (tmp_path / "recs.jsonl").read_text().splitlines()]
    assert {row["user"] for row in rows} == {"u1", "u3"}
    assert {row["item"] for row in rows} == {"i01", "i03", "i04", "i05", "i06"}


def test_a_user_who_is_named_twice_has_one_list(command: Command, folder: Path, tmp_path: Path) -> None:
    done = command("recommend", folder, "--user", "u3", "--user", "u1", "--user", "u3", "-k", "2", "--json", "-")
    assert [row["user"] for row in json.loads(done.out)] == ["u3", "u3", "u1", "u1"]
    (tmp_path / "users.txt").write_text("u3\nu3\n")
    done = command("recommend", folder, "--users", "users.txt", "-k", "2", "--out", "recs.jsonl")
    assert "2 recommendations for 1 person" in done.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--all", "--out", "recs.xlsx"], ".parquet, .csv, .jsonl"),
        (["--all", "--out", "no/such/place/recs.csv"], "cannot write"),
        (["--all"], "--out"),
        (["--all", "--user", "u1"], "give one of"),
        ([], "give one of"),
        (["--users", "nothing.txt"], "nothing.txt cannot be read"),
        (["--user", "u1", "--items", "i77"], "'i77'"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(
    command: Command, folder: Path, tmp_path: Path, args: list[str], message: str
) -> None:
    refused(command("recommend", folder, *args), message)
    assert not list(tmp_path.iterdir())


def test_an_item_without_a_score_says_why_it_is_there(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"u{u},i{(u + k) % 12}\n" for u in range(30) for k in range(4))
    (tmp_path / "log.csv").write_text("user,item\n" + rows)
    kinds = "".join(f"i{i},{'ab'[i % 2]}\n" for i in range(12))
    (tmp_path / "items.csv").write_text(f"item,kind\n{kinds}fresh,a\n")
    assert command("fit", "log.csv", "--model", "itempop", "--items", "items.csv", "--out", "m").code == 0
    *_, usual, cold = command("recommend", "m", "--user", "u1", "-k", "3", "--cold-items", "1").out.splitlines()
    assert cold.split(maxsplit=3) == ["u1", "3", "fresh", "new, similar to your likes"]
    assert "liked" not in usual
    empty = command("recommend", "m", "--user", "u1", "--only", "i1", "--where", "kind=b")
    assert "nothing is left to recommend to 'u1'; loosen --where; --include-seen also lists" in empty.err
    assert "reason" not in command("recommend", "m", "--user", "u1", "-k", "3").out


def test_ids_with_commas_and_lists_without_items(command: Command, tmp_path: Path) -> None:
    rows = [("ann", "x,y"), ("ann", "milk"), ("bob", "milk"), ("bob", "tea"), ("cid", "x,y"), ("cid", "tea")]
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(f'{user},"{item}"\n' for user, item in rows))
    assert command("fit", "log.csv", "--model", "itemknn", "--out", "m").code == 0
    known = command("recommend", "m", "--history", '"x,y", milk')
    assert ("warning" in known.err, known.out.split()[-2]) == (False, "tea")
    for asked in (["--user", "ann", "--only", "milk"], ["--history", '"x,y",milk,tea']):
        done = command("recommend", "m", *asked)
        to = " to 'ann'" if "ann" in asked else ""
        assert f"nothing is left to recommend{to}; --include-seen also lists what they have already" in done.err
    assert "nothing is left" not in command("recommend", "m", "--user", "ann", "--only", "milk", "--include-seen").err
    one_of_two = command("recommend", "m", "--user", "ann", "--user", "bob", "--only", "tea")
    assert "nothing is left to recommend to 'bob';" in one_of_two.err
    refused(command("recommend", "m", "--history", "x" * 200_000), "cannot parse these ids")
