"""`purerec models`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from purerec.cli.completing import complete_model
from purerec.output import console


def models(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings of this model.", autocompletion=complete_model)
    ] = None,
) -> None:
    """List models or a model's settings.

    Example: purerec models pure
    """
    from purerec.models.contract.model_folder import class_path
    from purerec.models.registry import REGISTRY, model_class, other_names

    if name is None:
        rows = [[n, _first_line(sys.modules[model_class(n).__module__].__doc__)] for n in REGISTRY]
        rows += [[n, f"{_first_line(model_class(n).__doc__)} ({class_path(model_class(n))})"] for n in other_names()]
        console.table(["model", "what it is"], rows)
        return
    fields = model_class(name).config_class.model_fields
    console.table(
        ["setting", "default", "meaning"],
        [[n, str(f.default), " ".join((f.description or "").split())] for n, f in fields.items()],
    )


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
