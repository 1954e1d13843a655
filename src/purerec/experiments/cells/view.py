"""The progress of a comparison: a live bar on a terminal, plain lines elsewhere, always on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from purerec.experiments.cells.limits import duration
from purerec.experiments.cells.work import Progress as Done
from purerec.experiments.cells.work import Watch
from purerec.output import console


@contextmanager
def watching() -> Iterator[Watch]:
    """A callback that shows the progress of a `Worklist`."""
    if console.err.is_terminal:
        with Progress(
            BarColumn(bar_width=24), TextColumn("{task.description}"), console=console.err, transient=True
        ) as bar:
            yield _Bar(bar, bar.add_task("", total=None))
    else:
        yield _say


def in_words(done: Done) -> str:
    """Cells done, running and left, and the estimated time."""
    parts = [f"{done.done} of {done.total} done"]
    if done.failed:
        parts.append(f"{done.failed} failed")
    if done.elsewhere:
        parts.append(f"{done.elsewhere} running elsewhere")
    if done.left and done.seconds_left is not None:
        parts.append(f"about {duration(done.seconds_left)} left")
    return ", ".join(parts)


def _say(done: Done) -> None:
    if done.line is not None:
        console.note(f"{done.line}  ({in_words(done)})")


class _Bar:
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self.bar, self.task = bar, task

    def __call__(self, done: Done) -> None:
        if done.problem and done.line is not None:
            self.bar.console.print(Text(console.printable(done.line), style="yellow"))
        running = "" if done.running is None else f"; now {done.running}"
        said = console.printable(f"{in_words(done)}{running}").replace("[", r"\[")
        self.bar.update(self.task, total=done.total, completed=done.done + done.failed, description=said)
