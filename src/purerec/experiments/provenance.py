"""Where a result comes from: date, commit, versions and machine. Every results file and benchmark includes it."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from purerec import __version__, storage
from purerec.evaluation.code_files import library_versions

_LIBRARIES = ("numpy", "numba", "scipy", "torch")
_ROOT = Path(__file__).parents[3]
_MEASURED = ("src", "experiments", "benchmarks", "pyproject.toml", "constraints.txt")
"""What a result depends on in a clone. Results and docs are excluded: the run itself changes them."""


def provenance() -> dict[str, Any]:
    """Date, commit and whether the tree was clean, versions, BLAS, cores and CPU.

    Commit and tree are None if purerec does not run from a clone.
    """
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), **_commit(), **_machine()}


def in_words(found: Mapping[str, Any] | None) -> str:
    """One sentence for people; older results, without provenance, say so."""
    if not found:
        return "Measured before the commit and the machine were recorded."
    commit = "an installed package" if found["commit"] is None else f"commit {found['commit'][:10]}"
    changed = ", with changes that are not committed" if found["clean"] is False else ""
    libraries = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    cores = f"{found['cores']} core{'s' * (found['cores'] != 1)}"
    return (
        f"{found['date'][:10]}, {commit}{changed}, purerec {found['purerec']}, Python {found['python']}, "
        f"{libraries}, {found['blas']}; {cores} of {found['cpu']}."
    )


def write_results(path: str | os.PathLike[str], results: Any) -> None:
    """Write measurements to a JSON file, with their provenance."""
    text = json.dumps({"provenance": provenance(), "results": results}, indent=1)
    storage.write_file(path, text + "\n")


def read_results(path: str | os.PathLike[str]) -> Any:
    """The measurements in a file written by `write_results`, or in an older one without provenance."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    return found["results"] if isinstance(found, dict) and found.keys() == {"provenance", "results"} else found


@cache  # the imported code runs, whatever is committed in the meantime
def _commit() -> dict[str, Any]:
    top = _git("rev-parse", "--show-toplevel")
    if top is None or Path(top) != _ROOT:  # an installed package may be inside another project's clone
        return {"commit": None, "clean": None}
    changed = _git("status", "--porcelain", "--", *(name for name in _MEASURED if (_ROOT / name).exists()))
    return {"commit": _git("rev-parse", "HEAD"), "clean": None if changed is None else changed == ""}


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):  # no git, or no clone
        return None
    return done.stdout.strip()


@cache
def _machine() -> dict[str, Any]:
    return {
        "purerec": __version__,
        "python": platform.python_version(),
        "versions": library_versions(_LIBRARIES),
        "blas": _blas(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _blas() -> str:
    """The linear algebra library that numpy was built with."""
    import numpy as np

    try:
        built: Any = np.show_config(mode="dicts")
        blas = built["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return "unknown BLAS"


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
    return " ".join((named[1] if named else platform.processor() or platform.machine() or "unknown CPU").split())
