"""What `make demo` runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import purerec as pr
from conftest import ROOT


def test_the_demo_runs_and_leaves_a_model_with_a_report(ml_100k: pr.Interactions, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "paper, d = 5" in done.stdout
    assert "purerec, d = 16" in done.stdout
    assert (tmp_path / "demo-model" / "report.html").exists()
    assert pr.load_model(tmp_path / "demo-model").name == "pure"
