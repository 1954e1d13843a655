"""Shell completion: names of models and of their settings."""

from __future__ import annotations

import typer

from purerec.errors import PurerecError


def complete_model(incomplete: str) -> list[str]:
    """Names of models that start with this."""
    from purerec.models.registry import REGISTRY, other_names

    try:
        others = other_names()
    except PurerecError:  # do not report errors during completion
        others = []
    return [name for name in (*REGISTRY, *others) if name.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    """The same for a comma-separated list: earlier names are kept."""
    before, comma, last = incomplete.rpartition(",")
    names = [name for name in complete_model(last) if name not in before.split(",")]
    return [before + comma + name for name in [*names, *(["all"] if not before and "all".startswith(last) else [])]]


def complete_setting(ctx: typer.Context, incomplete: str) -> list[str]:
    """`name=` for each setting of the models named before; after `=`, its possible values."""
    from purerec.models.registry import REGISTRY, model_class

    given = str(ctx.params.get("model") or ctx.params.get("models") or "")
    names = list(REGISTRY) if given in ("", "all") else given.split(",")
    try:
        found = [model_class(name.strip()).config_class.model_fields for name in names]
    except PurerecError:
        return []
    settings = {name: field.annotation for fields in found for name, field in fields.items()}
    setting, equals, value = incomplete.partition("=")
    if equals:
        return [f"{setting}={v}" for v in _values(settings.get(setting)) if v.startswith(value)]
    return [f"{name}=" for name in settings if name.startswith(setting)]


def _values(kind: object) -> list[str]:
    """The values of a setting, if there are only a few."""
    from typing import Literal, get_args, get_origin

    if kind is bool:
        return ["true", "false"]
    return [str(value) for value in get_args(kind)] if get_origin(kind) is Literal else []
