"""`purerec reproduce`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from purerec.errors import ConfigError
from purerec.output import console


def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, or all, or everything.")],
    quick: Annotated[bool, typer.Option("--quick", help="ML-100k only, one seed, few values.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again even where results are stored.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("results"),
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a page with all tables, figures and verdicts.")
    ] = None,
) -> None:
    """Run the experiments behind tables and figures, and write their results files.

    `all` runs the experiments of the report: the paper's tables and figures, and those that test its claims.
    `everything` also runs those behind the default settings, which takes hours more.

    Finished results are stored, so that the same command continues after an interruption, and a second process with
    the same command shares the work.

    Examples:
      purerec reproduce table2
      purerec reproduce all --quick --out quick --report quick.html
    """
    from purerec.experiments import reproduce
    from purerec.experiments.cells.view import watching
    from purerec.experiments.compare import cell_store
    from purerec.storage import check_file

    specs = reproduce.chosen(names, quick=quick)  # reports errors before anything runs
    if report is not None:
        _check_report(report)
    for name in specs:
        check_file(reproduce.results_file(name, out), makes_folders=True)
    group = reproduce.group_of(names)
    if group is not None and (skipped := sorted(set(group) - set(specs))):
        console.note(f"left out, being slow or about larger data: {', '.join(skipped)}")
    store = cell_store(fresh=fresh)
    with watching() as watch:
        for name, found in reproduce.reproduce(names, quick=quick, store=store, watch=watch, tell=console.note):
            target = reproduce.results_file(name, out)
            console.write_json(found, str(target))
            console.note(f"{name}: written to {target}")
    if report is not None:
        # For a group, report everything with results in the folder: a quick run skips experiments on larger data.
        _write_report(report, out, specs if group is None else None)
        console.note(f"report: written to {report}")


def _check_report(path: Path) -> None:
    """Check that a report can be drawn and written, before hours of work."""
    from purerec.output.svg import check_can_draw
    from purerec.storage import check_file

    check_can_draw("a report")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"{path}: a report is an HTML page; choose a name that ends in .html")
    check_file(path, makes_folders=True)


def _write_report(path: Path, folder: Path, names: Collection[str] | None) -> None:
    """Write the page of these experiments, or of all with results in a folder."""
    from purerec import storage
    from purerec.experiments.provenance import in_words
    from purerec.output.study.report import study_report
    from purerec.output.study.results import read

    found = {name: each for name, each in read(folder).items() if names is None or name in names}
    sources = {name: in_words(each.get("provenance")) for name, each in found.items()}
    storage.write_file(path, study_report(found, sources))
