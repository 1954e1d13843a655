"""Single files.

A regular file is written under a temporary name and renamed when complete: an interrupted writer leaves nothing
behind, and an earlier file of that name is kept until then. A link is kept, and its target is replaced. Devices,
pipes, and the file that standard output goes to are written to directly.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from purerec.errors import StoreError
from purerec.storage.paths import AnyPath, followed, status, sync_folder, umask, why
from purerec.storage.temporary import temporary_file


def write_file(path: AnyPath, content: str | bytes) -> Path:
    """Write one file, creating its folder if necessary."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {why(error)}") from None
    with open_output(target) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return target


def check_file(path: AnyPath, *, makes_folders: bool = False) -> None:
    """Check that a file can be written here, before any work is done."""
    found = _writable(path)
    if found is None or stat.S_ISREG(found.st_mode):
        place = followed(path).parent
        while makes_folders and status(place) is None:
            place = place.parent
        try:
            with temporary_file(place):
                return
        except OSError as error:
            raise StoreError(f"cannot write {path}: {why(error)}") from None


@contextmanager
def open_output(path: AnyPath) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` at the end if there was no error."""
    found = _writable(path)
    try:
        if found is not None and is_written_through(found):
            with _as_it_is(path, found) as file:
                yield file
            return
        target = followed(path)
        with temporary_file(target.parent) as (work, file):
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.chmod(work, 0o666 & ~umask() if found is None else stat.S_IMODE(found.st_mode))
            file.close()
            os.replace(work, target)
        sync_folder(target.parent)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {why(error)}") from None


def is_written_through(found: os.stat_result) -> bool:
    """Return whether an existing file is written to directly, not replaced."""
    return not stat.S_ISREG(found.st_mode) or _standard_stream(found) is not None


def _as_it_is(path: AnyPath, found: os.stat_result) -> BinaryIO:
    fd = _standard_stream(found)
    if fd is None:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb")
    sys.stdout.flush()  # earlier output comes first
    return os.fdopen(os.dup(fd), "wb")


def _writable(path: AnyPath) -> os.stat_result | None:
    found = status(path)
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{path} is a folder; give the name of a file")
    if found is not None and not os.access(path, os.W_OK):
        raise StoreError(f"cannot write {path}: you may not write to it; choose another file")
    return found


def _standard_stream(found: os.stat_result) -> int | None:
    """The descriptor of standard output or error, if it is one of them, even if redirected to a file."""
    for fd in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(found, os.fstat(fd)):
                return fd
    return None
