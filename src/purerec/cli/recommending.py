"""`purerec recommend`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from purerec import console
from purerec.cli.options import JsonOpt
from purerec.errors import ConfigError


def recommend(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by `purerec fit`.")],
    user: Annotated[list[str] | None, typer.Option("--user", help="A user id; may be repeated.")] = None,
    history: Annotated[
        str | None, typer.Option("--history", metavar="ITEM,ITEM", help="Items that a new person liked.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items.")] = 10,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Also items that the user has already.")
    ] = False,
    json: JsonOpt = None,
) -> None:
    """The best items for users of the training data, or for a new person with a history.

    Examples:
      purerec recommend model --user 196 --user 22 -k 5
      purerec recommend model --history 50,181
    """
    from purerec.models import load_model

    if (not user) == (history is None):
        raise ConfigError("give either --user ID (may be repeated) or --history ITEM,ITEM")
    model = load_model(folder)
    if user:
        found = model.recommend(user, k=k, exclude_seen=not include_seen)
    else:
        items = [part.strip() for part in (history or "").split(",") if part.strip()]
        found = model.recommend_for(items, k=k, exclude_seen=not include_seen)
    if json:
        console.write_json(found.to_dicts(), json)
    if json != "-":
        order = [c for c in ("user", "rank", "item", "label", "score") if c in found.columns]
        console.table(
            order,
            [[_id_text(c, v) for c, v in zip(order, row, strict=True)] for row in found.select(order).rows()],
        )


def _id_text(column: str, value: Any) -> Any:
    return str(value) if column in ("user", "item") and value is not None else value
