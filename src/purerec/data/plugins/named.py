"""Objects by name: `module:name` as typed by the user, or an entry point of an installed package.

A name found in a file (a model folder, settings, an experiment) is never imported: opening somebody else's file must
not run code of their choosing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from purerec.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

IMPORT_FIRST = "PUREREC_IMPORT"
"""Environment variable with modules, or `module:Model`, separated by commas; child processes inherit it."""

_MODULE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"


def is_path(name: str) -> bool:
    """Return whether a name is an import path."""
    return ":" in name


def import_path(thing: Any) -> str:
    """`module:name` of a class or function."""
    return f"{thing.__module__}:{thing.__qualname__}"


def import_object(path: str) -> Any:
    """The object at `module:name`. Modules in the current folder are also found, after installed ones."""
    match = re.fullmatch(rf"({_MODULE}):({_MODULE})", path)
    if match is None:
        raise ConfigError(f"{path!r} does not name an object; write module:name, such as my_model:MyModel")
    if match[1].endswith(".py"):
        raise ConfigError(f"{match[1]} is a file; write the name of the module: {path.replace('.py:', ':', 1)}")
    found: Any = _module(match[1])
    for part in match[2].split("."):
        if not hasattr(found, part):
            known = [name for name, value in vars(found).items() if callable(value) and name[0] != "_"]
            raise ConfigError(f"{match[1]} has no {match[2]!r}; {did_you_mean(part, known)}")
        found = getattr(found, part)
    return found


def _module(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last, so that no file here shadows an installed module
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{name} cannot be imported: it needs {error.name}, which is not installed") from error
        raise ConfigError(
            f"there is no module {name!r} in the current folder or among the installed packages"
        ) from None
    except Exception as error:  # importing a module may raise anything
        raise ConfigError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def import_first() -> list[str]:
    """Import the modules in PUREREC_IMPORT, and return its entries that name objects in them."""
    entries = [part.strip() for part in os.environ.get(IMPORT_FIRST, "").split(",") if part.strip()]
    for entry in entries:
        if not is_path(entry):
            if not re.fullmatch(_MODULE, entry):
                raise ConfigError(f"{entry!r} is not a module; write its name, such as my_model (without .py)")
            _module(entry)
    return [entry for entry in entries if is_path(entry)]


@cache
def _installed(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # not needed without plugins

    return {point.name: point for point in entry_points(group=group)}


def installed_names(group: str) -> Sequence[str]:
    """The names that installed packages provide."""
    return sorted(_installed(group))


def installed_object(group: str, name: str) -> Any | None:
    """The object that an installed package provides under a name; None if there is none."""
    point = _installed(group).get(name)
    if point is None:
        return None
    try:
        return point.load()
    except Exception as error:
        package = point.dist.name if point.dist is not None else point.value
        raise ConfigError(
            f"{name} of the package {package} cannot be imported: {type(error).__name__}: {error}"
        ) from error
