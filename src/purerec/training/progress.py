"""Progress of a fit: a log of JSON lines, TensorBoard, and a progress bar."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerec.errors import ConfigError, MissingExtraError, StoreError

if TYPE_CHECKING:
    from purerec.training.history import Record
    from purerec.training.run import Callback, Run


@contextmanager
def log(run: Run, before: Sequence[Record]) -> Iterator[Callback]:
    """One JSON line per epoch, and TensorBoard, if requested; `before` are the epochs of a resumed run."""
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
    """The file holds the earlier epochs, each once, then those that follow."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
        if not path.is_file():
            before = ()  # the reader of a pipe has had them
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
    return _bar(epochs, start, metric)


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
