"""What tables are made with: results files, Markdown, and the list of tables by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from purerec.experiments.provenance import in_words
from purerec.experiments.reproduce import panels_in

ROOT = Path(__file__).parents[1]
_USED: dict[str, Any] = {}
"""Provenance of the results files that the table being made has looked at"""


def result(name: str) -> Any:
    """What is in a results file; of a benchmark, what was measured."""
    found = json.loads((ROOT / "results" / f"{name}.json").read_text())
    _USED[name] = found.get("provenance") if isinstance(found, dict) else None
    return found["results"] if isinstance(found, dict) and found.keys() == {"provenance", "results"} else found


def panel(name: str, protocol: str) -> Any:
    """The panel of a table that was evaluated in this way; None if it has none."""
    for found in panels_in(result(name)):
        if next(iter(found["models"].values()))[0]["protocol"] == protocol:
            return found
    return None


def rendered(name: str) -> str:
    """A table, and from which commit and machine it is; a step of the tutorial says so at its end."""
    _USED.clear()
    text = TABLES[name]()
    used = {} if text.startswith("```") else _USED
    said = dict.fromkeys(in_words(made) for made in used.values())
    return "\n\n".join([text, *(f"<sub>{sentence}</sub>" for sentence in said)])


def markdown(headings: list[str], rows: list[list[str]], *, words: int = 1) -> str:
    """A table; its first columns hold words, the others numbers."""
    lines = [headings, [*["---"] * words, *["---:"] * (len(headings) - words)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def number(value: float) -> str:
    """Three digits that count, without an exponent: 0.0312, 4.56, 150, 12,300."""
    if not value:
        return "0"
    digits = max(0, 2 - _magnitude(value))
    rounded = round(value, 2 - _magnitude(value))
    return f"{rounded:,.{digits}f}"


def times(ratio: float) -> str:
    """How many times as much: 1.5x, 24x, 150x."""
    return f"{ratio:,.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x" if ratio >= 0.95 else f"{ratio:.2f}x"


def megabytes(value: float) -> str:
    """Whole megabytes; a run that gave memory back has added none."""
    return f"{max(0.0, value):,.0f}"


def _magnitude(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


TABLES: dict[str, Callable[[], str]] = {}


def table(function: Callable[[], str]) -> Callable[[], str]:
    TABLES[function.__name__] = function
    return function
