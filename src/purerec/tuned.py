"""Settings files: what `purerec tune` found, as TOML that other commands take.

    data = "ml-100k"                     how it was found: data, split, metric, budget, command, date, version
    ...
    [models.bpr]
    settings = { dim = 5, epochs = 80 }  what to use: the best found, or the defaults where that was not better
    kept = "tuned"
    ...

The files in `experiments/tuned/` have the best settings for the paper's data sets.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from purerec import storing
from purerec.errors import ConfigError
from purerec.experiments import folder
from purerec.models import REGISTRY, make_model

_HEAD = """\
# Settings found by `purerec tune`: chosen on validation folds of the train part, and checked on fresh ones.
# Use them with: purerec fit DATA --model NAME --settings THIS_FILE
"""


def tuned_settings(data: str, model: str) -> dict[str, Any]:
    """The settings kept for a model on one of the paper's data sets."""
    place = folder() / "tuned"
    path = place / f"{data}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in place.glob("*.toml"))
        raise ConfigError(
            f"there are no tuned settings for {data!r} (there are for {', '.join(known) or 'no data'}); find some "
            f"with `purerec tune {data} --model {model} --out tuned.toml` and give them by --settings tuned.toml"
        )
    return settings_from(path, model)


def chosen_settings(data: str, model: str, file: Path | None, *, tuned: bool) -> dict[str, Any]:
    """Of a settings file what it has for the model; or of those found for the data set; or the defaults."""
    if file is not None and tuned:
        raise ConfigError("--settings and --tuned both say what settings to use; give one of them")
    if tuned:
        return tuned_settings(data, model)
    return settings_from(file, model) if file is not None else {}


def settings_from(path: Path, model: str) -> dict[str, Any]:
    """The settings of one model in a settings file, checked."""
    found = read_settings(path)
    if model not in found:
        raise ConfigError(f"{path} has settings for {', '.join(found) or 'no model'}, not for {model}")
    make_model(model, **found[model])  # a name or value that this version does not know is an error here
    return found[model]


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """The settings of every model in a settings file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the settings in {path}: {error.strerror or error}") from None
    except ValueError as error:  # wrong TOML, or no text at all
        raise ConfigError(f"{path} is not TOML as `purerec tune --out` writes it: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not TOML as `purerec tune --out` writes it: it is nested too deeply") from None
    models = content.get("models")
    if not isinstance(models, dict) or not all(
        isinstance(entry, dict) and isinstance(entry.get("settings"), dict) for entry in models.values()
    ):
        raise ConfigError(f"{path} has no settings under [models.NAME], where `purerec tune --out` writes them")
    return {name: dict(entry["settings"]) for name, entry in models.items()}


def write_settings(path: Path, facts: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write how settings were found (`facts`), and an entry for every model."""
    lines = [_HEAD, *(f"{key} = {_value(value)}" for key, value in facts.items() if value is not None)]
    for name in sorted(models, key=lambda name: list(REGISTRY).index(name)):
        entry = {key: value for key, value in models[name].items() if value is not None}
        lines += ["", f"[models.{name}]", *(f"{key} = {_value(value)}" for key, value in entry.items())]
    return storing.write_file(path, "\n".join(lines) + "\n")


def _value(value: Any) -> str:
    """TOML of a number, a text, a list or a table. It has no null: 'none' is what configs take for it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _text("none" if value is None else str(value))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _text(value: str) -> str:
    """A JSON string is a TOML string, but for one character that JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
