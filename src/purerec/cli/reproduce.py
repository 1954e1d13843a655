"""`purerec reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from purerec.output import console


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="ML-100k only, one seed, few values.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure anew what is stored, too.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results"),
) -> None:
    """Run the experiments behind tables and figures, and write their results files.

    What is finished is stored, so that the same command goes on after an interruption, and a second process with the
    same command shares the work.

    Examples:
      purerec reproduce table2
      purerec reproduce all --quick --out quick
    """
    from purerec.experiments import reproduce
    from purerec.experiments.cells.view import watching
    from purerec.experiments.compare import cell_store
    from purerec.storage import check_file

    specs = reproduce.chosen(names, quick=quick)  # what is wrong with them is said before anything is run
    for name in specs:
        check_file(reproduce.results_file(name, out), makes_folders=True)
    if names == ["all"] and (skipped := sorted(set(reproduce.names()) - set(specs))):
        console.note(f"left out, being about larger data: {', '.join(skipped)}")
    store = cell_store(fresh=fresh)
    with watching() as watch:
        for name, found in reproduce.reproduce(names, quick=quick, store=store, watch=watch, tell=console.note):
            target = reproduce.results_file(name, out)
            console.write_json(found, str(target))
            console.note(f"{name}: written to {target}")
