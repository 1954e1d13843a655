"""docs/figures/NAME.svg from results/*.json: the figures of experiments/figures.toml that have results."""

from __future__ import annotations

from tables import ROOT

from purerec.output import svg
from purerec.output.study.figures import charts_of, figure_specs
from purerec.output.study.results import read

FOLDER = ROOT / "docs" / "figures"


def drawn() -> dict[str, str]:
    """The up-to-date content of each file, by name."""
    results = read(ROOT / "results")
    return {
        f"{spec.name}.svg": svg.file(charts, title=spec.title)
        for spec in figure_specs()
        if (charts := charts_of(spec, results))
    }


def stale(*, write: bool) -> list[str]:
    """The files that are out of date; with `write` they are rewritten."""
    wanted, there = drawn(), {path.name: path.read_text() for path in FOLDER.glob("*.svg")}
    differ = [name for name in sorted(wanted.keys() | there.keys()) if wanted.get(name) != there.get(name)]
    if write:
        FOLDER.mkdir(exist_ok=True)
        for name in differ:
            if name in wanted:
                (FOLDER / name).write_text(wanted[name])
            else:
                (FOLDER / name).unlink()
    return [f"figures/{name}" for name in differ]
