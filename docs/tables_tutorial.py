"""The commands of docs/tutorial.md with their output, from results/tutorial.json (see tutorial.py)."""

from __future__ import annotations

from functools import partial

from tables import TABLES, result
from tutorial import STEPS


def step(name: str) -> str:
    """One command as it looks in a terminal."""
    said = result("tutorial")[name]
    lines = sorted(said["said"].splitlines(), key=_is_last)
    return "\n".join(["```console", f"$ {said['command']}", *lines, "```"])


def _is_last(line: str) -> bool:
    """A terminal shows the next step after the answer; in a file, the other stream comes first."""
    return line.startswith("next: ")


def made() -> str:
    """When and where the tutorial was run."""
    waiting = result("tutorial")["waiting"]
    busy = f" Other work kept {waiting:.0f} processes waiting, so times are longer than on a machine of your own."
    return f"This is the output of one run of `docs/tutorial.py`.{busy if waiting >= 1 else ''}"


TABLES |= {f"tutorial_{name}": partial(step, name) for name in STEPS} | {"tutorial_made": made}
