"""Checks of the paths that commands read and write: no output overwrites an input, and a name is not also a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from purerec.errors import ConfigError

_INPUTS = {
    "data": "DATA",
    "train": "--train",
    "test": "--test",
    "valid": "--valid",
    "folder": "DIR",
    "from_": "--from",
    "titles": "--titles",
    "users_table": "--users",
    "items_table": "--items",
    "items": "--items",
    "settings": "--settings",
    "users": "--users",
}
_OUTPUTS = {
    "out": "--out",
    "json": "--json",
    "log": "--log",
    "tensorboard": "--tensorboard",
    "study": "--study",
    "plot": "--plot",
}
_OTHERS = {"files": "FILES", "token_file": "--token-file", "report": "--report"}


def is_named(source: str) -> bool:
    """Return whether this is the name of a data set; refused if a file or an ingested data set has that name, too."""
    from purerec.data.catalog import CATALOG

    if source not in CATALOG:
        return False
    if any(path.is_file() for path in (Path(source), Path(source, "manifest.json"))):
        raise ConfigError(
            f"{source} is the name of a data set, and of a file or folder here; write ./{source} for the latter"
        )
    return True


def check_paths(given: dict[str, Any]) -> None:
    """Raise an error if a command would overwrite its input or another output, or if a path is empty."""
    _refuse_empty(given)
    outputs = {label: given.get(name) for name, label in _OUTPUTS.items() if given.get(name) != "-"}
    if any(path is not None for path in outputs.values()):
        from purerec.storage import check_file, check_outputs

        # Several argument names may share a label, but a command has only one of them.
        inputs = {label: path for name, label in _INPUTS.items() if (path := given.get(name)) is not None}
        check_outputs(outputs, inputs, shared=("--tensorboard",))
        for label in ("--json", "--plot"):
            if (file := outputs.get(label)) is not None:
                check_file(file, makes_folders=True)  # before any work is done


def _refuse_empty(given: dict[str, Any]) -> None:
    """An empty argument, for example from an unset shell variable, would be taken for the current folder."""
    if not any(word == "" or (word.startswith("--") and word.endswith("=")) for word in sys.argv):
        return
    for name, label in (_INPUTS | _OUTPUTS | _OTHERS).items():
        value = given.get(name)
        if any(one in ("", Path()) for one in (value if isinstance(value, list) else [value])):
            raise ConfigError(f"{label} is empty; give a value, or leave it out")
