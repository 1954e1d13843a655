"""One way to compile a kernel: cached on disk where that is possible, and never stale.

Numba looks only at the file that holds a function to decide whether its cached code is still good. A kernel
that calls helpers of another module would go on with their old code, so the digest of every module that takes
part goes into the stamp. Where no cache folder can be written, kernels are compiled anew in each process.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.core.caching
import numba.extending

Scalar = Any
"""An integer or a float inside a kernel, where it has a machine type that Python's annotations cannot say."""

# Numba's own annotations know neither intrinsics' call signatures nor the option `_nrt`.
intrinsic: Any = numba.extending.intrinsic
FunctionCache: Any = numba.core.caching.FunctionCache
_njit: Any = numba.njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(*, depends_on: tuple[str, ...] = (), inner: bool = False, inline: bool = False) -> Callable[[F], F]:
    """Compile a function; `depends_on` names the modules whose helpers it calls.

    - `inner=True`: for kernels that only other kernels call. The way in from Python is left out, which saves a
      good part of the compile time; a call from Python would crash.
    - `inline=True`: for large kernels that one other calls: compiled as a part of it and not twice.
    - `error_model="numpy"`: the check for division by zero would stop vectorisation.
    - `_nrt=False`: a kernel may not allocate, and in return its helpers take tuples of arrays without counting
      references, which costs more than the work they do (a draw of an unlabeled item: 90 ns with, 20 without).
    - no fastmath: a NaN has to stay a NaN, so that a run that diverges can be told.
    """
    options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": inner}
    if inline:
        options["inline"] = "always"

    def compile_(function: F) -> F:
        compiled = _njit(**options)(function)
        compiled._cache = Cache(function, depends_on)
        return compiled  # type: ignore[no-any-return]  # numba's decorator is untyped: F in, something callable out

    return compile_


class Cache:
    """Numba's cache of one function, made when first asked: most kernels of a module are never used in a process.

    A cache that is damaged, or a disk that is full, must not end a training run: then compile without. Hence the
    broad excepts: what numba raises on rubbish, from pickle, struct or LLVM, is not a closed list.
    """

    def __init__(self, function: Callable[..., Any], depends_on: tuple[str, ...]) -> None:
        self.function, self.depends_on = function, depends_on

    @cached_property
    def _numba(self) -> Any:
        try:
            found = FunctionCache(self.function)
        except RuntimeError:  # "cannot cache function": no folder can be written
            return None
        stamp = found._cache_file
        stamp._source_stamp = (stamp._source_stamp, *(_digest(name) for name in (__name__, *self.depends_on)))
        return found

    @property
    def cache_path(self) -> str | None:
        return None if self._numba is None else str(self._numba.cache_path)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The machine code of a signature, or None.

        Numba would first load all that it can compile, which takes 0.2 s and is needed to compile only: code
        without the run time of numba's own (`_nrt=False`) calls nothing but what is there from the start.
        """
        try:
            return self._numba and self._numba._load_overload(signature, context)
        except Exception:  # a damaged file can raise anything, and must not end a run: then it is compiled anew
            return None

    def save_overload(self, signature: Any, code: Any) -> None:
        try:
            if self._numba is not None:
                self._numba.save_overload(signature, code)
        except Exception:  # a full disk or another's lock costs the next start time, and this one nothing
            return

    def flush(self) -> None:
        if self._numba is not None:
            self._numba.flush()


@cache
def _digest(module: str) -> str:
    spec = importlib.util.find_spec(module)
    return hashlib.blake2b(Path(str(spec and spec.origin)).read_bytes(), digest_size=16).hexdigest()
