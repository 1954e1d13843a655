"""A state in parts, each written by a different process: one tensor file each, in a folder whose manifest lists all.

Rows are stored with their global ids (`user.ids`, `item.ids`), so that a different number of processes can read them.
The folder replaces the old one when all parts and the manifest are complete (`folders.new_folder`); until then, the
old set is kept. A set with a missing or damaged part, or a part of another set, is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from purerec.errors import StoreError
from purerec.storage.folders import write_tensors
from purerec.storage.paths import why
from purerec.storage.structure import Tensors, check_finite, check_sequence
from purerec.types import I64

Digests = Mapping[str, str]
"""The sha256 of each part, by the name of its file"""
SIDES = ("user", "item")


def state_part_name(generation: int, number: int) -> str:
    """Successive sets share no names, so that no part is mistaken for another set's."""
    return f"part-{generation:06d}-{number:05d}.safetensors"


def write_state_part(path: Path, ids: Mapping[str, I64], tensors: Tensors) -> str:
    """Write a part and return its sha256. `ids` are the ids of each side's rows."""
    try:
        return write_tensors(path, {**tensors, **{f"{side}.ids": own for side, own in ids.items()}})
    except OSError as error:
        raise StoreError(f"cannot write {path}: {why(error)}") from None


def read_state_part(path: Path, digest: str) -> tuple[dict[str, I64], Tensors]:
    """The ids of each side, and the rows."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read ({why(error)}): the checkpoint is torn; fit without --resume"
        ) from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise StoreError(
            f"{path} is not the part that the manifest names: the checkpoint is torn; fit without --resume"
        )
    try:
        tensors = load(content)
        ids = {side: tensors.pop(f"{side}.ids") for side in SIDES}
    except (SafetensorError, KeyError, ValueError) as error:
        raise StoreError(f"{path} is not a part of a checkpoint ({error}); fit without --resume") from None
    for side, own in ids.items():
        check_sequence(f"{side}.ids", own, np.int64)
    for name, rows in tensors.items():
        check_finite(name, rows)
        if len(rows) != len(ids[side_of(name)]):
            raise StoreError(f"{path}: {name} has {len(rows):,} rows, and there are {len(ids[side_of(name)]):,} ids")
    return ids, tensors


def side_of(name: str) -> str:
    """The side whose rows a tensor holds."""
    return name.partition("_")[0].partition("/")[0]


def check_complete(folder: Path, digests: Digests) -> None:
    """Raise an error if a part of a set is missing, before any process reads one."""
    if missing := [name for name in digests if not (folder / name).is_file()]:
        raise StoreError(f"{missing[0]} is missing, one of {len(digests)} parts: it is torn")


def read_state_parts(folder: Path, digests: Digests) -> Iterator[tuple[dict[str, I64], Tensors]]:
    """Read one part after another."""
    for name, digest in digests.items():
        yield read_state_part(folder / name, digest)


def whole_state(folder: Path, digests: Digests) -> Tensors:
    """All parts merged, for a fit in a single process."""
    parts = list(read_state_parts(folder, digests))
    sizes = {side: sum(len(ids[side]) for ids, _ in parts) for side in SIDES}
    for side, n in sizes.items():
        own = np.concatenate([ids[side] for ids, _ in parts])
        if not np.array_equal(np.sort(own), np.arange(n)):
            raise StoreError(f"its parts do not have each {side} once")
    whole: Tensors = {}
    for ids, tensors in parts:
        for name, rows in tensors.items():
            shape = (sizes[side_of(name)], *rows.shape[1:])
            whole.setdefault(name, np.zeros(shape, rows.dtype))[ids[side_of(name)]] = rows
    return whole
