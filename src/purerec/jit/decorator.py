"""The decorator that compiles kernels, with a cache on disk that is never stale.

Numba only checks the file that defines a function to decide whether its cached code is still valid. A kernel that
calls a helper from another module, or has one of its constants compiled in, would keep using the old one. So code is
stored under a digest of the function's module and of every module of the same package that it imports, directly or
not. Numba stores it beside the module; here one folder serves all installations, so a new environment reuses what
another has compiled. If no cache folder is writable, every process compiles its kernels.
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
"""An integer or a float inside a kernel, where it has a machine type that Python's annotations cannot express."""

# Numba's own annotations cover neither the call signatures of intrinsics nor the option `_nrt`.
intrinsic: Any = numba.extending.intrinsic
_caching: Any = numba.core.caching
_config: Any = numba.config
_njit: Any = numba.njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(*, inner: bool = False, inline: bool = False) -> Callable[[F], F]:
    """Compile a function.

    - `inner=True`: for kernels that only other kernels call. Leaves out the Python wrapper, which saves much of the
      compile time; a call from Python would crash.
    - `inline=True`: for large kernels with a single caller: compiled as part of it, not twice.
    - `error_model="numpy"`: the check for division by zero would prevent vectorisation.
    - `_nrt=False`: a kernel may not allocate; in return, its helpers take tuples of arrays without reference
      counting, which costs more than the work they do (drawing an unlabeled item: 90 ns with, 20 ns without).
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
    """Numba's cache of one function, created on first use: a process never uses most kernels of a module.

    A damaged cache or a full disk must not end a training run: compile without a cache instead. Hence the broad
    excepts: on a damaged file, numba may raise anything, from pickle, struct or LLVM.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @cached_property
    def _numba(self) -> Any:
        try:
            return FunctionCache(self.function)
        except (RuntimeError, OSError):  # "cannot cache function": no folder is writable, or there is no source
            return None

    @property
    def cache_path(self) -> str | None:
        return None if self._numba is None else str(self._numba.cache_path)

    @cached_property
    def _turns(self) -> Turns:
        assert self._numba is not None
        return Turns(Path(self._numba.cache_path, f"{self.function.__qualname__}.lock"))

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The machine code of a signature, or None: it is then this process's turn, and numba compiles it."""
        if self._numba is None:
            return None
        try:
            found = self._load(signature, context)
            if found is None:
                self._turns.take()
                found = self._load(signature, context)
                if found is not None:
                    self._turns.release()
        except Exception:  # a damaged file can raise anything and must not end a run: compile again
            return None
        return found

    def _load(self, signature: Any, context: Any) -> Any:
        """Skips loading numba's compiler registries (0.2 s), which cached code without numba's runtime (`_nrt=False`)
        does not need."""
        return self._numba._load_overload(signature, context)

    def save_overload(self, signature: Any, code: Any) -> None:
        if self._numba is None:
            return
        try:
            self._numba.save_overload(signature, code)
        except Exception:  # a full disk or another's lock only slows the next start
            return
        finally:
            self._turns.release()

    def flush(self) -> None:
        if self._numba is not None:
            self._numba.flush()


class KernelFolder:
    """Where numba finds the code of a function: a folder named after a digest of everything the code depends on.

    Implements the interface of numba's locators.
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
            except OSError:  # read-only, or full
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
"""Versions kept per module, for parallel installations and branches."""
FunctionCache: Any = type(
    "FunctionCache",
    (_caching.FunctionCache,),
    {"_impl_class": type("Impl", (_caching.CompileResultCacheImpl,), {"_locator_classes": [KernelFolder]})},
)


def _roots(source: Path) -> list[Path]:
    """Folders to try in turn: the user's setting, or else the system's cache folder, then the module's folder."""
    if _config.CACHE_DIR:
        return [Path(_config.CACHE_DIR)]
    return [
        Path(platformdirs.user_cache_dir("purerec", appauthor=False), "kernels"),
        source.parent / "__pycache__",
    ]


@cache
def _digest(file: Path) -> str:
    """Digest of a module's source and of all modules it imports from its own package, directly or not."""
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


# Parsing takes 100 times as long, on every start. Tests check that both find the same imports.
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def imported(file: Path) -> frozenset[Path]:
    """The modules of its own package that a module imports, at the top or inside functions."""
    top = file.parent
    while (top / "__init__.py").exists():
        top = top.parent
    package = file.relative_to(top).parts[0]
    names = _imported_names(_source(file).decode())
    inside = (name.split(".") for name in names if name.split(".")[0] == package)
    places = (place for parts in inside for place in (top.joinpath(*parts), top.joinpath(*parts, "__init__")))
    return frozenset(path for place in places if (path := place.with_suffix(".py")).exists())


def _imported_names(source: str) -> Iterator[str]:
    """Every name that may be a module: for `from a import b`, both a and a.b."""
    for origin, names in _IMPORT.findall(source):
        if origin:
            yield origin
        for name in re.findall(r"[\w.]+", names):
            yield f"{origin}.{name}" if origin else name


@cache
def _source(file: Path) -> bytes:
    return file.read_bytes()
