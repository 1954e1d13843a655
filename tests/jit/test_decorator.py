"""Kernels are compiled with or without a usable disk cache, and never loaded from a stale one."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import purerec
from purerec.jit import decorator

SOURCES = sorted(Path(purerec.__file__).parent.rglob("*.py"))

TOY = {
    "__init__": "",
    "constants": "SHIFT = 1\nUNUSED = 0\n",
    "lowest": """
        from llvmlite import ir
        from numba import types
        from purerec.jit.decorator import intrinsic, kernel
        @intrinsic
        def add(typingctx, a, b):
            def codegen(context, builder, signature, args):
                return builder.add(*args)
            return types.int64(types.int64, types.int64), codegen
        """,
    "helper": """
        from purerec.jit.decorator import kernel
        from toy.constants import SHIFT
        from toy import lowest
        add = lowest.add
        @kernel(inner=True)
        def double(x):
            return add(x, x) + SHIFT
        """,
    "caller": """
        from purerec.jit.decorator import kernel
        from toy.helper import double
        @kernel()
        def twice(x):
            return double(x)
        """,
    "stranger": "",
}
"""caller -> helper -> an intrinsic and a constant; nobody imports the stranger."""
CALL = "from toy.caller import twice; print(twice(3), sum(twice.stats.cache_hits.values()))"


def write(folder: Path, module: str, source: str) -> None:
    lines = source.removeprefix("\n").splitlines(keepends=True)
    (folder / "toy").mkdir(exist_ok=True)
    (folder / "toy" / f"{module}.py").write_text("".join(line.removeprefix(" " * 8) for line in lines))


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    for module, source in TOY.items():
        write(tmp_path, module, source)
    return tmp_path


def run(folder: Path, program: str = CALL, cache: Path | None = None) -> list[str]:
    """The output of a new process: the result of the kernel, and how often its code came from the cache."""
    # Python's own cache identifies a source by size and mtime in seconds: two versions in one second look the same.
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), str(Path(purerec.__file__).parents[1])]),
        "NUMBA_CACHE_DIR": str(cache or folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "old", "new", "result"),
    [
        ("helper", "+ SHIFT", "- SHIFT", "5"),
        ("constants", "SHIFT = 1", "SHIFT = 4", "10"),
        ("lowest", "builder.add", "builder.mul", "10"),
    ],
    ids=["a helper", "a constant two modules away", "an intrinsic two modules away"],
)
def test_the_cache_is_used_until_what_a_kernel_is_made_of_changes(
    toy: Path, module: str, old: str, new: str, result: str
) -> None:
    assert run(toy) == ["7", "0"]
    write(toy, "stranger", "# has changed\n")
    assert run(toy) == ["7", "1"]
    write(toy, module, TOY[module].replace(old, new))
    assert run(toy) == [result, "0"]
    assert run(toy) == [result, "1"]
    write(toy, module, TOY[module])  # as on another branch
    assert run(toy) == ["7", "1"]


@pytest.mark.slow
def test_another_installation_finds_what_is_compiled(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy / "toy", tmp_path / "other" / "toy")
    assert run(toy) == ["7", "0"]
    assert run(tmp_path / "other", cache=toy / "cache") == ["7", "1"]


def imports_by_syntax(file: Path) -> set[Path]:
    """The modules of purerec that a file imports, from its syntax tree."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import, which `compiled` does not see"
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = {SOURCES[0].parents[1].joinpath(*name.split(".")) for name in names if name.split(".")[0] == "purerec"}
    return {path for place in found for path in (place.with_suffix(".py"), place / "__init__.py") if path in SOURCES}


def test_no_import_is_missed() -> None:
    assert {file: missed for file in SOURCES if (missed := imports_by_syntax(file) - decorator.imported(file))} == {}


def test_what_a_discriminator_kernel_is_made_of_is_found() -> None:
    """The two that handwritten lists had missed: prefetching in `draws`, and the lanes of a vector."""
    root = Path(purerec.__file__).parent
    cpu = root / "engines" / "pure" / "cpu"
    assert root / "sampling" / "draws.py" in decorator.imported(cpu / "rows.py")
    assert root / "jit" / "simd.py" in decorator.imported(cpu / "kernels.py")


@pytest.mark.slow
@pytest.mark.parametrize("rubbish", [b"", b"rubbish"])
def test_a_damaged_cache_does_no_harm(toy: Path, rubbish: bytes) -> None:
    run(toy)
    files = [path for pattern in ("*.nbi", "*.nbc") for path in (toy / "cache").rglob(pattern)]
    assert files
    for path in files:
        path.write_bytes(rubbish)
    assert run(toy)[0] == "7"


def test_the_cache_is_the_users_or_else_beside_the_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def folder() -> Path:
        place = decorator.KernelFolder.from_function(run, __file__)
        assert place is not None
        return Path(place.get_cache_path())

    monkeypatch.setattr(decorator._config, "CACHE_DIR", "")
    monkeypatch.setattr(decorator.platformdirs, "user_cache_dir", lambda name, appauthor: str(tmp_path / name))
    assert folder().parent == tmp_path / "purerec" / "kernels" / __name__
    monkeypatch.setattr(decorator.platformdirs, "user_cache_dir", lambda name, appauthor: __file__)  # not a folder
    assert folder().parent == Path(__file__).parent / "__pycache__" / __name__
    monkeypatch.setattr(decorator._config, "CACHE_DIR", str(tmp_path / "own"))
    assert folder().parent == tmp_path / "own" / __name__


def test_old_versions_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(decorator._config, "CACHE_DIR", str(tmp_path))
    for n in range(20):
        (tmp_path / __name__ / str(n)).mkdir(parents=True)
        os.utime(tmp_path / __name__ / str(n), (n, n))
    place = decorator.KernelFolder.from_function(run, __file__)
    assert place is not None
    kept = {path.name for path in (tmp_path / __name__).iterdir()}
    assert kept == {*map(str, range(5, 20)), Path(place.get_cache_path()).name}


def test_without_a_folder_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_folder(function: object) -> object:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(decorator, "FunctionCache", no_folder)

    @decorator.kernel()
    def add_one(x: int) -> int:
        return x + 1

    assert add_one(2) == 3
    assert add_one.stats.cache_path is None  # type: ignore[attr-defined]
    add_one.recompile()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_second_start_loads_code_without_what_compiling_needs(toy: Path) -> None:
    """Numba's implementations of Python and numpy take 0.2 s to load; a start from the cache does not need them."""
    program = CALL + "; import sys; print(int('numba.np.linalg' in sys.modules))"
    assert run(toy, program) == ["7", "0", "1"]
    assert run(toy, program) == ["7", "1", "0"]
