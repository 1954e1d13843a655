"""Kernels are compiled whether or not the disk cache is of use, and never from a stale one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from purerec import compiled

MODULE = "from purerec.compiled import kernel\n"
HELPER = MODULE + "@kernel(inner=True)\ndef double(x):\n    return {factor} * x\n"
CALLER = (
    MODULE
    + "from helper_module import double\n"
    + "@kernel(depends_on=('helper_module',))\ndef twice(x):\n    return double(x) + 1\n"
    + "print(twice(3), sum(twice.stats.cache_hits.values()))\n"
)


def run(folder: Path, factor: int) -> list[str]:
    """The result of the kernel in a fresh process, and how often its code came from the cache."""
    (folder / "helper_module.py").write_text(HELPER.format(factor=factor))
    if not (folder / "caller_module.py").exists():
        (folder / "caller_module.py").write_text(CALLER)
    # Python's own cache knows a source by its size and the second of its change: two runs in a second are one to it.
    env = os.environ | {
        "PYTHONPATH": str(folder),
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", "import caller_module"], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.slow
def test_the_cache_is_used_but_not_when_a_helper_has_changed(tmp_path: Path) -> None:
    assert run(tmp_path, 2) == ["7", "0"]
    assert run(tmp_path, 2) == ["7", "1"]
    assert run(tmp_path, 5) == ["16", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("rubbish", [b"", b"rubbish"])
def test_a_damaged_cache_does_no_harm(tmp_path: Path, rubbish: bytes) -> None:
    run(tmp_path, 2)
    files = [path for pattern in ("*.nbi", "*.nbc") for path in (tmp_path / "cache").rglob(pattern)]
    assert files
    for path in files:
        path.write_bytes(rubbish)
    assert run(tmp_path, 2)[0] == "7"


def test_without_a_folder_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_folder(function: object) -> object:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiled, "FunctionCache", no_folder)

    @compiled.kernel()
    def add_one(x: int) -> int:
        return x + 1

    assert add_one(2) == 3
    assert add_one.stats.cache_path is None  # type: ignore[attr-defined]
    add_one.recompile()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_second_start_loads_code_without_what_compiling_needs(tmp_path: Path) -> None:
    """Numba's implementations of Python and numpy take 0.2 s to load, which a start from the cache does without."""
    caller = CALLER + "import sys\nprint(int('numba.np.linalg' in sys.modules))\n"
    (tmp_path / "caller_module.py").write_text(caller)
    assert run(tmp_path, 2) == ["7", "0", "1"]
    assert run(tmp_path, 2) == ["7", "1", "0"]
