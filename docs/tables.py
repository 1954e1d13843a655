"""What tables are made with: results files, Markdown, and the list of tables by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def result(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def markdown(headings: list[str], rows: list[list[str]], *, words: int = 1) -> str:
    """A table; its first columns hold words, the others numbers."""
    lines = [headings, [*["---"] * words, *["---:"] * (len(headings) - words)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


TABLES: dict[str, Callable[[], str]] = {}


def table(function: Callable[[], str]) -> Callable[[], str]:
    TABLES[function.__name__] = function
    return function
