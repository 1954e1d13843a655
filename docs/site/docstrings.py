"""Docstrings as Markdown: in the source, what is listed is aligned for people who read it there.

models     names, or 'all'
seeds      how many;
           by default 5
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_LISTED = re.compile(r"([`\w*.=][\w`*, ./()=@|-]*?)\s{2,}(\S.*)")


class AlignedLists(griffe.Extension):
    """Turns aligned lists of docstrings into lists."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Lines `name   meaning`, at least two below each other, as a list; all others as they are."""
    out: list[str] = []
    block: list[tuple[str, str]] = []
    lines = [*text.splitlines(), ""]
    for line in lines:
        found = None if line.startswith(" ") else _LISTED.fullmatch(line)
        if found:
            block.append((found[1], found[2]))
        elif block and line.startswith("      ") and line.strip():
            block[-1] = block[-1][0], f"{block[-1][1]} {line.strip()}"
        else:
            out += _as_list(block)
            block = []
            out.append(line)
    return "\n".join(out).rstrip()


def _as_list(block: list[tuple[str, str]]) -> list[str]:
    if len(block) < 2:
        return [f"{name}  {meaning}" for name, meaning in block]
    return ["", *(f"- `{name.replace('`', '')}`: {meaning}" for name, meaning in block), ""]
