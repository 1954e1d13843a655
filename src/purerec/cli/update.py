"""`purerec update`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purerec.cli.groups import ReadingWithTitles, warn_of_no_ratings
from purerec.cli.options import DataOpt, FolderArg, SeedOpt, command, epoch_lines, imports_of, note_compiling
from purerec.errors import ConfigError, counted
from purerec.output import console

if TYPE_CHECKING:
    from purerec.data.interactions import Interactions
    from purerec.models.contract.recommender import Recommender


def update(
    folder: FolderArg,
    data: DataOpt = None,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder to write to; give DIR to replace it.")],
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Passes over all positives, for models trained in epochs.")
    ] = None,
    seed: SeedOpt = 0,
    reading: ReadingWithTitles = ReadingWithTitles(),
) -> None:
    """Update a fitted model with new interactions, including new users and items.

    DATA has the new interactions only; the model remembers those it was fitted on. --items alone replaces the table
    of items, and changes nothing else.

    Examples:
      purerec update model today.csv --out model
      purerec update model today.csv --out model-tuesday --titles titles.csv
      purerec update model --items items.csv --out model
    """
    from purerec.models.contract.fitted_on import Stopwatch
    from purerec.models.registry import load_model
    from purerec.output.report import fit_report
    from purerec.storage import check_target, locked
    from purerec.training.run import Run

    if data is None and reading.items is None:
        raise ConfigError("give DATA, new interactions; or --items FILE, a new table of items")
    check_target(out, kind="model")  # before any work is done
    items = reading.item_table()
    with locked(out):  # locked before it is read: one of two concurrent updates would be lost
        model = load_model(folder)
        if data is None:
            assert items is not None
            model.set_items(items)
            written = _save_unchanged(model, folder, out)
            console.say(f"{written} now has the item table {reading.items}")
            return
        as_before = reading.min_rating is None and model.fitted_on.positive_rating is not None
        new = reading.load(data, explain_positives=not as_before)
        if as_before and new.rating is None:
            warn_of_no_ratings(data, model.fitted_on.positive_rating)
        before, pairs, watch = model.fitted_on.updated, len(model.known.touched), Stopwatch()
        run = Run(progress=console.progress(), callbacks=epoch_lines())
        model.update(_with_ids_of(model, new), seed=seed, epochs=epochs, run=run)
        if items is not None:
            model.set_items(items)  # it may be a table of the new ones
        facts = model.fitted_on.updated
        is_same, more = facts is None or facts == before, len(model.known.touched) - pairs
        if is_same:
            is_there = not more and items is None and out.resolve() == folder.resolve()
            written = out if is_there else _save_unchanged(model, folder, out)
        else:
            written = model.save(out, files={"report.html": fit_report(model).encode()})
    if facts is None or is_same:
        if more:
            console.say(
                f"{data} has no new positives for {folder}; lists of {written} now leave out "
                f"{counted(more, 'more pair')} rated too low to count"
            )
        else:
            console.say(f"{data} has nothing new for {folder}; the model in {written} is unchanged")
        return
    console.say(
        f"{model.name} updated with {counted(facts.new_positives, 'new positive')}, "
        f"{counted(facts.new_users, 'new user')} and {counted(facts.new_items, 'new item')} in "
        f"{facts.seconds:.2f} s, saved in {written}"
    )
    note_compiling(watch)
    last = model.users[len(model.users) - 1]
    console.note(f"next: {command('recommend', written, '--user', last, *imports_of(model))}")


def _save_unchanged(model: Recommender, folder: Path, out: Path) -> Path:
    """Save a model with its old parameters, and what is known about its fit: metrics, curves, report."""
    from purerec.output.report import fit_report
    from purerec.storage import read_manifest

    manifest, report = read_manifest(folder, kind="model"), folder / "report.html"
    page = report.read_bytes() if report.exists() else fit_report(model).encode()
    facts = {"metrics": manifest["metrics"]} if "metrics" in manifest else {}
    return model.save(out, files={"report.html": page}, **facts)


def _with_ids_of(model: Recommender, new: Interactions) -> Interactions:
    """Convert ids to text if the model's are: in a small file, all of them may be digits."""
    import polars as pl

    from purerec.data.vocabulary import Vocabulary

    def spelled(known: Vocabulary, found: Vocabulary) -> Vocabulary:
        as_text = found.is_integer and not known.is_integer
        return Vocabulary(found.ids.cast(pl.String), found.what) if as_text else found

    return replace(new, users=spelled(model.users, new.users), items=spelled(model.items, new.items))
