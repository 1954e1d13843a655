"""The package as a whole: what importing costs, what it exports, and which way imports run."""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import purerec
from conftest import ROOT

SOURCE = ROOT / "src" / "purerec"
HEAVY = ("numba", "torch", "pandas", "matplotlib", "fastapi", "polars", "scipy")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)


def test_import_is_light():
    loaded = run("import purerec, sys; print(*sys.modules)").stdout.split()
    assert not set(HEAVY) & set(loaded)


def test_import_is_quick():
    bare = min(_seconds("pass") for _ in range(3))
    with_purerec = min(_seconds("import purerec") for _ in range(3))
    # Relative to the start of the interpreter, so that a slow machine does not fail it.
    assert with_purerec < 4 * bare + 0.5


def _seconds(code):
    start = time.perf_counter()
    run(code)
    return time.perf_counter() - start


def test_public_names():
    assert purerec.__all__[:2] == ["PurerecError", "__version__"]
    assert len(purerec.__all__) <= 26
    for name in purerec.__all__:
        assert getattr(purerec, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = purerec.nothing


LAYERS = [
    {"errors", "randomness", "memory", "streams"},
    {"vocabulary", "interactions", "indices", "contents", "sniffing", "compiled"},
    {
        "delimited",
        "checking",
        "reading",
        "writing",
        "splitting",
        "storage",
        "world",
        "world_kernels",
        "drawing",
        "sampling",
        "risks",
    },
    {"metrics", "scoring", "ranking", "engines", "leakage"},
    {"entries", "downloading", "fetching", "catalog", "theory", "validating", "evaluating"},
    {"comparing", "telling", "training", "reporting", "results"},
    {"explaining", "models"},
    {"exporting", "update_quality"},
    {"experiments", "folding_quality", "reproducing", "judging", "studies", "tuned", "tuning", "serving", "console"},
    {"cli"},
]


def test_imports_run_one_way():
    level = {name: n for n, layer in enumerate(LAYERS) for name in layer}
    for path in SOURCE.rglob("*.py"):
        if path == SOURCE / "__init__.py":
            continue  # the public surface imports everything, on demand
        here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        assert here in level, f"{here} has no place in LAYERS"
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("purerec"):
                rest = node.module.split(".")[1:]
                names = [rest[0]] if rest else [alias.name for alias in node.names]
            for name in names:
                if name in level:
                    assert level[name] <= level[here], f"{path.name} imports {name}, which is above it"


def test_committed_files_name_no_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    places = [str(place).encode() for place in (ROOT, Path.home()) if len(place.parts) > 1]
    for name in listed.split():
        path = Path(ROOT, name)
        if path.is_file():
            text = path.read_bytes()
            for place in places:
                assert place not in text, f"{name} names {place!r}"
