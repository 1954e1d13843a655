"""Output of the command line: rich tables on a terminal, plain text in a pipe, JSON on request."""

from __future__ import annotations

import codecs
import json
import math
import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

err = Console(stderr=True, highlight=False, soft_wrap=True)
"""Progress, notes and errors: never on standard output."""


class Interrupted(Exception):
    """Ctrl-C with a message; typer drops the message of a KeyboardInterrupt."""


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
Verbosity = Literal["quiet", "normal", "verbose"]
_level: Verbosity = "normal"


@contextmanager
def speaking(level: Verbosity) -> Iterator[None]:
    """Set how much is printed besides the answer, for the duration of a command."""
    global _level
    before, _level = _level, level
    try:
        yield
    finally:
        _level = before


def progress() -> bool:
    """Return whether to show progress bars: on a terminal, unless --quiet or --verbose is given."""
    return err.is_terminal and _level == "normal"


def note(text: str) -> None:
    if _level != "quiet":
        err.print(Text(visible(text), style="dim"))


def detail(text: str) -> None:
    """Print only with --verbose."""
    if _level == "verbose":
        note(text)


def warn(text: str) -> None:
    err.print(Text(f"warning: {visible(text)}", style="yellow"))


def fail(text: str) -> None:
    err.print(Text.assemble(("error: ", "bold red"), " ".join(visible(text).split())))


def say(text: str = "") -> None:
    """Print a line of the answer on standard output, without markup: titles and ids are data."""
    sys.stdout.write(visible(text, sys.stdout.encoding) + "\n")


def visible(text: str, encoding: str | None = None) -> str:
    """Text without control characters: an id may contain codes that would clear a terminal, or colour it."""
    return printable(text.translate(_CONTROLS), encoding)


def printable(text: str, encoding: str | None = None) -> str:
    """Text with escapes for characters that the output cannot encode, or undecodable bytes in file names."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def table(headings: Sequence[str], rows: Sequence[Sequence[Any]], *, bold: Container[tuple[int, int]] = ()) -> None:
    """Print a table; columns of numbers are aligned to the right, and the cells (row, column) in `bold` are bold."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(isinstance(row[n], int | float | None) for row in rows) for n in range(len(headings))]
    if not sys.stdout.isatty():
        widths = [max(len(h), *(len(row[n]) for row in cells), 0) for n, h in enumerate(headings)]
        for line in [list(headings), *cells]:
            padded = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(line, widths, numeric, strict=True)]
            say("  ".join(padded).rstrip())
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading, right in zip(headings, numeric, strict=True):
        shown.add_column(Text(heading), justify="right" if right else "left", overflow="fold")
    for n, row in enumerate(cells):
        shown.add_row(*(Text(cell, style="bold" if (n, at) in bold else "") for at, cell in enumerate(row)))
    Console(highlight=False).print(shown)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def write_json(value: Any, target: str) -> None:
    """Write JSON to a file (completely or not at all), or to standard output for '-'."""
    plain = target == "-" and codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
    # The escape of a lone surrogate, as in a file name, is also valid JSON.
    text = printable(json.dumps(_finite(value), indent=2, ensure_ascii=plain, allow_nan=False) + "\n")
    if target == "-":
        sys.stdout.write(text)
    else:
        from purerec.storage import write_file  # imports numpy and polars, which --help does not need

        write_file(target, text)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, with null."""
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
