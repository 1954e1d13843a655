"""One way to compile a kernel: cached on disk where that is possible, and never stale.

Numba looks only at the file that holds a function to decide whether its cached code is still good. A kernel
that calls helpers of another module would go on with their old code, so the digest of every module that takes
part goes into the stamp. Where no cache folder can be written, kernels are compiled anew in each process.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.extending

Scalar = Any
"""An integer or a float inside a kernel, where it has a machine type that Python's annotations cannot say."""

# Numba's own annotations know neither intrinsics' call signatures nor the option `_nrt`.
intrinsic: Any = numba.extending.intrinsic
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
        try:
            compiled = _njit(cache=True, **options)(function)
        except RuntimeError:  # "cannot cache function": no folder can be written
            return _njit(**options)(function)  # type: ignore[no-any-return]
        cache: Any = getattr(compiled, "_cache", None)
        index: Any = getattr(cache, "_cache_file", None)
        if hasattr(index, "_source_stamp"):
            index._source_stamp = (index._source_stamp, _digest(depends_on))
        for name in ("load_overload", "save_overload"):
            if hasattr(cache, name):
                setattr(cache, name, _or_without(getattr(cache, name)))
        return compiled  # type: ignore[no-any-return]

    return compile_


def _or_without(use_cache: Callable[..., Any]) -> Callable[..., Any]:
    """A cache that is damaged, or a disk that is full, must not end a training run: then compile without."""

    def attempt(*args: Any, **kwargs: Any) -> Any:
        try:
            return use_cache(*args, **kwargs)
        except Exception:
            return None

    return attempt


def _digest(modules: tuple[str, ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in (__name__, *modules):
        spec = importlib.util.find_spec(name)
        digest.update(Path(str(spec and spec.origin)).read_bytes())
    return digest.hexdigest()
