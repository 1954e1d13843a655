"""TOML files in which every key is known: a misspelt one is an error that names the key that was meant."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from purerec.errors import ConfigError, did_you_mean, first_problem


class TomlTable(BaseModel):
    """A table in which every key is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


AnyTable = TypeVar("AnyTable", bound=TomlTable)


def read_toml(path: Path, *, what: str = "TOML") -> dict[str, Any]:
    """The content of a file; `what` it should be, for errors."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not {what}: it is not UTF-8 text") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not {what}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not {what}: it is nested too deeply") from None


def checked(path: Path, content: Mapping[str, Any], kind: type[AnyTable]) -> AnyTable:
    """The content as a table of this kind."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{path}: {_problem(error, kind)}") from None


def _problem(error: ValidationError, kind: type[BaseModel]) -> str:
    # Report a misspelt key before the missing one that it was meant to be.
    first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    if first["type"] != "extra_forbidden":
        return first_problem(error)
    *place, key = first["loc"]
    known = _table_at(kind, place).model_fields
    return f"unknown key {'.'.join(map(str, first['loc']))!r}; {did_you_mean(str(key), known)}"


def _table_at(kind: type[BaseModel], place: Sequence[int | str]) -> type[BaseModel]:
    """The kind of table at a place; numbers and names within it lead to entries of lists and dicts."""
    for key in place:
        field = kind.model_fields.get(key) if isinstance(key, str) else None
        kind = kind if field is None else next(_tables(field.annotation), kind)
    return kind


def _tables(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _tables(inner)
