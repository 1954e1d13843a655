"""What `make demo` runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import purerec as pr
from conftest import ROOT, need


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


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # a kernel's warnings are not ours
def test_the_notebook_runs_and_shows_tables_and_progress(ml_100k: pr.Interactions, tmp_path: Path) -> None:
    need("nbclient")
    need("ipykernel")
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", 4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not [out for out in shown if out.output_type == "stream"]
    pages = [out["data"]["text/html"] for out in shown if "text/html" in out["data"]]
    progress = [page for page in pages if page.startswith("<progress")]
    assert len(progress) == 1
    assert progress[0].startswith("<progress value='20' max='20'></progress> 20/20 the game loss")
    assert sum("<table" in page for page in pages) >= 6
