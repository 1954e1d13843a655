"""A folder's tensors, checked, in an unnamed file in memory that several processes map.

Later changes to the folder do not affect them. (Truncating a mapped file in place would kill the process.)
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from purerec.errors import StoreError
from purerec.storage.folders import Stored, check_digest, recover_quietly
from purerec.storage.manifests import TENSORS, read_manifest
from purerec.storage.paths import AnyPath, followed, status, why
from purerec.storage.structure import Tensors


@dataclass(frozen=True)
class Snapshot:
    """A folder whose tensors are kept, complete and checked, in an open unnamed file."""

    manifest: dict[str, Any]
    fd: int

    def close(self) -> None:
        """Close the file; existing mappings stay valid."""
        os.close(self.fd)

    def map(self) -> Stored:
        """The tensors as arrays in memory, shared by all processes as long as none of them writes to it."""
        # Private rather than read-only: kernels are compiled for arrays that may be written to.
        pages = mmap.mmap(self.fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        return Stored(self.manifest, _tensors_in(memoryview(pages)))


def take_snapshot(path: AnyPath, *, kind: str) -> Snapshot:
    """Copy a folder's tensors into an unnamed file, with the checks of `read_folder`."""
    folder = followed(path)  # only once: a link that changes in the meantime must not mix two models
    if status(folder) is None:
        recover_quietly(folder)
    manifest = read_manifest(folder, kind=kind)
    fd = os.memfd_create("purerec") if hasattr(os, "memfd_create") else _unnamed_file()
    try:
        digest = hashlib.sha256()
        with (folder / TENSORS).open("rb") as source, os.fdopen(os.dup(fd), "wb") as copy:
            while chunk := source.read(1 << 22):
                digest.update(chunk)
                copy.write(chunk)
        check_digest(folder, digest.hexdigest(), manifest)
        snapshot = Snapshot(manifest, fd)
        snapshot.map()
    except BaseException as error:
        os.close(fd)
        if isinstance(error, OSError):
            raise StoreError(f"{folder}: {TENSORS} cannot be read ({why(error)}); save the model again") from None
        if isinstance(error, ValueError | KeyError | TypeError | AttributeError | RecursionError):
            raise StoreError(f"{folder}: {TENSORS} is not readable ({error}); fit again") from None
        raise
    return snapshot


def _unnamed_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_DTYPES = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1"}
_DTYPES |= {"U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?"}


def _tensors_in(view: memoryview) -> Tensors:
    """The arrays of a safetensors file in place: the header's length (8 bytes), the header in JSON, then the data."""
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
