"""Folders that hold a fitted model, a split, a checkpoint or a run: `manifest.json` and `tensors.safetensors`.

A folder is written under a temporary name and renamed when complete, so a reader never sees a partial one. The
manifest has checksums of the tensors and of itself: a damaged or truncated folder gives an error, not wrong numbers.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from purerec.errors import ConfigError, StoreError
from purerec.storage.manifests import MANIFEST, TENSORS, marker, read_manifest, write_manifest, write_synced
from purerec.storage.paths import AnyPath, followed, status, umask, why
from purerec.storage.structure import Tensors
from purerec.storage.swapping import put_in_place, recover
from purerec.storage.temporary import remove_leftovers, set_aside, temporary_folder
from purerec.types import Array

_READS = 3
"""Attempts to read a folder that is replaced while being read"""


@dataclass(frozen=True)
class Stored:
    """The content of a folder."""

    manifest: dict[str, Any]
    tensors: Tensors


def write_folder(
    path: AnyPath,
    *,
    kind: str,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, Array],
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a complete folder, replacing an earlier one of the same kind; `files` are extra files, by plain name."""
    for name in files or {}:
        _check_name(name)
    with new_folder(path, kind=kind) as work:
        for name, content in (files or {}).items():
            write_synced(work / name, content)
        complete_folder(work, kind=kind, manifest=manifest, tensors=tensors)
    return Path(path)


def complete_folder(work: Path, *, kind: str, manifest: Mapping[str, Any], tensors: Mapping[str, Array]) -> None:
    """Write the tensors and, last, the manifest, which lists all files in the folder."""
    digest = write_tensors(work / TENSORS, tensors)
    write_manifest(work, kind=kind, facts=manifest, tensors_sha256=digest)


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> str:
    """Write the tensors without a second copy in memory; return the sha256 of the file."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        # Not ascontiguousarray, which would make a scalar one-dimensional.
        save_file({name: np.asarray(array, order="C") for name, array in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
    path.chmod(0o666 & ~umask())  # safetensors makes its files readable only by the owner
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def new_folder(path: AnyPath, *, kind: str) -> Iterator[Path]:
    """A folder with a temporary name, to be filled; it replaces `path` at the end if there was no error."""
    check_target(path, kind=kind)
    target = followed(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        recover(target)
        with temporary_folder(target.parent) as work:
            yield work
            before = check_target(path, kind=kind)  # again: it may have changed in the meantime
            work.chmod(0o777 & ~umask() if before is None else stat.S_IMODE(before.st_mode))
            put_in_place(work, target)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {why(error)}; nothing was changed") from None


def check_target(path: AnyPath, *, kind: str) -> os.stat_result | None:
    """Check that a folder may be written here: only a folder of the same kind, without other files, is replaced."""
    found = status(path)
    if found is None:
        return None
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{path} is a file; choose another folder to save to")
    try:
        names = set(os.listdir(path))
    except OSError as error:
        raise StoreError(f"cannot look into {path}: {why(error)}; choose another folder") from None
    if not names:
        return found
    known = marker(Path(path))
    if known is None:
        raise StoreError(f"{path} holds other files and is left as it is; choose a new or empty folder")
    if known[0] != kind:
        raise StoreError(f"{path} holds a {known[0]!r}, not a {kind!r}, and is left as it is; choose another folder")
    if strange := names - known[1]:
        raise StoreError(
            f"{path} holds other files, such as {min(strange)!r}, and is left as it is; move them, or choose another "
            "folder"
        )
    return found


def remove_folder(path: AnyPath, *, kind: str) -> None:
    """Remove a purerec folder, if there is one, in one step: a reader never sees a partial one."""
    target = followed(path)
    recover_quietly(target)
    if check_target(path, kind=kind) is None:
        return
    try:
        set_aside(target)
    except OSError as error:
        raise StoreError(f"cannot remove {path}: {why(error)}") from None
    remove_leftovers(target.parent)


def discard(path: AnyPath) -> None:
    """Remove a folder that only purerec uses, such as one in its cache, with all its content, in one step."""
    target = followed(path)
    if status(target) is None:
        return
    with suppress(OSError):
        set_aside(target)
    remove_leftovers(target.parent)


def read_folder(path: AnyPath, *, kind: str) -> Stored:
    """Read a folder written by `write_folder`; anything else raises a clear error."""
    folder = followed(path)
    if status(folder) is None:
        recover_quietly(folder)
    for left in reversed(range(_READS)):
        before = status(folder)
        try:
            return _read(Path(path), kind)
        except StoreError:
            after = status(folder)
            replaced = before is not None and after is not None and not os.path.samestat(before, after)
            if not replaced or not left:
                raise
    raise AssertionError


def _read(folder: Path, kind: str) -> Stored:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    manifest = read_manifest(folder, kind=kind)
    try:
        payload = (folder / TENSORS).read_bytes()
    except OSError as error:
        raise StoreError(f"{folder}: {TENSORS} cannot be read ({why(error)}); save the model again") from None
    check_digest(folder, hashlib.sha256(payload).hexdigest(), manifest)
    try:
        return Stored(manifest, load(payload))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{folder}: {TENSORS} is not readable ({error}); fit again") from None


def recover_quietly(folder: Path) -> None:
    """Like `recover`, but without an error for a reader that may not write."""
    with suppress(OSError):
        recover(folder)


def check_digest(folder: Path, found: str, manifest: Mapping[str, Any]) -> None:
    if found != manifest.get("tensors_sha256"):
        raise StoreError(
            f"{folder}: {TENSORS} is damaged or truncated (its checksum differs from the manifest's); "
            "restore it from a copy or fit again"
        )


def _check_name(name: str) -> None:
    if name in (MANIFEST, TENSORS):
        raise ConfigError(f"{name!r} is written by purerec itself; give the file another name")
    if name in ("", ".", "..") or set(name) & set("/\\\0:") or os.path.basename(name) != name:
        raise ConfigError(f"{name!r} is not a plain file name; give one without a folder")
