"""The command line: parse, call, print.

Exit codes: 0 done, 2 wrong use or bad input (one line that says what is wrong and what to do), 1 anything else.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from typing import Annotated

import typer

from purerec import __version__, console
from purerec.cli import data, evaluating, fitting, growing, recommending, serving, tuning
from purerec.cli.groups import spread
from purerec.errors import PurerecError

app = typer.Typer(
    name="purerec",
    help="Recommendations from a log of who touched what, and an honest score for them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
for command in (
    fitting.models,
    fitting.fit,
    growing.update,
    growing.export,
    evaluating.evaluate,
    recommending.recommend,
    serving.serve,
    evaluating.compare,
    tuning.tune,
    evaluating.reproduce,
):
    app.command(command.__name__)(spread(command))


def main() -> None:
    """Entry point: every error ends in one line and an exit code."""
    warnings.showwarning = lambda message, *_args, **_kwargs: console.warn(str(message))
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `purerec ... | head` ends quietly
    sys.exit(_run())


def _run() -> int:
    try:
        code = app(standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
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
    except PurerecError as error:
        console.fail(error.at_command_line)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        console.err.print("interrupted")
        return 1
    except MemoryError:
        console.fail("out of memory; lower --memory-mb, or use fewer users, items or dimensions")
        return 1
    except Exception as error:
        if os.environ.get("PUREREC_TRACEBACK"):
            raise
        console.fail(f"internal error: {type(error).__name__}: {error} (PUREREC_TRACEBACK=1 shows where)")
        return 1


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)] = False,
) -> None:
    if show:
        console.say(f"purerec {__version__}")
        raise typer.Exit
