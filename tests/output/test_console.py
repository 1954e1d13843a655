"""Printed text is shown, and does nothing else."""

from __future__ import annotations

import json

import pytest

from conftest import purerec
from purerec.output import console

CLEAR = "\x1b[2Jboom\x07\x9b"


@pytest.mark.parametrize("tell", [console.note, console.warn, console.fail, console.say])
def test_ids_cannot_steer_the_terminal(tell, capsys) -> None:
    tell(f"next: {CLEAR}")
    told = "".join(capsys.readouterr())
    assert "\\x1b[2Jboom\\x07\\x9b" in told
    assert not set(told) & {"\x1b", "\x07", "\x9b"}


def test_a_cell_is_one_line(capsys) -> None:
    console.table(["item", "score"], [[f"a\nb\tc{CLEAR}", 1.0]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("a\\nb\\tc\\x1b[2Jboom")


def test_json_has_ids_as_they_are(tmp_path) -> None:
    log = tmp_path / "log.csv"
    log.write_text('user,item\na,x\na,"\x7fy\x1b[31m"\nb,x\nb,z\n')
    purerec("fit", log, "--model", "itempop", "--out", tmp_path / "m", check=0)
    said = purerec("recommend", tmp_path / "m", "--user", "b", "--json", "-", check=0).stdout
    assert json.loads(said)[0]["item"] == "\x7fy\x1b[31m"
    assert "\x1b" not in purerec("recommend", tmp_path / "m", "--user", "b", check=0).stdout
