"""The command line: parse, call, print.

    commands        all commands, and how their errors are reported
    compare, data, evaluate, export, fit, ingest, models, recommend, reproduce, serve, tune, update    one each
    options         options that several commands share
    groups          groups of options that belong together
    flags           flags in help texts
    completing      shell completion
    paths           checks of the paths that commands read and write
    workers         fits that several processes share
    clusters/       commands on a Ray cluster

Exit codes: 0 done, 2 wrong use or bad input (one line that says what is wrong and what to do), 130 Ctrl-C, 1 anything
else. When the reader of a pipe closes it, the process ends silently by SIGPIPE.

May import errors to spark, in the order of CONTRIBUTING.md.
"""

from __future__ import annotations

import sys

from purerec.output.streams import INTERRUPTED, OutputError, abandon_output, end_as_a_broken_pipe_does, open_streams


def main() -> None:
    """Entry point: every error ends in one line and an exit code."""
    open_streams()
    sys.exit(_ended())


def _ended() -> int:
    try:
        from purerec.cli.commands import run  # imported here: Ctrl-C may come during the import
        from purerec.cli.workers import as_worker

        code = as_worker(run)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except OutputError as lost:
        if lost.nobody_reads:
            return end_as_a_broken_pipe_does()
        abandon_output()
        print(f"error: {lost}", file=sys.stderr)
        return 2
