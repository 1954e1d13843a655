"""Temporary names of unfinished files and folders, and removing what dead processes left behind.

The writer holds a lock. A file with such a name and no lock was left behind and is removed by the next process that
writes next to it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from purerec.storage.locks import is_at, try_lock

_PREFIX, _SUFFIX = ".purerec-", ".partial"
_NAME = re.compile(r"\.purerec-\w{8}\.partial")


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A new folder, removed at the end with its content unless it has been renamed."""
    remove_leftovers(parent)
    path, fd = _claimed(lambda: _folder(parent))
    try:
        yield path
    finally:
        _remove(path)
        if fd is not None:
            os.close(fd)


@contextlib.contextmanager
def temporary_file(parent: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file, open for writing, removed at the end unless it has been renamed."""
    remove_leftovers(parent)
    path, fd = _claimed(lambda: _file(parent))
    file = os.fdopen(fd, "wb") if fd is not None else path.open("wb")
    try:
        yield path, file
    finally:
        try:
            file.close()
        finally:
            path.unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Give a folder a temporary name before removing it, in one step."""
    aside = _new_name(path.parent)
    os.rename(path, aside)  # onto an empty folder
    return aside


def remove_leftovers(parent: Path) -> None:
    """Remove what dead processes left in a folder, except what cannot be inspected or removed."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                with abandoned(Path(entry.path)) as is_abandoned:
                    if is_abandoned:
                        _remove(Path(entry.path))


@contextlib.contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """True if no live process holds this; it is then locked during the block. Without lock support: False."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        yield False
        return
    try:
        yield try_lock(fd) is True
    finally:
        os.close(fd)


def _claimed(make: Callable[[], tuple[Path, int | None]]) -> tuple[Path, int | None]:
    """Create something and lock it. If a cleanup removes it before it is locked, create another."""
    while True:
        path, fd = make()
        if fd is None:
            return path, None
        if try_lock(fd) is not False and is_at(path, fd):
            return path, fd
        os.close(fd)
        _remove(path)


def _new_name(parent: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=_PREFIX, suffix=_SUFFIX, dir=parent))


def _folder(parent: Path) -> tuple[Path, int | None]:
    path = _new_name(parent)
    try:
        return path, os.open(path, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return path, None


def _file(parent: Path) -> tuple[Path, int | None]:
    fd, name = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX, dir=parent)
    return Path(name), fd


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
