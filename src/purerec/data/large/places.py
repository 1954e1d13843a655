"""Files and folders on this machine, or at any URL that fsspec supports (s3://, gs://, abfs://, file://)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from purerec.data.text.contents import check_file, reason, shown
from purerec.errors import MissingExtraError, ReadError

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.I)


def is_url(source: str) -> bool:
    return bool(_URL.match(source))


@dataclass(frozen=True)
class Place:
    """A file or a folder."""

    address: str
    """A path, or a URL"""

    def __str__(self) -> str:
        return shown(self.address)

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.address.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        return self.address.rstrip("/").rsplit("/", 1)[-1]

    @property
    def path(self) -> Path:
        """The path on this machine."""
        return Path(self.address)

    def open(self) -> BinaryIO:
        """Open for reading bytes."""
        if not is_url(self.address):
            check_file(self.path)
        try:
            if not is_url(self.address):
                return self.path.open("rb")
            system, path = self._remote()
            return cast("BinaryIO", system.open(path, "rb"))
        except FileNotFoundError:
            raise ReadError(f"{self}: there is no such file; check the address") from None
        except Exception as error:  # a storage library may raise anything
            raise self._unreachable(error) from None

    def read(self) -> bytes:
        with self.open() as file:
            return file.read()

    def names(self) -> list[str] | None:
        """The names in a folder, sorted; None if it is not a folder."""
        try:
            if not is_url(self.address):
                folder = self.path
                return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else None
            system, path = self._remote()
            if not system.isdir(path):
                return None
            return sorted(str(found).rstrip("/").rsplit("/", 1)[-1] for found in system.ls(path, detail=False))
        except Exception as error:
            raise self._unreachable(error) from None

    def version(self) -> dict[str, Any]:
        """Facts that identify a version of a file: its size, and its modification time if known."""
        if not is_url(self.address):
            check_file(self.path)
            found = self.path.stat()
            return {"size": found.st_size, "written": found.st_mtime_ns}
        try:
            system, path = self._remote()
            facts = system.info(path)
        except FileNotFoundError:
            raise ReadError(f"{self}: there is no such file; check the address") from None
        except Exception as error:
            raise self._unreachable(error) from None
        return {"size": int(facts.get("size") or 0), "written": str(facts.get("ETag") or facts.get("mtime"))}

    def write(self, content: bytes) -> None:
        """Write the whole file at once, at a URL."""
        try:
            system, path = self._remote()
            system.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            system.pipe_file(path, content)
        except Exception as error:
            raise ReadError(
                f"{self}: cannot be written ({reason(error)}); check the address and its rights"
            ) from None

    def _remote(self) -> tuple[Any, str]:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtraError("fsspec", "ingest", purpose=f"reaching {self}") from None
        try:
            system, path = url_to_fs(self.address)
        except ImportError as error:  # names the package for this protocol
            raise ReadError(f"{self}: {reason(error)}") from None
        return system, str(path)

    def _unreachable(self, error: Exception) -> Exception:
        if isinstance(error, ReadError | MissingExtraError):
            return error
        if not is_url(self.address):
            return ReadError(f"{self}: cannot be opened ({reason(error)}); check the path and its permissions")
        return ReadError(f"{self}: cannot be read ({reason(error)}); check the address and its rights")
