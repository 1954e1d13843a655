"""Locks that the system releases when a process ends, however it ends."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from purerec.errors import StoreError
from purerec.storage.paths import AnyPath, followed, why

if sys.platform == "win32":

    def try_lock(fd: int) -> bool | None:
        """True: locked; False: another process has it; None: locks are not supported here."""
        return None

else:
    import fcntl

    def try_lock(fd: int) -> bool | None:
        """True: locked; False: another process has it; None: locks are not supported here."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True


@contextlib.contextmanager
def locked(path: AnyPath) -> Iterator[None]:
    """Keep other purerec processes from replacing `path` during the block; raise an error if one is doing so.

    The lock is a file next to the path, removed together with the lock. On a file system without locks, nothing is
    locked.
    """
    with claimed(path) as is_ours:
        if not is_ours:
            target = followed(path)
            raise StoreError(
                f"another purerec process is writing {target}; wait until it is done, or choose another folder"
            )
        yield


@contextlib.contextmanager
def claimed(path: AnyPath) -> Iterator[bool]:
    """Claim `path` for the duration of the block; False if another process has it. A claim ends with its process."""
    target = followed(path)
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]  # the name itself may be too long
    file = target.parent / f".purerec-{name}.lock"
    fd = _acquire(file)
    if fd is None:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
        os.close(fd)


def _acquire(file: Path) -> int | None:
    """An open, locked file; None if another process has the lock."""
    while True:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(f"cannot write to {file.parent}: {why(error)}; choose another folder") from None
        got = try_lock(fd)
        if got is False:
            os.close(fd)
            return None
        if got is None or is_at(file, fd):
            return fd
        os.close(fd)  # the previous owner has just removed the file


def is_at(path: Path, fd: int) -> bool:
    """Return whether an open file still has this name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except OSError:
        return False
