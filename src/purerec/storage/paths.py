"""What is at a path; if it cannot be determined, raises an error with a clear message."""

from __future__ import annotations

import os
from pathlib import Path

from purerec.errors import StoreError

AnyPath = str | os.PathLike[str]


def why(error: Exception) -> str:
    """The reason for a failure, without the number and path that Python adds."""
    return str(getattr(error, "strerror", None) or error)


def status(path: AnyPath) -> os.stat_result | None:
    """The status of a path, with links followed; None if there is nothing."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot look at {path}: {why(error)}; choose another path") from None


def followed(path: AnyPath) -> Path:
    """The target of a path: links are kept, and their target is replaced."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot look at {path}: {why(error)}; choose another path") from None


def beside(path: AnyPath, suffix: str) -> Path:
    """The path of what is stored next to a folder."""
    # A path relative to the folder itself would be invalid once the folder is replaced.
    whole = Path(os.path.abspath(path) if Path.cwd().is_relative_to(followed(path)) else path)
    if not whole.name:
        raise StoreError(f"{path} cannot be written to; choose a new or empty folder")
    return whole.with_name(whole.name + suffix)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk, if the system supports it."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(fd)
    except OSError:
        pass  # some file systems cannot; the names exist anyway
    finally:
        os.close(fd)
