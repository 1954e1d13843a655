"""The decorator that compiles kernels, with a cache on disk that is never stale.

Numba looks only at the file that holds a function to decide whether its cached code is still good. A kernel
that calls a helper of another module, or has a constant of it compiled in, would keep using the old one. So code is
kept under a digest of the function's module and of every module of the same package that it imports, directly or
not. Numba keeps it beside the module; here it is in one folder for all installations, and a new environment has what
was compiled in another. Where no cache folder can be written, kernels are compiled in every process.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.core.caching
import numba.extending
import platformdirs

from purerec.jit.turns import Turns

Scalar = Any
"""An integer or a float inside a kernel, where it has a machine type that Python's annotations cannot say."""

# Numba's own annotations know neither intrinsics' call signatures nor the option `_nrt`.
intrinsic: Any = numba.extending.intrinsic
_caching: Any = numba.core.caching
_config: Any = numba.config
_njit: Any = numba.njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(*, inner: bool = False, inline: bool = False) -> Callable[[F], F]:
    """Compile a function.

    - `inner=True`: for kernels that only other kernels call. The way in from Python is left out, which saves a
      good part of the compile time; a call from Python would crash.
    - `inline=True`: for large kernels that one other calls: compiled as a part of it and not twice.
    - `error_model="numpy"`: the check for division by zero would stop vectorisation.
    - `_nrt=False`: a kernel may not allocate, and in return its helpers take tuples of arrays without counting
      references, which costs more than the work they do (a draw of an unlabeled item: 90 ns with, 20 without).
    - no fastmath: a NaN must stay a NaN, so that divergence is detected.
    """
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
    if inline:
        options["inline"] = "always"

    def compile_(function: F) -> F:
        compiled = _njit(**options)(function)
        compiled._cache = Cache(function)
        return compiled  # type: ignore[no-any-return]  # numba's decorator is untyped: F in, something callable out

    return compile_


class Cache:
    """Numba's cache of one function, made when first asked: most kernels of a module are never used in a process.

    A cache that is damaged, or a disk that is full, must not end a training run: then compile without. Hence the
    broad excepts: what numba raises on rubbish, from pickle, struct or LLVM, is not a closed list.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @cached_property
    def _numba(self) -> Any:
        try:
            return FunctionCache(self.function)
        except (RuntimeError, OSError):  # "cannot cache function": no folder can be written; or there is no source
            return None

    @property
    def cache_path(self) -> str | None:
        return None if self._numba is None else str(self._numba.cache_path)

    @cached_property
    def _turns(self) -> Turns:
        assert self._numba is not None
        return Turns(Path(self._numba.cache_path, f"{self.function.__qualname__}.lock"))

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The machine code of a signature, or None: then numba compiles it next, in this process's turn."""
        if self._numba is None:
            return None
        try:
            found = self._load(signature, context)
            if found is None:
                self._turns.take()
                found = self._load(signature, context)
                if found is not None:
                    self._turns.release()
        except Exception:  # a damaged file can raise anything, and must not end a run: it is compiled again
            return None
        return found

    def _load(self, signature: Any, context: Any) -> Any:
        """Numba would first load all that it can compile, which takes 0.2 s and is needed to compile only: code
        without the run time of numba's own (`_nrt=False`) calls nothing but what is there from the start."""
        return self._numba._load_overload(signature, context)

    def save_overload(self, signature: Any, code: Any) -> None:
        if self._numba is None:
            return
        try:
            self._numba.save_overload(signature, code)
        except Exception:  # a full disk or another's lock costs the next start time, and this one nothing
            return
        finally:
            self._turns.release()

    def flush(self) -> None:
        if self._numba is not None:
            self._numba.flush()


class KernelFolder:
    """Where numba finds the code of a function: a folder that is named after all that the code is made of.

    It has the methods of numba's own locators.
    """

    def __init__(self, function: Callable[..., Any], root: Path) -> None:
        self._py_file, self._line = function.__code__.co_filename, function.__code__.co_firstlineno
        made_of = f"{numba.__version__} {_digest(Path(__file__))} {_digest(Path(self._py_file))}"
        self._stamp = hashlib.blake2b(made_of.encode(), digest_size=16).hexdigest()
        self._folder = root / function.__module__ / self._stamp

    @classmethod
    def from_function(cls, function: Callable[..., Any], _: str) -> KernelFolder | None:
        for root in _roots(Path(function.__code__.co_filename)):
            found = cls(function, root)
            try:
                found.ensure_cache_path()
            except OSError:  # read only, or full
                continue
            return found
        return None

    def ensure_cache_path(self) -> None:
        if not self._folder.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            versions = sorted(self._folder.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            for old in versions[:-_VERSIONS]:
                shutil.rmtree(old, ignore_errors=True)
        tempfile.TemporaryFile(dir=self._folder).close()

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)


_VERSIONS = 16
"""How many of a module are kept: installations beside each other, and branches that somebody works on."""
FunctionCache: Any = type(
    "FunctionCache",
    (_caching.FunctionCache,),
    {"_impl_class": type("Impl", (_caching.CompileResultCacheImpl,), {"_locator_classes": [KernelFolder]})},
)


def _roots(source: Path) -> list[Path]:
    """Folders to try in turn: the one that the user set, else the system's for caches, or beside the module."""
    if _config.CACHE_DIR:
        return [Path(_config.CACHE_DIR)]
    return [
        Path(platformdirs.user_cache_dir("purerec", appauthor=False), "kernels"),
        source.parent / "__pycache__",
    ]


@cache
def _digest(file: Path) -> str:
    """Of a module's source and of all that it imports from its own package, directly or not."""
    found: set[Path] = set()
    ahead = [file]
    while ahead:
        path = ahead.pop()
        if path not in found:
            found.add(path)
            ahead += imported(path)
    whole = hashlib.blake2b(digest_size=16)
    for path in sorted(found):
        whole.update(hashlib.blake2b(_source(path)).digest())
    return whole.hexdigest()


# To parse a file takes a hundred times as long, at every start. That both find the same imports is tested.
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def imported(file: Path) -> frozenset[Path]:
    """The modules of its own package that a module imports anywhere, at its top or in a function."""
    top = file.parent
    while (top / "__init__.py").exists():
        top = top.parent
    package = file.relative_to(top).parts[0]
    names = _imported_names(_source(file).decode())
    inside = (name.split(".") for name in names if name.split(".")[0] == package)
    places = (place for parts in inside for place in (top.joinpath(*parts), top.joinpath(*parts, "__init__")))
    return frozenset(path for place in places if (path := place.with_suffix(".py")).exists())


def _imported_names(source: str) -> Iterator[str]:
    """All that may be a module: of `from a import b` both a and a.b."""
    for origin, names in _IMPORT.findall(source):
        if origin:
            yield origin
        for name in re.findall(r"[\w.]+", names):
            yield f"{origin}.{name}" if origin else name


@cache
def _source(file: Path) -> bytes:
    return file.read_bytes()
