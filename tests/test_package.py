"""The package as a whole: what importing costs, what it exports, and the direction of imports."""

import ast
import os
import re
import subprocess
import sys
import time
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import purerec
from conftest import ROOT
from purerec.models.registry import REGISTRY

SOURCE = ROOT / "src" / "purerec"
HEAVY = ("numba", "torch", "pandas", "matplotlib", "fastapi", "polars", "scipy")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)


def test_import_is_light():
    loaded = run("import purerec, sys; print(*sys.modules)").stdout.split()
    assert not set(HEAVY) & set(loaded)


def test_help_is_light():
    code = "import sys; sys.argv = ['purerec', 'fit', '--help']; from purerec.cli import commands; commands.run(); "
    loaded = run(code + "print(*sys.modules, file=sys.stderr)").stderr.split()
    assert not {*HEAVY, "numpy"} & set(loaded)


def test_import_is_quick():
    bare = min(_seconds("pass") for _ in range(3))
    with_purerec = min(_seconds("import purerec") for _ in range(3))
    # Relative to the start of the interpreter, so that a slow machine does not fail it.
    assert with_purerec < 4 * bare + 0.5


def _seconds(code):
    start = time.perf_counter()
    run(code)
    return time.perf_counter() - start


PUBLIC = """
BPR CFGAN CoClustering EASE GMF GraphGAN IALS IRGAN ItemKNN ItemPop LambdaFM MultVAE NMF PMF PUGMF PURE SVD SlopeOne
Comparison Evaluation Interactions PurerecError Recommender Run Split Tuned __version__ compare estimate_prior
evaluate evaluate_by given_split ingest load load_model load_split make_model make_world metrics read read_items
read_labels register register_metric register_reader save_split split tune
"""


def test_public_names():
    assert sorted(purerec.__all__) == sorted(PUBLIC.split())
    for name in purerec.__all__:
        assert getattr(purerec, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = purerec.nothing


ROOMS = [
    "errors",
    "rng",
    "types",
    "jit",
    "data",
    "sampling",
    "storage",
    "paper",
    "ranking",
    "evaluation",
    "training",
    "engines",
    "models",
    "tuning",
    "output",
    "experiments",
    "serving",
    "spark",
    "cli",
]
"""From the bottom up: a room may import those before it, and nothing else."""


def test_every_package_lists_its_modules():
    """All of them, and none that does not exist; a room also says what it may import."""
    for init in SOURCE.rglob("__init__.py"):
        package, said = init.parent, ast.get_docstring(ast.parse(init.read_text()), clean=False)
        if package == SOURCE:
            continue
        here = {p.name for p in package.iterdir() if p.is_dir() and any(p.glob("*"))} - {"__pycache__"}
        here |= {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
        lines = re.findall(r"^ {0,4}([a-z_][a-z_,/ ]*?)  ", said, re.MULTILINE)
        listed = {name.strip().removesuffix("/") for line in lines for name in line.split(",")}
        where = package.relative_to(SOURCE)
        if where.as_posix() == "models":  # the eighteen methods, and where they are listed
            listed |= {module.rpartition(".")[2] for module, _ in REGISTRY.values()} | {"registry"}
        assert listed == here, f"{where}: {sorted(listed ^ here)}"
        if len(where.parts) == 1:
            before = ROOMS[ROOMS.index(where.name) - 1]
            assert f"May import errors to {before}, in the order of CONTRIBUTING.md." in said, where


def test_contributing_has_the_rooms_in_their_order():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = [
        name for cell in re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE) for name in re.findall(r"\w+", cell)
    ]
    assert [name for name in found if name in ROOMS] == ROOMS


def imported_rooms(path):
    """The rooms that a file imports from, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == "purerec" and rest.split(".")[0] not in ("", "__version__"):
                yield rest.split(".")[0]


def test_imports_run_one_way():
    for path in SOURCE.rglob("*.py"):
        here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if here in ("__init__", "__main__"):
            continue  # the public surface and the entry point import what they need
        assert here in ROOMS, f"{here} has no place in ROOMS"
        for room in imported_rooms(path):
            allowed = ROOMS[: ROOMS.index(here) + (SOURCE / here).is_dir()]
            assert room in allowed, f"{path.relative_to(SOURCE)} imports {room}, which comes after {here}"


def test_modules_import_each_other_one_way():
    """No cycles between single modules either, not even through imports inside functions."""
    modules = {path: _imported_files(path) for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"}
    left = dict(modules)
    while left:
        free = [path for path, needs in left.items() if not needs & left.keys()]
        assert free, f"cycle among {sorted(str(path.relative_to(SOURCE)) for path in left)}"
        for path in free:
            del left[path]


def test_a_type_name_has_one_meaning():
    """No two modules define a class, or a name for a type, of the same name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            name = node.name if isinstance(node, ast.ClassDef) else ""
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
            if name[:1].isupper() and not name.isupper():
                found.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert not {name: files for name, files in found.items() if len(files) > 1}


def _imported_files(path):
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not _is_for_types(node)]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {_file_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # From a package, either one of its modules or one of its own names.
            found |= {_file_of(f"{node.module}.{alias.name}") or _file_of(node.module) for alias in node.names}
    return found - {None, path, SOURCE / "__init__.py"}


def _is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _file_of(name):
    place = SOURCE.parent.joinpath(*name.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.exists()), None)


def test_a_class_name_means_one_thing():
    places = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_every_room_says_what_it_is_for_and_none_is_crowded():
    assert len([p for p in SOURCE.iterdir() if p.name != "__pycache__"]) <= 22
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {name: n for name, n in lengths.items() if n > 350} == {}
    for folder in {path.parent for path in SOURCE.rglob("*.py")}:
        files = [path for path in folder.iterdir() if path.suffix == ".py"]
        assert len(files) <= 22, f"{folder} has {len(files)} files"
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), f"{folder} has no docstring"


def test_committed_files_name_no_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    places = [str(place).encode() for place in (ROOT, Path.home()) if len(place.parts) > 1]
    for name in listed.split():
        path = Path(ROOT, name)
        if path.is_file():
            text = path.read_bytes()
            for place in places:
                assert place not in text, f"{name} names {place!r}"


def test_tested_versions_suit_every_python_that_is_promised():
    """A constraint that needs 3.11.5 would stop `make test` on a machine with 3.11.2."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    wanted = {line.partition("==")[0] for line in lines if "==" in line}
    asked = {
        found.name: found.metadata.get("Requires-Python", "") for found in distributions() if found.name in wanted
    }
    assert len(asked) > 50
    oldest = f"{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['requires-python'].strip('>=')}.0"
    assert not [name for name, range_ in asked.items() if not SpecifierSet(range_).contains(oldest)]
