"""The commands, and how their errors are reported."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Annotated

import typer

from purerec import __version__
from purerec.cli.compare import compare
from purerec.cli.data import app as data
from purerec.cli.evaluate import evaluate
from purerec.cli.export import export
from purerec.cli.fit import fit
from purerec.cli.flags import PlainCommand, PlainGroup
from purerec.cli.groups import spread
from purerec.cli.ingest import ingest
from purerec.cli.models import models
from purerec.cli.recommend import recommend
from purerec.cli.reproduce import reproduce
from purerec.cli.serve import serve
from purerec.cli.tune import tune
from purerec.cli.update import update
from purerec.cli.workers import is_worker
from purerec.errors import PurerecError, WorkerError
from purerec.output import console
from purerec.output.streams import INTERRUPTED, OutputError

app = typer.Typer(
    name="purerec",
    cls=PlainGroup,
    help="Make recommendations from a log of interactions, and evaluate them honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data, name="data")
NAMES_OF_0_1 = {
    "fit": {"time-limit": "limit"},
    "recommend": {"users-file": "users", "items": "only"},
    "tune": {"fresh": "fresh-folds"},
}
"""Renamed options: both names are accepted, and the new one is shown. `--items` meant ids here but a file elsewhere,
`--fresh` folds here but a new run elsewhere."""


def _current_name(command: str) -> Callable[[str], str]:
    return lambda option: NAMES_OF_0_1.get(command, {}).get(option, option)


for command in (models, ingest, fit, update, export, evaluate, recommend, serve, compare, tune, reproduce):
    name = command.__name__
    app.command(name, cls=PlainCommand, context_settings={"token_normalize_func": _current_name(name)})(
        spread(command)
    )


def run() -> int:
    """Run the command line and return its exit code."""
    warnings.showwarning = lambda message, *_args, **_kwargs: console.warn(str(message))
    try:
        code = app(prog_name="purerec", standalone_mode=False)
        if code == INTERRUPTED:  # what typer returns for Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except typer.Exit as stop:
        return stop.exit_code
    except typer.TyperException as wrong:
        context = getattr(wrong, "ctx", None)
        if type(wrong).__name__ == "NoArgsIsHelpError":
            console.say(wrong.format_message())
            return 2
        console.fail(f"{wrong.format_message()} (see `{context.command_path if context else 'purerec'} --help`)")
        return 2
    except WorkerError as error:
        if is_worker():
            raise  # the workers decide together which of them reports it
        console.fail(error.at_command_line)
        return error.exit_code
    except PurerecError as error:
        console.fail(error.at_command_line)
        return 2
    except console.Interrupted as stop:
        if str(stop):
            console.err.print(str(stop))
        return INTERRUPTED
    except typer.Abort:
        raise KeyboardInterrupt from None
    except MemoryError:
        if is_worker():
            raise
        console.fail("out of memory; lower --memory-mb, or use fewer users, items or dimensions")
        return 1
    except OutputError:
        raise
    except Exception as error:
        if os.environ.get("PUREREC_TRACEBACK"):
            raise
        what = next(iter(getattr(error, "__notes__", [])), "internal error")  # names third-party code
        console.fail(f"{what}: {type(error).__name__}: {error} (PUREREC_TRACEBACK=1 shows where)")
        return 1


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    if show:
        console.say(f"purerec {__version__}")
        raise typer.Exit
