"""The commands of README and docs, on small files of the names they use."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Command
from conftest import ROOT, need

ITEMS = [50, 181, *range(300, 338)]
QUICKER = {
    "--model pure --out tuned.toml": "--model pure --trials 2 --folds 1 --fresh-folds 1 --out tuned.toml",
    "--trials 40": "--trials 2 --folds 1 --fresh-folds 1",
    "--models all --limit 2m": "--models itempop,ease --trials 1 --folds 1 --fresh-folds 1",
}
"""What would take minutes, and what is run instead"""


@pytest.fixture
def files(command: Command, tmp_path: Path) -> None:
    """Sixty people and forty things, in two tastes, as a log and in parts; a table of the things, and a model."""
    rng = np.random.default_rng(0)
    pairs = sorted({(180 + int(u), ITEMS[int(2 * i + u % 2)]) for u, i in rng.integers(0, (60, 20), (700, 2))})
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
