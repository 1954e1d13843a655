"""evaluate --by, and what evaluate says after its table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import purerec as pr
from cli.conftest import Command, refused
from conftest import ROOT
from own_code import own_code

__all__ = ["own_code"]


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.csv"
    path.write_text("user_id,side\n" + "".join(f"u{n},{'left' if n % 3 else 'right'}\n" for n in range(50)))
    return path


def test_metrics_per_group(command: Command, clicks: Path, users: Path) -> None:
    options = ["--model", "itempop", "--metrics", "P@5,MRR", "--by", "side", "--users", users]
    done = command("evaluate", clicks, *options, "--json", "found.json")
    found = json.loads(Path("found.json").read_text())
    assert found["by"]["column"] == "side"
    assert {g["group"]: g["users"] for g in found["by"]["groups"]} == {"left": 33, "right": 17, "(none)": 10}
    assert [line.split()[0] for line in done.out.splitlines()[-4:]] == ["side", "left", "right", "(none)"]


def test_wrong_groups_are_refused_before_anything_is_fitted(command: Command, clicks: Path, users: Path) -> None:
    evaluate = ["evaluate", clicks, "--model", "itempop"]
    refused(command(*evaluate, "--by", "side"), "--by COLUMN goes with one table")
    refused(command(*evaluate, "--users", users), "--by COLUMN goes with one table")
    refused(command(*evaluate, "--by", "sid", "--users", users), "did you mean side?")
    refused(command(*evaluate, "--by", "side", "--items", users), "has no item of this data")
    refused(command(*evaluate, "--by", "side", "--users", users, "--json", users), "is --users itself")
    refused(command(*evaluate, "--by", "side", "--items", users, "--json", users), "is --items itself")


def test_warm_and_cold_users_are_shown_apart(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"u{u},i{(u + k) % 12},{10**9 + 1000 * (10 * u + k)}\n" for u in range(41) for k in range(10))
    (tmp_path / "log.csv").write_text("user,item,time\n" + rows)
    done = command(
        "evaluate", "log.csv", "--model", "itempop", "--split", "temporal", "--metrics", "P@5", "--user", "user"
    )
    assert "users with a train positive" in done.out
    assert "positives on known items" in done.out
    assert "based on only 9 users" in done.err


def test_the_next_command_has_the_options_that_matter(command: Command, tmp_path: Path) -> None:
    rows = "".join(f"{u},{(u * k) % 12},{1 + k % 5}\n" for u in range(30) for k in range(10))
    (tmp_path / "log.csv").write_text("visitor,page,stars\n" + rows)
    reading = ["--user", "visitor", "--item", "page", "--rating", "stars", "--min-rating", "3"]
    done = command("evaluate", "log.csv", "--model", "itemknn", "--set", "neighbors=5", *reading)
    following = done.err.splitlines()[-1].removeprefix("next: purerec ")
    assert following == (
        "fit log.csv --model itemknn --set neighbors=5 "
        "--user visitor --item page --rating stars --min-rating 3 --out model"
    )
    assert command(*following.split()).code == 0


def test_the_next_command_reads_with_the_same_reader(command: Command, tmp_path: Path, own_code: None) -> None:
    (tmp_path / "readers_here.py").write_text(
        "import polars, purerec as pr\n"
        "@pr.register_reader('.jsonl')\ndef lines(path): return polars.read_ndjson(path)\n"
    )
    rows = [{"user": u, "item": (u * k) % 12} for u in range(30) for k in range(10)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("evaluate", "log.jsonl", "--import", "readers_here", "--model", "itempop")
    following = done.err.splitlines()[-1].removeprefix("next: purerec ")
    assert following == "fit log.jsonl --model itempop --out model --import readers_here"
    fitted = command(*following.split())
    assert "next: purerec recommend model --user 0   or   purerec serve model" in fitted.err


def test_the_commands_of_the_page(command: Command, ml_100k: pr.Interactions, tmp_path: Path) -> None:
    lines = re.findall(
        r"^    purerec (evaluate .*--by .*)$", (ROOT / "docs" / "evaluation.md").read_text(), re.MULTILINE
    )
    assert len(lines) == 2
    (tmp_path / "users.csv").write_text("user,gender\n" + "".join(f"{u},{'fm'[u % 2]}\n" for u in range(1, 944)))
    (tmp_path / "items.csv").write_text("item,genre\n" + "".join(f"{i},{'ab'[i % 2]}|c\n" for i in range(1, 1683)))
    for line in lines:
        done = command(*line.split(), "--quiet")
        assert (done.code, done.err) == (0, "")
