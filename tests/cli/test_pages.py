"""The commands of README and docs, on small files with the names they use."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from glob import glob
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Command
from conftest import ROOT, lacking, need, purerec
from serving.conftest import Served

ITEMS = [50, 181, 1, 2, 3, 172, *range(300, 334)]
QUICKER = {
    "--model pure --out tuned.toml": "--model pure --trials 2 --folds 1 --fresh-folds 1 --out tuned.toml",
    "--trials 40": "--trials 2 --folds 1 --fresh-folds 1",
    "--models all --limit 2m": "--models itempop,ease --trials 1 --folds 1 --fresh-folds 1",
}
"""Options that would take minutes, and what is run instead"""
NOT_RUN = {
    "pip install": "tests/test_packaging.py installs the wheel",
    "kill -HUP $(pidof": "would reach services that are not this test's; tests/serving/process sends the signal",
    "docker ": "tests/test_packaging.py follows the Dockerfile, with or without a container tool",
    "torchrun --nnodes 4": "needs four machines; tests/cli/test_two_hosts.py has two",
    "--on ray": "each starts a cluster, for many seconds; tests/cli/clusters do that",
}
"""Commands of the pages on serving and scaling that are not run here, and why"""


@pytest.fixture
def files(command: Command, tmp_path: Path) -> None:
    """Sixty people and forty items, with two tastes, as a log and in parts; an item table, and a model."""
    rng = np.random.default_rng(0)
    pairs = sorted({(180 + int(u), ITEMS[int(2 * i + u % 2)]) for u, i in rng.integers(0, (60, 20), (700, 2))})
    pairs = [(22 if user == 239 else user, item) for user, item in pairs]
    rng.shuffle(pairs)
    rows = [f"{user},{item}\n" for user, item in pairs]
    parts = {"clicks": rows, "a": rows[80:], "b": rows[:80], "today": ["196,50\n", "999,181\n", "999,1000\n"]}
    parts |= {"train": rows[160:], "valid": rows[80:160], "test": rows[:80]}
    for name, part in parts.items():
        (tmp_path / f"{name}.csv").write_text("user,item\n" + "".join(part))
    table = "".join(f"{item},{('Comedy', 'Drama')[n % 3 > 1]},{1980 + n}\n" for n, item in enumerate([*ITEMS, 2000]))
    (tmp_path / "items.csv").write_text("item,genre,year\n" + table)
    (tmp_path / "users.txt").write_text("196\n200\n")
    assert command("fit", "train.csv", "--model", "ease", "--out", "model").code == 0


@pytest.mark.parametrize(
    ("page", "begins", "number"),
    [
        ("README.md", "## Your own data", 11),
        ("docs/guide.md", "", 3),
        ("docs/recommending.md", "", 7),
        ("docs/tuning.md", "", 5),
    ],
)
@pytest.mark.usefixtures("files")
def test_commands_run_as_written(command: Command, page: str, begins: str, number: int) -> None:
    for extra in ("optuna", "usearch"):
        need(extra)
    text = (ROOT / page).read_text()
    lines = re.findall(r"^(?:\$|   ) purerec (.*)$", text[text.index(begins) :], re.MULTILINE)
    assert len(lines) == number
    for line in lines:
        for slow, quick in QUICKER.items():
            line = line.replace(slow, quick)
        done = command(*shlex.split(line, comments=True))
        assert done.code == 0, f"purerec {line}\n{done.err}"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.mark.usefixtures("files")
def test_the_page_on_serving(stack: ExitStack) -> None:
    for extra in ("fastapi", "uvicorn"):
        need(extra)
    if shutil.which("curl") is None:
        lacking("curl is not installed")
    with_rules = {"--model pure --out model": "--model ease --items items.csv --out model"}
    service, answered = None, 0
    for line in _commands("docs/serving.md", r"^```(?:sh|console)\n([\s\S]*?)^```$"):
        if line.startswith("purerec serve"):
            if service is not None:
                service.close()
            folder, *options = shlex.split(line, comments=True)[2:]
            service = stack.enter_context(closing(Served(Path(folder), *options)))
        elif line.startswith("purerec"):
            _run(line, with_rules)
        elif line.startswith("curl"):
            assert service is not None
            answer = _shell(
                line.replace("localhost:8000", service.url).replace("curl", "curl -sS --fail-with-body", 1)
            )
            assert json.loads(answer)
            answered += 1
        else:
            _shell(line)
    assert answered == 15


@pytest.mark.usefixtures("files")
def test_the_page_on_large_data(tmp_path: Path) -> None:
    need("torch")
    rows = (tmp_path / "clicks.csv").read_text().splitlines(keepends=True)
    for number, part in enumerate((rows[1:300], rows[300:])):
        (tmp_path / f"clicks-{number}.csv.gz").write_bytes(gzip.compress("".join([rows[0], *part]).encode()))
    lines = _commands("docs/scaling.md", r"^    ((?:purerec|torchrun) .*)$")
    assert len(lines) == 3
    for line in lines:
        _run(line, {"--model pure": "--model gmf --set epochs=2", "--workers 4": "--workers 2"})


def _commands(page: str, blocks: str) -> list[str]:
    """The lines of a page's blocks, except comments and what is not run."""
    found = re.findall(blocks, (ROOT / page).read_text(), re.MULTILINE)
    lines = [line.removeprefix("$ ") for text in found for line in text.splitlines()]
    return [line for line in lines if line[0] != "#" and not any(part in line for part in NOT_RUN)]


def _run(line: str, instead: dict[str, str]) -> None:
    """In a separate process: `--workers` changes what a process does with signals and logs."""
    for slow, quick in instead.items():
        line = line.replace(slow, quick)
    words = shlex.split(line, comments=True)[1:]
    purerec(*(name for word in words for name in (sorted(glob(word)) or [word])), check=0)


def _shell(line: str) -> str:
    there = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # as in an active environment
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60, env=there)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout
