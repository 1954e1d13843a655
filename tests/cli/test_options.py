"""What the commands share besides their options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import purerec as pr
from cli.conftest import Command
from purerec.jit.compiling import COMPILING


@pytest.mark.parametrize(("seconds", "told"), [(7.2, True), (0.5, False)])
def test_long_compiling_is_mentioned_beside_the_time_that_leaves_it_out(
    command: Command, clicks: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, told: bool
) -> None:
    real = pr.ItemPop._fit

    def compiles(self: pr.ItemPop, *args: Any) -> Any:
        monkeypatch.setattr(COMPILING, "seconds", COMPILING.seconds + seconds)
        return real(self, *args)

    monkeypatch.setattr(pr.ItemPop, "_fit", compiles)
    Path("more.csv").write_text("user,item\nnew,i1\n")
    for args in (["fit", clicks, "--model", "itempop", "--out", "m"], ["update", "m", "more.csv", "--out", "m"]):
        done = command(*args)
        assert " in 0.00 s, saved in m" in done.out
        note = "compiling took 7 s more; later runs on this machine skip it"
        assert (note in done.err) == told
