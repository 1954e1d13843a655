"""Helpers for tables: results files, Markdown, and the list of tables by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from purerec.experiments.provenance import in_words
from purerec.experiments.reproduce import panels_in

ROOT = Path(__file__).parents[1]
_USED: dict[str, Any] = {}
"""Provenance of the results files that the current table has read"""


def result(name: str) -> Any:
    """The content of a results file; for a benchmark, only the measurements."""
    found = json.loads((ROOT / "results" / f"{name}.json").read_text())
    _USED[name] = found.get("provenance") if isinstance(found, dict) else None
    return found["results"] if isinstance(found, dict) and found.keys() == {"provenance", "results"} else found


def panel(name: str, protocol: str) -> Any:
    """The panel of a table with this protocol; None if it has none."""
    for found in panels_in(result(name)):
        if next(iter(found["models"].values()))[0]["protocol"] == protocol:
            return found
    return None


def rendered(name: str) -> str:
    """A table with its commit and machine; the tutorial gives them at its end."""
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
    """Three significant digits, without an exponent: 0.0312, 4.56, 150, 12,300."""
    if not value:
        return "0"
    digits = max(0, 2 - _magnitude(value))
    rounded = round(value, 2 - _magnitude(value))
    return f"{rounded:,.{digits}f}"


def times(ratio: float) -> str:
    """A ratio as a factor: 1.5x, 24x, 150x."""
    return f"{ratio:,.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x" if ratio >= 0.95 else f"{ratio:.2f}x"


def megabytes(value: float) -> str:
    """Whole megabytes; 0 for a run that released memory."""
    return f"{max(0.0, value):,.0f}"


def _magnitude(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


TABLES: dict[str, Callable[[], str]] = {}


def table(function: Callable[[], str]) -> Callable[[], str]:
    TABLES[function.__name__] = function
    return function
