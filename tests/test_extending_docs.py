"""docs/extending.md: its commands are run, and its code is that of the example."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import purerec as pr
from cli.conftest import Command, command
from conftest import ROOT
from own_code import own_code

__all__ = ["command", "own_code"]

PAGE = (ROOT / "docs" / "extending.md").read_text()


def test_the_example_is_the_one_on_the_page() -> None:
    source = (ROOT / "examples" / "my_model.py").read_text()
    assert "class TogetherLiked" + source.partition("class TogetherLiked")[2].rstrip() in PAGE


def test_its_commands_run(own_code: Path, command: Command, ml_100k: pr.Interactions) -> None:
    shutil.copy(ROOT / "examples" / "my_model.py", own_code)
    blocks = dict(enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)))
    (own_code / "my_metrics.py").write_text(next(block for block in blocks.values() if "def first_place" in block))
    reader = next(block for block in blocks.values() if "register_reader" in block)
    (own_code / "my_readers.py").write_text(f"import polars\nimport purerec as pr\n{reader}")
    rows = "".join(f'{{"user": {u}, "item": {i}}}\n' for u in range(9) for i in range(6))
    (own_code / "clicks.jsonl").write_text(rows)
    lines = re.findall(r"^(?:\$ |    )purerec (.*)$", PAGE, re.MULTILINE)
    assert len(lines) == 9
    for line in lines:
        if not line.startswith("serve"):
            done = command(*line.split(), "--quiet")
            assert (done.code, done.err) == (0, ""), done.err
