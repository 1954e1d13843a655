"""`purerec models`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from purerec.output import console


def models(name: Annotated[str | None, typer.Argument(help="Show the settings of this model.")] = None) -> None:
    """The models, or the settings of one.

    Example: purerec models pure
    """
    from purerec.models.registry import REGISTRY, model_class

    if name is None:
        rows = [[n, (sys.modules[model_class(n).__module__].__doc__ or "").strip().splitlines()[0]] for n in REGISTRY]
        console.table(["model", "what it is"], rows)
        return
    fields = model_class(name).config_class.model_fields
    console.table(
        ["setting", "default", "meaning"],
        [[n, str(f.default), " ".join((f.description or "").split())] for n, f in fields.items()],
    )
