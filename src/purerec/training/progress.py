"""Progress of a fit: a log of JSON lines, TensorBoard, and a progress bar."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerec.errors import ConfigError, MissingExtraError, StoreError

_SECONDS_BETWEEN = 0.1
"""Seconds between updates in a notebook: each one is a message"""

if TYPE_CHECKING:
    from purerec.training.history import Record
    from purerec.training.run import Callback, Run


@contextmanager
def log(run: Run, before: Sequence[Record]) -> Iterator[Callback]:
    """One JSON line per epoch, and TensorBoard, if requested; `before` holds the earlier epochs of a resumed run."""
    with ExitStack() as stack:
        writers: list[Callback] = []
        if run.log is not None:
            writers.append(stack.enter_context(_log_file(run.log, before)))
        if run.tensorboard is not None:
            writers.append(_tensorboard(run.tensorboard))

        def write_all(record: Record) -> None:
            for write in writers:
                write(record)

        yield write_all


@contextmanager
def _log_file(path: Path, before: Sequence[Record]) -> Iterator[Callback]:
    """The file holds each earlier epoch once, then the new ones."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
        if not path.is_file():
            before = ()  # the reader of a pipe already has them
    except OSError as error:
        raise ConfigError(f"cannot write the log {path}: {error.strerror or error}") from None

    def write_lines(records: Iterable[Record]) -> None:
        try:
            for record in records:
                file.write(json.dumps({k: v if _finite(v) else None for k, v in record.to_dict().items()}) + "\n")
            file.flush()
        except OSError as error:
            raise StoreError(f"cannot write the log {path}: {error.strerror or error}") from None

    try:
        write_lines(before)
        yield lambda record: write_lines([record])
    finally:
        with suppress(OSError):  # a failed write was reported when it was flushed
            file.close()


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _tensorboard(folder: Path) -> Callback:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtraError("tensorboard", "report,torch", purpose="writing TensorBoard logs") from None
    writer: Any = SummaryWriter(str(folder))

    def write(record: Record) -> None:
        for name, value in {**record.values, "seconds": record.seconds}.items():
            writer.add_scalar(name, value, record.epoch)
        writer.flush()

    return write


def progress(run: Run, epochs: int, start: int, metric: str) -> AbstractContextManager[Callback]:
    if not run.progress:
        return nullcontext(lambda record: None)
    from rich.console import Console

    return (_notebook_bar if Console().is_jupyter else _bar)(epochs, start, metric)


@contextmanager
def _notebook_bar(epochs: int, start: int, metric: str) -> Iterator[Callback]:
    """One line, updated in place without widgets: rich needs an extension for those that not every notebook has."""
    notebook: Any = import_module("IPython.display")

    def line(done: int, text: str) -> Any:
        return notebook.HTML(f"<progress value='{done}' max='{epochs}'></progress> {done}/{epochs} {escape(text)}")

    shown = notebook.display(line(start, "fitting"), display_id=True)
    last = 0.0

    def show(record: Record) -> None:
        nonlocal last
        done, now = record.epoch + 1, time.perf_counter()
        if now - last < _SECONDS_BETWEEN and done < epochs:
            return
        last = now
        values = {name: record.values[name] for name in ("loss", metric) if name in record.values}
        text = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
        shown.update(line(done, f"{record.phase} {text}"))

    yield show


@contextmanager
def _bar(epochs: int, start: int, metric: str) -> Iterator[Callback]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}{task.fields[score]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("fitting", total=epochs, completed=start, loss="-", score="")

        def show(record: Record) -> None:
            fields: dict[str, Any] = {"loss": f"{record.values.get('loss', math.nan):.4f}"}
            if metric in record.values:
                fields["score"] = f"  {metric} {record.values[metric]:.4f}"
            bar.update(task, advance=1, description=record.phase, **fields)

        yield show
