"""`purerec export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from purerec.cli.options import FolderArg
from purerec.errors import counted
from purerec.output import console


def export(
    folder: FolderArg,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the vectors to.")],
    index: Annotated[
        bool, typer.Option("--index", help="Also an index for approximate search (extra `ann`).")
    ] = False,
) -> None:
    """Write users' and items' vectors as Parquet: their dot product is the score.

    Examples:
      purerec export model --out vectors
      purerec export model --out vectors --index
    """
    from purerec.models.registry import load_model
    from purerec.output.vectors import export_vectors

    found = export_vectors(load_model(folder), out, index=index)
    console.say(
        f"{counted(found.users, 'user')} and {counted(found.items, 'item')}, {counted(found.dim, 'number')} each, in "
        f"{found.path} (users.parquet, items.parquet)"
    )
    if found.recall is not None:
        console.say(f"index in {found.path}/items.usearch: recall@10 {found.recall:.3f} against exact search")
