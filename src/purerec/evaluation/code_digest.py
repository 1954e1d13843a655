"""The code that a result depends on: a model and its evaluation, with everything they import, directly or not.

A digest of it is part of a finished cell's key and of a study, so that a code change only reruns what it may have
affected. Comments, docstrings and layout of files do not count.

Code without a file (a notebook, a prompt) counts as it is in memory, with the functions, classes and constants that
it names. If one of them is of a kind that has no digest, every digest is new, and no result is ever reused.
"""

from __future__ import annotations

import dis
import enum
import hashlib
import inspect
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from purerec.evaluation.code_files import PACKAGE, digest_of, file_of, of_library, said
from purerec.evaluation.metrics import parse

_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(Ellipsis),
    Path,
    np.generic,
    enum.Enum,
    GenericAlias,
)
"""Kinds of values whose text says all about them"""
_AROUND = (property, classmethod, staticmethod, MethodType, BuiltinMethodType, partial, cached_property)
"""Kinds of objects around a function"""
_INSIDE = (
    *("__name__", "__func__", "__self__", "__wrapped__", "py_func"),
    *("fget", "fset", "fdel", "func", "args", "keywords"),
)
"""Their attributes that hold the function and its arguments; py_func is that of a kernel"""


def code_of(model: type[Any]) -> str:
    """A digest of the code that fits and evaluates a model of this class, and of the libraries it computes with."""
    own = getattr(model, "own_class", None)  # wrapped by a class that is made for it
    classes = inspect.getmro(model) if own is None else (*inspect.getmro(model)[1:], *inspect.getmro(own))
    return _digest(classes, [PACKAGE / "evaluation" / "protocols.py"])


def code_of_metric(name: str) -> str | None:
    """A digest of the code of a metric that is not purerec's own."""
    own = parse(name).own
    return None if own is None else _digest([own.function], [])


def _digest(things: Iterable[Any], files: Iterable[Path]) -> str:
    places = [(thing, _file(thing)) for thing in things]
    loose = [thing for thing, file in places if file is None and not of_library(_module(thing))]
    code = digest_of([*files, *(file for _, file in places if file is not None)])
    if not loose:
        return code
    try:
        read = _Reader()
        return _short((code, [read.said(thing) for thing in loose]))
    except _NoDigest:
        return secrets.token_hex(10)


def _module(thing: Any) -> str:
    return getattr(thing, "__module__", None) or type(thing).__module__


def _short(facts: Any) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:20]


@cache
def _file(thing: Any) -> Path | None:
    """The file in which a class or function is defined, if it is one of purerec or of the user."""
    file = file_of(_module(thing))
    if file is None or file.is_relative_to(PACKAGE):
        return file
    # A class made at the prompt after `python -i file.py` has the module of the file, but is not in it.
    functions = vars(thing).values() if isinstance(thing, type) else [thing]
    code = [function.__code__ for function in functions if isinstance(function, FunctionType)]
    return file if not code or any(Path(each.co_filename).exists() for each in code) else None


class _NoDigest(Exception):
    """A value could be anything."""


class _Reader:
    """Says what code in memory does, in a form whose text is the same in every process."""

    def __init__(self) -> None:
        self._met: dict[int, tuple[int, Any]] = {}
        """What has been said, by its id: its number, and the object itself, to keep the id its own"""

    def said(self, value: Any) -> Any:
        if isinstance(value, _PLAIN):
            return type(value).__name__, repr(value)
        if id(value) in self._met:
            return "again", self._met[id(value)][0]
        self._met[id(value)] = len(self._met), value
        if isinstance(value, Mapping):
            return type(value).__name__, [(self.said(key), self.said(each)) for key, each in value.items()]
        if isinstance(value, list | tuple):
            return type(value).__name__, [self.said(each) for each in value]
        if isinstance(value, set | frozenset):
            return type(value).__name__, sorted(repr(self.said(each)) for each in value)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()
        if isinstance(value, ModuleType):
            return self._of_module(value)
        if _is_around(value):
            return type(value).__name__, [self.said(getattr(value, name, None)) for name in _INSIDE]
        return self._defined(value)

    def _of_module(self, module: ModuleType) -> Any:
        file = file_of(module.__name__)
        return module.__name__, None if file is None or file.is_relative_to(PACKAGE) else digest_of([file])

    def _defined(self, value: Any) -> Any:
        """A class, a function, or an object whose class says what is in it."""
        module = _module(value)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if name is None:
            if is_dataclass(value):
                return self.said(type(value)), [self.said(getattr(value, field.name)) for field in fields(value)]
            raise _NoDigest
        if of_library(module):
            return module, name
        if isinstance(value, type | FunctionType) and (file := _file(value)) is not None:
            return module, name, digest_of([file])
        if isinstance(value, type):
            return name, [self.said(base) for base in value.__bases__], list(self._contents(value))
        if isinstance(value, FunctionType):
            return self._function(value)
        raise _NoDigest

    def _contents(self, cls: type) -> Iterator[Any]:
        """Methods and constants; the other names with two underscores, and abc's, are Python's notes on the class."""
        for name, value in vars(cls).items():
            noted = (name.startswith("__") and name.endswith("__")) or name == "_abc_impl"
            slot = isinstance(value, GetSetDescriptorType | MemberDescriptorType)
            if isinstance(value, FunctionType) or _is_around(value) or not (noted or slot):
                yield name, self.said(value)

    def _function(self, function: FunctionType) -> Any:
        known = function.__globals__
        named = [(name, self.said(known[name])) for name in sorted(_globals(function.__code__)) if name in known]
        cells = [self.said(_content(cell)) for cell in function.__closure__ or ()]
        defaults = self.said(function.__defaults__), self.said(function.__kwdefaults__)
        return said(function.__code__), defaults, named, cells


def _is_around(value: Any) -> bool:
    """Whether an object only passes calls on to a function."""
    if isinstance(value, type | FunctionType) or not of_library(type(value).__module__):
        return False
    return isinstance(value, _AROUND) or hasattr(value, "__wrapped__") or hasattr(value, "py_func")


def _globals(code: CodeType) -> set[str]:
    """The global names that code reads, also in functions inside it."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
