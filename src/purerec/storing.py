"""Folders that hold a fitted model or a split: `manifest.json` and `tensors.safetensors`. No pickle.

A folder is written under a temporary name and renamed when it is complete, so that a reader never sees half of
it. The manifest has the sha256 of the tensors: a damaged or truncated folder is an error, not a wrong number.

A service takes a `Snapshot` instead: the tensors, checked, in an unnamed file in memory that several processes map.
Nothing that happens to the folder afterwards (a file cut short in place would kill whoever has mapped it) reaches
them.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from purerec.errors import StoreError
from purerec.interactions import Interactions
from purerec.vocabulary import Vocabulary

FORMAT = 1
"""Version of the folder format. A reader takes its own and older ones."""

Array = npt.NDArray[Any]
Tensors = dict[str, Array]
MANIFEST, TENSORS = "manifest.json", "tensors.safetensors"


@dataclass(frozen=True)
class Stored:
    """What was found in a folder."""

    manifest: dict[str, Any]
    tensors: Tensors


def write_folder(
    path: str | os.PathLike[str],
    *,
    kind: str,
    manifest: Mapping[str, Any],
    tensors: Mapping[str, Array],
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a complete folder, replacing an earlier one of ours. Another folder with content is left alone."""
    from purerec import __version__

    target = Path(path)
    check_target(target)
    with new_folder(target) as work:
        head = {
            "format": FORMAT,
            "kind": kind,
            "purerec": __version__,
            "tensors_sha256": _write_tensors(work / TENSORS, tensors),
            **manifest,
        }
        for name, content in {
            **(files or {}),
            MANIFEST: (json.dumps(head, indent=2, ensure_ascii=False) + "\n").encode(),
        }.items():
            _write_synced(work / name, content)
    return target


def _write_tensors(path: Path, tensors: Mapping[str, Array]) -> str:
    """Write the tensors without a second copy of them in memory, and give back the sha256 of the file."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        # Not ascontiguousarray, which would give a single number a dimension.
        save_file({name: np.asarray(array, order="C") for name, array in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
    path.chmod(0o666 & ~_umask())  # safetensors keeps its files to their owner
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder with a temporary name, to be filled; at the end it takes the place of `path`, if all went well."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise StoreError(f"cannot write to {target.parent}: {error.strerror or error}") from None
    try:
        yield work
        work.chmod(0o777 & ~_umask())
        _swap(work, target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}; nothing was changed") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def read_folder(path: str | os.PathLike[str], *, kind: str) -> Stored:
    """Read a folder that `write_folder` wrote; anything else is a clear error."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    folder = Path(path)
    manifest = read_manifest(folder, kind=kind)
    try:
        payload = (folder / TENSORS).read_bytes()
    except OSError as error:
        raise StoreError(f"{folder}: {TENSORS} cannot be read ({error.strerror}); save the model again") from None
    _check_digest(folder, hashlib.sha256(payload).hexdigest(), manifest)
    try:
        return Stored(manifest, load(payload))
    except (SafetensorError, ValueError) as error:
        raise StoreError(f"{folder}: {TENSORS} is not readable ({error}); fit again") from None


@dataclass(frozen=True)
class Snapshot:
    """A folder whose tensors are held, complete and checked, by an open unnamed file."""

    manifest: dict[str, Any]
    fd: int

    def close(self) -> None:
        """Give the file up; those who have mapped it keep what they have."""
        os.close(self.fd)

    def map(self) -> Stored:
        """The tensors as arrays in memory that all processes share as long as none of them writes to it."""
        # Private rather than read-only: kernels are compiled for arrays that may be written to.
        pages = mmap.mmap(self.fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        return Stored(self.manifest, _tensors_in(memoryview(pages)))


def take_snapshot(path: str | os.PathLike[str], *, kind: str) -> Snapshot:
    """Copy a folder's tensors into an unnamed file, checked as `read_folder` does."""
    folder = Path(path).resolve()  # once: a link that is changed meanwhile must not mix two models
    manifest = read_manifest(folder, kind=kind)
    fd = os.memfd_create("purerec") if hasattr(os, "memfd_create") else _unnamed_file()
    try:
        digest = hashlib.sha256()
        with (folder / TENSORS).open("rb") as source, os.fdopen(os.dup(fd), "wb") as copy:
            while chunk := source.read(1 << 22):
                digest.update(chunk)
                copy.write(chunk)
        _check_digest(folder, digest.hexdigest(), manifest)
        snapshot = Snapshot(manifest, fd)
        snapshot.map()
    except BaseException as error:
        os.close(fd)
        if isinstance(error, OSError):
            raise StoreError(f"{folder}: {TENSORS} cannot be read ({error.strerror}); save the model again") from None
        if isinstance(error, ValueError | KeyError | TypeError):
            raise StoreError(f"{folder}: {TENSORS} is not readable ({error}); fit again") from None
        raise
    return snapshot


def _unnamed_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_DTYPES = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1"}
_DTYPES |= {"U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?"}


def _tensors_in(view: memoryview) -> Tensors:
    """The arrays of a safetensors file in place: its length of header (8 bytes), header in JSON, then the data."""
    start = 8 + int.from_bytes(view[:8], "little")
    if start > len(view):
        raise ValueError("its header is longer than the file")
    tensors: Tensors = {}
    for name, about in json.loads(bytes(view[8:start])).items():
        if name == "__metadata__":
            continue
        dtype, shape = np.dtype(_DTYPES[about["dtype"]]), tuple(about["shape"])
        begin, end = (start + offset for offset in about["data_offsets"])
        if not start <= begin <= end <= len(view) or end - begin != dtype.itemsize * math.prod(shape):
            raise ValueError(f"tensor {name!r} does not fit into the file")
        array = np.frombuffer(view[begin:end], dtype=dtype).reshape(shape)
        tensors[name] = array if array.flags.aligned else array.copy()
    return tensors


def _check_digest(folder: Path, found: str, manifest: Mapping[str, Any]) -> None:
    if found != manifest.get("tensors_sha256"):
        raise StoreError(
            f"{folder}: {TENSORS} is damaged or truncated (its checksum differs from the manifest's); "
            "restore it from a copy or fit again"
        )


def read_manifest(path: str | os.PathLike[str], *, kind: str) -> dict[str, Any]:
    """The manifest of a folder, checked for kind and format."""
    folder = Path(path)
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise StoreError(f"{folder} {what}; give a folder written by `purerec fit --out` or model.save()")
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{folder} has no {MANIFEST}: it is not a purerec folder, or only half of one") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder}: {MANIFEST} is damaged ({error})") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise StoreError(f"{folder}: {MANIFEST} was not written by purerec")
    if manifest["format"] > FORMAT:
        raise StoreError(
            f"{folder} has format {manifest['format']}, written by purerec {manifest.get('purerec')}; "
            f"this version reads up to {FORMAT}: upgrade purerec"
        )
    if manifest.get("kind") != kind:
        raise StoreError(f"{folder} holds a {manifest.get('kind')!r}, not a {kind!r}")
    return manifest


def write_file(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write one file under a temporary name and rename it."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from None
    work = Path(name)
    try:
        _write_synced(work, content.encode() if isinstance(content, str) else content)
        work.chmod(0o666 & ~_umask())
        work.replace(target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        work.unlink(missing_ok=True)
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def check_target(path: str | os.PathLike[str]) -> None:
    """Whether a folder may be written here: nothing that is not ours is ever replaced."""
    target = Path(path)
    if not target.exists():
        return
    if not target.is_dir():
        raise StoreError(f"{target} is a file; choose another folder to save to")
    if any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise StoreError(f"{target} holds other files and is left as it is; choose a new or empty folder")


def _swap(work: Path, target: Path) -> None:
    if not target.exists():
        work.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    try:
        target.rename(old / "old")
        work.rename(target)
    finally:
        if not target.exists() and (old / "old").exists():
            (old / "old").rename(target)
        shutil.rmtree(old, ignore_errors=True)


# ---------------------------------------------------------------------- ids and logs as tensors


def pack_strings(name: str, values: pl.Series) -> Tensors:
    """Strings as one run of UTF-8 bytes and the end of each; nulls are told apart by a mask."""
    filled = values.cast(pl.String).fill_null("")
    tensors: Tensors = {
        f"{name}.bytes": np.frombuffer("".join(filled.to_list()).encode(), dtype=np.uint8),
        f"{name}.ends": np.cumsum(filled.str.len_bytes().to_numpy(), dtype=np.int64),
    }
    if values.null_count():
        tensors[f"{name}.null"] = values.is_null().to_numpy().astype(np.uint8)
    return tensors


def unpack_strings(name: str, tensors: Mapping[str, Array]) -> pl.Series:
    raw = tensors[f"{name}.bytes"].tobytes()
    ends = tensors[f"{name}.ends"].tolist()
    null = tensors.get(f"{name}.null")
    strings: list[str | None] = [raw[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
    if null is not None:
        strings = [None if is_null else text for text, is_null in zip(strings, null.tolist(), strict=True)]
    return pl.Series(strings, dtype=pl.String)


def pack_vocabulary(vocabulary: Vocabulary) -> Tensors:
    if vocabulary.is_integer:
        return {f"{vocabulary.what}.ids": vocabulary.ids.to_numpy()}
    return pack_strings(f"{vocabulary.what}.ids", vocabulary.ids)


def unpack_vocabulary(what: Literal["user", "item"], tensors: Mapping[str, Array]) -> Vocabulary:
    whole = tensors.get(f"{what}.ids")
    if whole is not None:
        return Vocabulary(pl.Series(whole, dtype=pl.Int64), what)
    return Vocabulary(unpack_strings(f"{what}.ids", tensors), what)


def pack_interactions(data: Interactions) -> tuple[dict[str, Any], Tensors]:
    """A log as JSON-ready facts and tensors."""
    tensors = pack_vocabulary(data.users) | pack_vocabulary(data.items)
    tensors |= {"log.user": data.user_idx, "log.item": data.item_idx}
    if data.rating is not None:
        tensors["log.rating"] = data.rating
    if data.timestamp is not None:
        tensors["log.timestamp"] = data.timestamp
    if data.item_labels is not None:
        tensors |= pack_strings("item.labels", data.item_labels)
    return {"name": data.name, "positive_rating": data.positive_rating, "time_unit": data.time_unit}, tensors


def unpack_interactions(facts: Mapping[str, Any], tensors: Mapping[str, Array]) -> Interactions:
    return Interactions(
        unpack_vocabulary("user", tensors),
        unpack_vocabulary("item", tensors),
        tensors["log.user"],
        tensors["log.item"],
        tensors.get("log.rating"),
        tensors.get("log.timestamp"),
        facts["time_unit"],
        facts["positive_rating"],
        unpack_strings("item.labels", tensors) if "item.labels.ends" in tensors else None,
        facts["name"],
    )
