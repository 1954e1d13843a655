"""The files that code depends on: modules and what they import, directly or not, of purerec or of the user.

A module is read once for each time it is imported: after `importlib.reload` it counts as it is now, and an edit that
has not been reloaded does not count, since the old code is what runs.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType
from typing import Any

PACKAGE = Path(__file__).parents[1]
_SILENT = PACKAGE / "storage"
"""Only reads and writes what others have computed: nothing in it can change a result."""
_ALL_MODELS = PACKAGE / "models" / "registry.py"
"""Names every model, but only one matters"""
_NAMED = re.compile(r"""["'](purerec(?:\.\w+)+)["']""")
"""Modules named in a registry and imported on demand"""
_COMPUTING = ("numpy", "numba", "scipy", "torch")
"""Libraries whose version can change a result"""


@dataclass(frozen=True, eq=False)
class _Source:
    """A module as it was read, and the import it was read for."""

    path: Path
    name: str
    spec: Any
    """Made by each import and reload; None if the module was not imported."""
    imports: frozenset[str]
    meaning: bytes

    @property
    def is_current(self) -> bool:
        return _spec(self.name) is self.spec


_sources: dict[Path, _Source] = {}
_digests: dict[frozenset[Path], tuple[list[_Source], str]] = {}


def digest_of(files: Iterable[Path]) -> str:
    """A digest of these modules, of all that they import, and of the libraries they compute with."""
    start = frozenset(files)
    known = _digests.get(start)
    if known is None or not all(source.is_current for source in known[0]):
        sources = [_source(path) for path in sorted(reached(start)) if not path.is_relative_to(_SILENT)]
        known = _digests[start] = sources, _digest(sources)
    return known[1]


def _digest(sources: Iterable[_Source]) -> str:
    used = {name.split(".")[0] for source in sources for name in source.imports}
    libraries = library_versions(tuple(name for name in _COMPUTING if name in used))
    digest = hashlib.sha256(repr(sorted(libraries.items())).encode())
    for source in sources:
        digest.update(source.meaning)
    return digest.hexdigest()[:20]


def library_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Versions of installed libraries, without importing them."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def reached(files: Iterable[Path]) -> frozenset[Path]:
    """These modules and everything that they import from purerec or from their own package."""
    found: set[Path] = set()
    ahead = list(files)
    while ahead:
        path = ahead.pop()
        if path not in found:
            found.add(path)
            ahead += [place for name in _source(path).imports if (place := _module(name, path)) is not None]
    return frozenset(found)


def _source(path: Path) -> _Source:
    known = _sources.get(path)
    if known is None or not known.is_current:
        text, name = path.read_bytes(), _imported_as(path)
        known = _sources[path] = _Source(path, name, _spec(name), _imports(path, text), _meaning(path, text))
    return known


def _imported_as(path: Path) -> str:
    """The name a file is imported by, or would be."""
    place = str(path)
    for name, module in list(sys.modules.items()):
        if name != "__main__" and getattr(module, "__file__", None) == place:
            return name
    return ".".join(path.relative_to(_top(path)).with_suffix("").parts).removesuffix(".__init__")


def _spec(name: str) -> Any:
    return getattr(sys.modules.get(name), "__spec__", None)


def file_of(module: str) -> Path | None:
    """The file of an imported module, if it is one of purerec or of the user."""
    name = getattr(sys.modules.get(module), "__file__", None)
    return Path(name) if name is not None and _belongs(Path(name)) else None


def of_library(module: str) -> bool:
    """Whether a module belongs to Python or to an installed library."""
    path = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    return module.split(".")[0] in sys.stdlib_module_names or _of_library(path)


def _of_library(path: Path) -> bool:
    installed = any(part in ("site-packages", "dist-packages") for part in path.parts)
    return installed or path.is_relative_to(Path(inspect.__file__).parent)


def _belongs(path: Path) -> bool:
    """Python's own modules and libraries are excluded: they have a version instead."""
    return path.suffix == ".py" and path.exists() and (path.is_relative_to(PACKAGE) or not _of_library(path))


def _module(name: str, importer: Path) -> Path | None:
    """The file of a module of purerec, or of a module beside the importer."""
    if name == "purerec":
        return None  # the public interface only re-exports
    for top in (PACKAGE.parent, _top(importer)):
        place = top.joinpath(*name.split("."))
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if _belongs(path):
                return path
    return None


@cache
def _top(path: Path) -> Path:
    """The folder that contains a module's package."""
    folder = path.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def _imports(path: Path, source: bytes) -> frozenset[str]:
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


def _meaning(path: Path, source: bytes) -> bytes:
    """A digest of a module's compiled code, without docstrings and line numbers."""
    tree = ast.parse(source)
    tree.body = _without_texts(tree.body)
    code = compile(tree, path.name, "exec", dont_inherit=True)
    return hashlib.sha256(repr(said(code)).encode()).digest()


def _without_texts(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Remove the docstrings of functions, classes and settings."""
    kept = [node for node in statements if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    for node in kept:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            line = {"lineno": node.lineno, "col_offset": 0}
            node.body = _without_texts(node.body) or [ast.Pass(**line)]
    return kept


def said(code: CodeType) -> tuple[Any, ...]:
    """What code does, in a form whose text is the same in every process; where it is does not count."""
    constants = [said(value) if isinstance(value, CodeType) else _stable(value) for value in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_name, code.co_flags, code.co_code, code.co_exceptiontable, names, constants


def _stable(value: Any) -> Any:
    """A constant in a form that always has the same text."""
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value
