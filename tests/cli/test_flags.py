"""Flags in the help of every command."""

from __future__ import annotations

import pytest

from cli.conftest import Command

COMMANDS = ["", "models", "ingest", "fit", "update", "export", "evaluate", "recommend", "serve", "compare", "tune",
            "reproduce", "data", "data list", "data show", "data get"]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS)
def test_no_value_seems_to_follow_a_flag(command: Command, words: str) -> None:
    shown = command(*words.split(), "--help").out
    assert "--help" in shown
    assert "<bool>" not in shown
    assert ("--seed" in shown) <= ("<int>" in shown)  # flags that take a value show its type
