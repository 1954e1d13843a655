"""What is at a path; anything but 'something' or 'nothing' is an error with a clear message."""

from __future__ import annotations

import os
from pathlib import Path

from purerec.errors import StoreError

AnyPath = str | os.PathLike[str]


def why(error: Exception) -> str:
    """The reason of a failure, without the number and the path that Python puts around it."""
    return str(getattr(error, "strerror", None) or error)


def status(path: AnyPath) -> os.stat_result | None:
    """What a path, links followed, leads to; None: nothing."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot look at {path}: {why(error)}; choose another path") from None


def followed(path: AnyPath) -> Path:
    """Where a path leads: a link is kept, and what it points to is replaced."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot look at {path}: {why(error)}; choose another path") from None


def beside(path: AnyPath, suffix: str) -> Path:
    """The path of what is stored next to a folder."""
    # A path that is relative to the folder itself would lead nowhere once the folder is replaced.
    whole = Path(os.path.abspath(path) if Path.cwd().is_relative_to(followed(path)) else path)
    if not whole.name:
        raise StoreError(f"{path} cannot be written to; choose a new or empty folder")
    return whole.with_name(whole.name + suffix)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(path: Path) -> None:
    """Let the names in a folder reach the disk, where the system can do that."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(fd)
    except OSError:
        pass  # some file systems cannot; the names are there all the same
    finally:
        os.close(fd)
