"""`purerec ingest`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from purerec.cli.groups import FileColumns
from purerec.cli.options import command
from purerec.errors import counted
from purerec.output import console

if TYPE_CHECKING:
    from purerec.storage.ingest.ingest import IngestProgress


def ingest(
    files: Annotated[list[str], typer.Argument(metavar="FILES...", help="CSV or Parquet files, folders or URLs.")],
    out: Annotated[str, typer.Option("--out", help="Folder or URL to write the data set to.")],
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="Parts to spread the users over; 16, or more for large files.")
    ] = None,
    memory_mb: Annotated[float, typer.Option("--memory-mb", help="Roughly how much memory to use.")] = 1000,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    columns: FileColumns = FileColumns(),
) -> None:
    """Turn files of any size into a data set that is read in parts, in little memory.

    Examples:
      purerec ingest clicks-*.csv.gz --out clicks
      purerec ingest s3://bucket/2024/ --user visitor --item sku --out clicks
      purerec fit clicks --model pure --out model
    """
    from purerec.data.catalog import CATALOG
    from purerec.storage.ingest.ingest import files_in
    from purerec.storage.ingest.ingest import ingest as run

    columns.tell_found(files_in(files)[0].address)  # the others have the same columns
    with _bar() as progress:
        try:
            found = run(
                files,
                out,
                **columns.given,
                encoding=columns.encoding,
                partitions=partitions,
                memory_mb=memory_mb,
                resume=resume,
                progress=progress,
            )
        except KeyboardInterrupt:
            raise console.Interrupted("interrupted; run it again with --resume to continue") from None
    console.say(
        f"{counted(found.facts.rows, 'interaction')} of {counted(found.n_users, 'user')} and "
        f"{counted(found.n_items, 'item')} in {counted(found.n_parts, 'part')}, written to {out}"
    )
    folder = f"./{out}" if out in CATALOG else out  # a name alone would be that data set
    console.note(f"next: {command('fit', folder, '--model', 'pure', '--out', 'model')}")


@contextmanager
def _bar() -> Iterator[IngestProgress | None]:
    """Show a progress line on a terminal; nothing elsewhere."""
    if not console.err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console.err) as bar:
        task = bar.add_task("reading", total=None)

        def show(stage: str, done: int, whole: int) -> None:
            bar.update(task, description=stage, completed=done, total=whole)

        yield show
