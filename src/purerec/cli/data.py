"""`purerec data`: named data sets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from purerec.cli.flags import PlainCommand, PlainGroup
from purerec.cli.groups import Reading, spread
from purerec.cli.options import DataArg, JsonOpt
from purerec.cli.paths import is_named
from purerec.output import console

NameArg = Annotated[str, typer.Argument(metavar="NAME", help="A name from `purerec data list`.")]

app = typer.Typer(cls=PlainGroup, help="Named data sets: list them, show one, fetch one.", no_args_is_help=True)


@app.command("list", cls=PlainCommand)
@spread
def data_list(json: JsonOpt = None) -> None:
    """List the named data sets.

    Example: purerec data list
    """
    from purerec.data import catalog

    rows = [catalog.describe(name) for name in catalog.CATALOG]
    if json:
        console.write_json(rows, json)
        return
    console.table(
        ["name", "users", "items", "interactions", "split", "here", "title"],
        [[r[key] for key in ("name", "users", "items", "interactions", "split", "here", "title")] for r in rows],
    )


@app.command("show", cls=PlainCommand)
@spread
def data_show(name: DataArg, reading: Reading, json: JsonOpt = None) -> None:
    """Show statistics of a data set; for a named one, also the paper's Table 1, licence and source.

    Examples:
      purerec data show ml-1m
      purerec data show clicks.csv
    """
    from purerec.data import catalog

    data = reading.load(name)
    facts: dict[str, Any] = {"name": data.name, **catalog.statistics(data)}
    entry = catalog.describe(name) if is_named(name) else None
    if entry is not None:
        facts |= {key: entry[key] for key in ("title", "licence", "homepage", "paper")}
    if json:
        console.write_json(facts, json)
        return
    printed = (entry or {}).get("paper") or {}
    rows = [[what, facts[what], printed.get(what)] for what in ("users", "items", "interactions", "positives")]
    rows.append(
        ["density", f"{facts['density']:.2%}", f"{printed['density']:.2%}" if printed.get("density") else None]
    )
    headings = [data.name, "here", "paper's Table 1"][: 2 if entry is None else 3]
    console.table(headings, [[_text(c) for c in row[: len(headings)]] for row in rows])
    if entry is not None:
        for key in ("title", "licence", "homepage"):
            console.say(f"{key}: {entry[key]}")


def _text(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


@app.command("get", cls=PlainCommand)
@spread
def data_get(name: NameArg) -> None:
    """Fetch a data set into the cache and say where it is.

    Example: purerec data get ml-100k
    """
    from purerec.data import catalog

    console.say(str(catalog.fetch(name, progress=console.progress())))
