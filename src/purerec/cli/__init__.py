"""The command line: parse, call, print.

Exit codes: 0 done, 2 wrong use or bad input (one line that says what is wrong and what to do), 130 Ctrl-C, 1 anything
else. When the reader of a pipe closes it, the process ends silently by SIGPIPE.
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
