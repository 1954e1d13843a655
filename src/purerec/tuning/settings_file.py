"""Settings files: what `purerec tune` found, as TOML that other commands accept.

    data = "ml-100k"                     how the search was done: data, split, metric, budget, command, date, version
    searched = { ... }                   the split, so that the part searched on can be recreated and compared
    ...
    [models.bpr]
    settings = { dim = 5, epochs = 80 }  what to use: the best found, or the defaults if that was not better
    kept = "tuned"
    ...

The files in `experiments/tuned/` have the best settings for the paper's data sets.

Settings must not be evaluated on rows they were chosen on: `check_searched` raises an error if the search used rows
of the test part.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from purerec import storage
from purerec.data.interactions import Interactions
from purerec.data.splits import Split
from purerec.data.splits import split as make_split
from purerec.errors import ConfigError, DataError, PurerecError
from purerec.models.registry import REGISTRY, make_model
from purerec.paper.printed import experiments_folder
from purerec.storage.toml_files import TomlTable, checked, read_toml
from purerec.training.checkpoints import brief

_MARKER = "# Settings found by `purerec tune`"
_HEAD = f"""\
{_MARKER}: chosen on validation folds of the train part, and checked on fresh ones.
# Use them with: purerec fit DATA --model NAME --settings THIS_FILE
"""


class _Searched(TomlTable):
    """The part that was searched on: how to make it again, and its fingerprint."""

    train: str | None = None
    method: str | None = None
    seed: int | None = None
    parameters: dict[str, Any] = Field(default={})
    positive_rating: float | None = None


class _Search(TomlTable):
    """Which search found something."""

    command: str | None = None
    purerec: str | None = None
    date: str | None = None


class _Entry(_Search):
    """What was found for a model; only the settings are needed."""

    settings: dict[str, Any]
    kept: str | None = None
    why: str | None = None
    validation: dict[str, float] | None = None
    fresh: dict[str, float] | None = None
    best_settings: dict[str, Any] | None = None
    trials: int | None = None
    pruned: int | None = None
    failed: int | None = None
    seconds: float | None = None


class _File(_Search):
    """A settings file."""

    data: str | None = None
    split: str | None = None
    searched: _Searched | None = None
    metric: str | None = None
    protocol: str | None = None
    folds: int | None = None
    fresh_folds: int | None = None
    trials_each: int | None = None
    minutes_each: float | None = None
    seed: int | None = None
    note: str | None = None
    models: dict[str, _Entry]


_OF_A_SEARCH = ("data", "split", "searched", "metric", "protocol", "folds", "fresh_folds")
"""What the models of one file have in common"""


def tuned_settings(data: str, model: str) -> dict[str, Any]:
    """The tuned settings of a model on one of the paper's data sets."""
    return settings_from(tuned_file(data), model)


def tuned_file(data: str) -> Path:
    """The settings file of one of the paper's data sets."""
    place = experiments_folder() / "tuned"
    path = place / f"{data}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in place.glob("*.toml"))
        raise ConfigError(
            f"there are no tuned settings for {data!r} (there are for {', '.join(known) or 'no data'}); find some "
            "with `purerec tune DATA --model all --out tuned.toml` and give them by --settings tuned.toml"
        )
    return path


def chosen_file(data: str, file: Path | None, *, tuned: bool) -> Path | None:
    """The given settings file, or that of the data set, or None."""
    if file is not None and tuned:
        raise ConfigError("--settings and --tuned both say what settings to use; give one of them")
    return tuned_file(data) if tuned else file


def settings_from(path: Path, model: str) -> dict[str, Any]:
    """The settings of one model in a settings file, checked."""
    found = read_settings(path)
    if model not in found:
        raise ConfigError(
            f"{path} has settings for {', '.join(found) or 'no model'}, not for {model}; "
            f"leave {model} out, or tune it, too"
        )
    try:
        make_model(model, **found[model])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return found[model]


def searched(split: Split) -> dict[str, Any]:
    """The part that was searched on, for a settings file: how to recreate it, and its fingerprint."""
    train = split.full_train
    made = split.made.model_dump(include={"method", "seed", "parameters"}, exclude_none=True)
    rating = {} if train.positive_rating is None else {"positive_rating": train.positive_rating}
    return made | rating | {"train": train.fingerprint}


def check_searched(path: Path, data: Interactions, split: Split, warn: Callable[[str], None]) -> None:
    """Raise an error if settings were searched on rows of the test part; warn if that cannot be checked."""
    content = _content(path)
    told = content.get("searched")
    where = f"{content.get('data', 'unknown data')}, {content.get('split', 'unknown split')}"
    if told is not None and told.get("train") == split.full_train.fingerprint:
        return
    if told is None:
        warn(
            f"{path} does not say what it was tuned on; if that includes rows of this test part, the score is "
            "inflated"
        )
        return
    part = _part_again(data, told)
    if part is None:
        warn(
            f"{path} was tuned on other data ({where}); if that includes rows of this test part, the score "
            "is inflated"
        )
        return
    shared = part.pairs.overlap(split.test.pairs)
    if shared:
        raise DataError(
            f"{path} was tuned on {shared:,} of the {len(split.test.pairs):,} rows of this test part ({where}; "
            f"here {split.label}), so the score would be inflated; use that split, or run `purerec tune` on this one"
        )


def _part_again(data: Interactions, told: Mapping[str, Any]) -> Interactions | None:
    """The part that was searched on, if it was one of this data."""
    try:
        log = replace(data, positive_rating=told.get("positive_rating"))
        made = make_split(log, told["method"], seed=told["seed"], **told.get("parameters", {}))
    except (PurerecError, KeyError, TypeError):  # not a split of this data, or not written by us
        return None
    return made.full_train if made.full_train.fingerprint == told.get("train") else None


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """The settings of every model in a settings file."""
    return {name: dict(entry["settings"]) for name, entry in _content(path)["models"].items()}


def _content(path: Path) -> dict[str, Any]:
    content = read_toml(path, what="TOML as `purerec tune --out` writes it")
    if not isinstance(content.get("models"), dict):
        raise ConfigError(f"{path} has no settings under [models.NAME], where `purerec tune --out` writes them")
    try:
        checked(path, content, _File)
    except ConfigError as error:
        raise ConfigError(f"{error} (`purerec tune --out` writes such files)") from None
    return content


def check_target(path: Path) -> None:
    """Check, before a search, that settings may be written here. Only a settings file is ever replaced."""
    storage.check_file(path, makes_folders=True)
    if path.is_file() and path.stat().st_size and not path.read_bytes().startswith(_MARKER.encode()):
        raise ConfigError(f"{path} is not a settings file and was not changed; choose another name")


def kept_settings(path: Path, facts: Mapping[str, Any], models: Collection[str]) -> dict[str, Any]:
    """The entries of other models in a file, to be written again, each with the command that found it.

    Raises an error if they are of another search: the file says only once how settings were found.
    """
    if not path.is_file() or not path.stat().st_size:
        return {}
    content = _content(path)
    others = {name: entry for name, entry in content["models"].items() if name not in models}
    known = tomllib.loads("\n".join(_lines(facts)))
    for key in _OF_A_SEARCH if others else ():
        if content.get(key) != known.get(key):
            raise ConfigError(
                f"{path} has settings of {', '.join(others)} from another search ({key} was "
                f"{brief(content.get(key))}, now {brief(known.get(key))}) and was not changed; choose another name"
            )
    found_by = {key: content[key] for key in ("command", "purerec", "date") if key in content}
    return {name: found_by | entry for name, entry in others.items()}


def write_settings(path: Path, facts: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write how the settings were found (`facts`) and an entry for every model."""
    lines = [_HEAD, *_lines(facts)]
    for name in sorted(models, key=lambda name: ([*REGISTRY, name].index(name), name)):
        lines += ["", f"[models.{name}]", *_lines(models[name])]
    return storage.write_file(path, "\n".join(lines) + "\n")


def _lines(facts: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in facts.items() if value is not None]


def _value(value: Any) -> str:
    """A number, string, list or table as TOML, which has no null; configs accept 'none' instead."""
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
    """A JSON string is a TOML string, except for one character that JSON does not escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
