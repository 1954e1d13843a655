"""The state of a crew on disk: each process writes a file for each of its shards, and reads the rows it needs.

All processes must call each function together.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from purerec.errors import StoreError
from purerec.storage import Digests
from purerec.storage.state_parts import (
    SIDES,
    read_state_part,
    read_state_parts,
    side_of,
    state_part_name,
    write_state_part,
)
from purerec.types import F32, I64

if TYPE_CHECKING:
    from purerec.engines.distributed.crew import Crew


def write_parts(crew: Crew, folder: Path, generation: int) -> dict[str, str]:
    """Write all files; return their names and checksums."""
    digests = np.zeros((crew.schedule.n_shards, 32), np.uint8)
    with crew.group.together():
        for number, shard in crew.shards.items():
            path = folder / state_part_name(generation, number)
            digest = write_state_part(path, _ids(crew, number), dict(shard.rows(crew.blocks[number])))
            digests[number] = np.frombuffer(bytes.fromhex(digest), np.uint8)
    crew.group.add_up(digests)
    return {state_part_name(generation, number): bytes(row).hex() for number, row in enumerate(digests)}


def read_parts(crew: Crew, folder: Path, parts: Digests) -> None:
    """With as many shards as before, each process reads its own files; else it picks its rows from all files."""
    with crew.group.together():
        left = [number for number in crew.shards if not _take_own(crew, number, folder, parts)]
        missing = {(number, side): len(_ids(crew, number)[side]) for number in left for side in SIDES}
        for ids, tensors in read_state_parts(folder, parts) if left else ():
            for number in left:
                for side, taken in _take(crew, number, ids, tensors).items():
                    missing[number, side] -= taken
        if any(missing.values()):
            raise StoreError(f"{folder} does not have each user and item once; fit without --resume")


def _ids(crew: Crew, number: int) -> dict[str, I64]:
    return {"user": crew.shards[number].users, "item": crew.schedule.items(number)}


def _take_own(crew: Crew, number: int, folder: Path, parts: Digests) -> bool:
    """Read this shard's file if it has the same users and items; return whether it does."""
    if len(parts) != crew.schedule.n_shards:
        return False
    name, digest = list(parts.items())[number]
    ids, tensors = read_state_part(folder / name, digest)
    own = _ids(crew, number)
    if not all(np.array_equal(ids[side], own[side]) for side in SIDES):
        return False
    _take(crew, number, ids, tensors)
    return True


def _take(crew: Crew, number: int, ids: dict[str, I64], tensors: dict[str, F32]) -> dict[str, int]:
    """Copy the rows that belong here; return their number for each side."""
    rows, at = crew.shards[number].rows(crew.blocks[number]), {}
    if rows.keys() != tensors.keys():
        raise StoreError("the checkpoint was written with other settings; fit without --resume")
    for side, own in _ids(crew, number).items():
        _, here, there = np.intersect1d(own, ids[side], assume_unique=True, return_indices=True)
        at[side] = here, there
    for name, values in tensors.items():
        here, there = at[side_of(name)]
        if rows[name].shape[1:] != values.shape[1:]:
            raise StoreError(
                f"{name} has rows of {values.shape[1:]}, not {rows[name].shape[1:]}; fit without --resume"
            )
        rows[name][here] = values[there]
    return {side: len(here) for side, (here, _) in at.items()}
