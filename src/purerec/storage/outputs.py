"""Checks that the outputs of a command do not overwrite its inputs or each other."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from purerec.errors import ConfigError
from purerec.storage.files import is_written_through
from purerec.storage.paths import AnyPath, followed, status


def check_outputs(
    outputs: Mapping[str, AnyPath | None], inputs: Mapping[str, AnyPath | None], *, shared: Collection[str] = ()
) -> None:
    """Raise an error if an output is an input or another output, under any name, or is inside a folder that is one.

    Keys are the names that the user knows, such as --log. A folder may replace one that is read: its kind is checked
    when it is written. Devices and pipes can be shared by all. Outputs in `shared` are folders that are added to, not
    replaced, so others may be inside them.
    """
    given = {name: path for name, path in outputs.items() if path is not None}
    read = {name: path for name, path in inputs.items() if path is not None and status(path) is not None}
    for number, (name, path) in enumerate(given.items()):
        others = read | dict(list(given.items())[:number])
        for other, taken in others.items():
            if _is_same(path, taken) and not (other in read and _is_folder(path)):
                raise ConfigError(f"{name} {path} is {other} itself and would overwrite it; choose another path")
            if other not in shared and _is_inside(path, taken):
                raise ConfigError(f"{name} {path} is inside {other} {taken}; choose a path outside of it")
            if other in given and name not in shared and _is_inside(taken, path):
                raise ConfigError(f"{other} {taken} is inside {name} {path}; choose a path outside of it")


def _is_same(one: AnyPath, other: AnyPath) -> bool:
    found, known = status(one), status(other)
    if found is not None and known is not None:
        return os.path.samestat(found, known) and not (is_written_through(found) and not _is_folder(one))
    return followed(one) == followed(other)


def _is_folder(path: AnyPath) -> bool:
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _is_inside(path: AnyPath, folder: AnyPath) -> bool:
    outer: Path = followed(folder)
    return outer in followed(path).parents
