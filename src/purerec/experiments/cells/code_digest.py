"""The code that a result depends on: the modules that a model and its evaluation import, directly or not.

A digest of them is part of a finished cell's key, so that a code change only reruns what it may have affected.
Comments, docstrings and layout do not count.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from purerec.evaluation.metrics import parse
from purerec.experiments.provenance import library_versions

_PACKAGE = Path(__file__).parents[2]
_SILENT = _PACKAGE / "storage"
"""Only reads and writes what others have computed: nothing in it can change a result."""
_ALL_MODELS = _PACKAGE / "models" / "registry.py"
"""Names every model, but only one matters"""
_NAMED = re.compile(r"""["'](purerec(?:\.\w+)+)["']""")
"""Modules named in a registry and imported on demand"""
_COMPUTING = ("numpy", "numba", "scipy", "torch")
"""Libraries whose version can change a result"""


@cache
def code_of(model: type[Any]) -> str:
    """A digest of the code that fits and evaluates a model of this class, and of the libraries it computes with."""
    own = [file for cls in inspect.getmro(model) if (file := _file(cls)) is not None]
    return _digest([*own, _PACKAGE / "evaluation" / "protocols.py"])


def code_of_metric(name: str) -> str | None:
    """A digest of the code of a metric that is not purerec's own."""
    own = parse(name).own
    if own is None:
        return None
    if (file := _file(own.function)) is not None:
        return _digest([file])
    code = getattr(own.function, "__code__", None)  # for example of a notebook, which has no file
    return hashlib.sha256(repr(code and _said(code)).encode()).hexdigest()[:20]


def _digest(files: Iterable[Path]) -> str:
    modules = frozenset(path for path in reached(files) if not path.is_relative_to(_SILENT))
    used = {name.split(".")[0] for path in modules for name in _imports(path)}
    libraries = library_versions(tuple(name for name in _COMPUTING if name in used))
    digest = hashlib.sha256(repr(sorted(libraries.items())).encode())
    for path in sorted(modules):
        digest.update(_meaning(path))
    return digest.hexdigest()[:20]


def reached(files: Iterable[Path]) -> frozenset[Path]:
    """These modules and everything that they import from purerec or from their own package."""
    found: set[Path] = set()
    ahead = list(files)
    while ahead:
        path = ahead.pop()
        if path not in found:
            found.add(path)
            ahead += [place for name in _imports(path) if (place := _module(name, path)) is not None]
    return frozenset(found)


def _file(thing: Any) -> Path | None:
    """Where a class or function is defined, if in a file of purerec or of the user."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    name = getattr(module, "__file__", None)
    return Path(name) if name is not None and _belongs(Path(name)) else None


def _belongs(path: Path) -> bool:
    """Python's own modules and libraries are excluded: they have a version instead."""
    if path.suffix != ".py" or not path.exists():
        return False
    libraries = any(part in ("site-packages", "dist-packages") for part in path.parts)
    return path.is_relative_to(_PACKAGE) or not (libraries or path.is_relative_to(Path(inspect.__file__).parent))


def _module(name: str, importer: Path) -> Path | None:
    """The file of a module of purerec, or of a module beside the importer."""
    if name == "purerec":
        return None  # the public interface only re-exports
    for top in (_PACKAGE.parent, _top(importer)):
        place = top.joinpath(*name.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if _belongs(path):
                return path
    return None


def _top(path: Path) -> Path:
    """The folder that contains a module's package."""
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


@cache
def _imports(path: Path) -> frozenset[str]:
    source = path.read_bytes()
    package = path.relative_to(_top(path)).parent.parts
    named = set() if path == _ALL_MODELS else set(_NAMED.findall(source.decode()))
    return frozenset(_names(ast.parse(source).body, package)) | named


def _names(statements: Iterable[ast.AST], package: tuple[str, ...]) -> Iterator[str]:
    """Every name that may be a module: for `from a import b`, both a and a.b. Type-only imports do not count."""
    for node in statements:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            near = package[: len(package) + 1 - node.level] if node.level else ()
            origin = ".".join([*near, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list):
                yield from _names(inner, package)


@cache
def _meaning(path: Path) -> bytes:
    """A digest of a module's compiled code, without docstrings and line numbers."""
    tree = ast.parse(path.read_bytes())
    tree.body = _without_texts(tree.body)
    code = compile(tree, path.name, "exec", dont_inherit=True)
    return hashlib.sha256(repr(_said(code)).encode()).digest()


def _without_texts(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Remove the docstrings of functions, classes and settings."""
    kept = [node for node in statements if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    for node in kept:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            line = {"lineno": node.lineno, "col_offset": 0}
            node.body = _without_texts(node.body) or [ast.Pass(**line)]
    return kept


def _said(code: CodeType) -> tuple[Any, ...]:
    constants = [_said(value) if isinstance(value, CodeType) else _stable(value) for value in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_name, code.co_flags, code.co_code, code.co_exceptiontable, names, constants


def _stable(value: Any) -> Any:
    """A constant in a form that always has the same text."""
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value
