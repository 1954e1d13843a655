"""Standard streams that may be closed, full, or without a reader.

Python's own streams can fail in three ways: None instead of a stream, errors on any write, and messages at shutdown.
After `open_streams`, a failed write to standard output raises an `OutputError`, and one to standard error is ignored.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import Any, TextIO

INTERRUPTED = 130
"""Exit code after Ctrl-C"""


class OutputError(Exception):
    """Standard output cannot be written. Not an OSError: those concern files and are handled where they occur."""

    def __init__(self, cause: OSError) -> None:
        closed = cause.errno == errno.EBADF
        why = "it is closed" if closed else cause.strerror
        super().__init__(f"standard output cannot be written: {why}; send it somewhere else")
        self.nobody_reads = cause.errno == errno.EPIPE


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            raise OutputError(error) from None


class _Errors(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def open_streams() -> None:
    """Make descriptors 0 to 2 safe to use, whatever the process was started with."""
    if os.name != "posix":
        return
    # Closed descriptors would be reused by the next files opened. The replacement for standard output is not writable
    # either, so that a lost answer is an error, not a success.
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            _point(number, mode)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _stream(_Output(1, "wb", closefd=False), sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _stream(_Errors(2, "wb", closefd=False), sys.stderr)


def abandon_output() -> None:
    """Discard output that could not be written; otherwise Python would try again at exit."""
    _point(1, os.O_WRONLY)


def end_as_a_broken_pipe_does() -> int:
    """End like other programs whose reader is gone (`| head`): silently, by SIGPIPE."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
    return 128 + signal.SIGPIPE  # only if SIGPIPE is blocked


def _point(number: int, mode: int) -> None:
    nowhere = os.open(os.devnull, mode)
    if nowhere == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(nowhere, number)
        os.close(nowhere)


def _stream(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    as_it_was = before if isinstance(before, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=as_it_was.encoding if as_it_was else "utf-8",
        errors=as_it_was.errors if as_it_was else "backslashreplace",
        line_buffering=as_it_was.line_buffering if as_it_was else True,
        write_through=as_it_was.write_through if as_it_was else False,
    )
