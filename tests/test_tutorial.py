"""docs/tutorial.md: its commands run, and the page has all of them."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import pytest

import purerec as pr
from conftest import ROOT, need

sys.path.insert(0, str(ROOT / "docs"))

from tutorial import PICTURE, SERVICE, STEPS, run


def test_the_page_has_every_step_in_its_order() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()  # test_docs checks that it is up to date
    assert re.findall(r"^\$ (.*)$", page, re.MULTILINE) == list(STEPS.values())


@pytest.mark.slow
def test_its_commands_run(ml_100k: pr.Interactions, tmp_path: Path) -> None:
    """On a small stand-in, as Gowalla takes minutes."""
    for extra in ("fastapi", "vl_convert"):
        need(extra)
    rows = zip(ml_100k.users.ids[ml_100k.user_idx], ml_100k.items.ids[ml_100k.item_idx], strict=True)
    few = [(user, item) for user, item in rows if int(user) < 200 and int(item) < 200]
    (tmp_path / "clicks.csv").write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in few))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = SERVICE.replace("8000", str(port))

    def small(command: str) -> str:
        told = command.replace("gowalla", "clicks.csv").replace(SERVICE, here)
        return f"{told} --port {port}" if " serve " in told else told

    said = run(tmp_path, small)
    assert "next: purerec fit" in said["compare"]
    assert (tmp_path / PICTURE).read_text().startswith("<svg")
    assert said["serve"] == f"serving {here}"
    assert all('"items"' in said[name] for name in ("curl_user", "curl_history", "curl_similar")), said
