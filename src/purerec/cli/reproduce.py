"""`purerec reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from purerec.errors import ConfigError
from purerec.output import console


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds only, as a quick check.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results"),
) -> None:
    """Run the experiments behind a table and write its results file.

    Example: purerec reproduce table2 --quick
    """
    from purerec.data.catalog import cache_folder
    from purerec.experiments import reproduce
    from purerec.experiments.run import RunStore

    known = reproduce.names()
    chosen = known if names == ["all"] else names
    for name in chosen:
        if name not in known:
            raise ConfigError(f"there is no experiment {name!r}; there are {', '.join(known)} and all")
    for name in chosen:
        store = RunStore(cache_folder() / "runs" / name)
        if not resume:
            store.clear()
        found = reproduce.reproduce(name, quick=quick, store=store, tell=console.note)
        target = reproduce.results_file(name, out)
        console.write_json(found, str(target))
        store.clear()
        console.say(f"{name}: written to {target}")
