"""Lists for everybody as a folder of Parquet files, one for each partition of the users.

The worker of a partition writes its file under a temporary name and renames it. Files finished by an earlier run are
not redone; `lists.json` records the model and options of the files, so that different lists are never mixed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from purerec.errors import StoreError
from purerec.models.contract.recommender import Recommender
from purerec.output.tables import write_parts
from purerec.storage import MANIFEST, write_file
from purerec.storage.paths import AnyPath, why

ABOUT = "lists.json"
_MOST_USERS, _FEWEST_USERS, _USUAL = 50_000, 256, 16
"""Maximum and minimum users of a partition, and the usual number of partitions. Independent of the cluster, so that
another can continue."""


@dataclass(frozen=True)
class Partition:
    """Some of the users, by internal index."""

    number: int
    start: int
    stop: int

    @property
    def file(self) -> str:
        return f"part-{self.number:05d}.parquet"


def partitions(n_users: int) -> list[Partition]:
    """All users, each once."""
    n = max(math.ceil(n_users / _MOST_USERS), min(_USUAL, math.ceil(n_users / _FEWEST_USERS)), 1)
    cuts = [n_users * number // n for number in range(n + 1)]
    return [Partition(number, cuts[number], cuts[number + 1]) for number in range(n)]


def left_to_do(out: AnyPath, model_folder: AnyPath, n_users: int, options: Mapping[str, Any]) -> list[Partition]:
    """The partitions that are not yet in the folder; a new folder is initialised."""
    folder, parts = Path(out), partitions(n_users)
    try:
        made_of = hashlib.sha256(Path(model_folder, MANIFEST).read_bytes()).hexdigest()
    except OSError as error:
        raise StoreError(
            f"cannot read {model_folder}: {why(error)}; give a folder that `purerec fit` wrote"
        ) from None
    about = json.loads(json.dumps({"model": made_of, "users": n_users, "partitions": len(parts), "options": options}))
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; lists of all users are a folder, choose another name")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if ABOUT not in there:
        if there:
            raise StoreError(f"{folder} holds other files and is left as it is; choose a new or empty folder")
        write_file(folder / ABOUT, json.dumps(about, indent=2) + "\n")
        return parts
    if _about(folder / ABOUT) != about:
        raise StoreError(f"{folder} holds lists of another model, or with other options; choose another folder")
    return [part for part in parts if part.file not in there]


def write_partition(out: AnyPath, model: Recommender, part: Partition, k: int, options: Mapping[str, Any]) -> int:
    """Write the lists of some users; return the number of rows."""
    users = model.users.take(range(part.start, part.stop))
    return write_parts(Path(out) / part.file, model.recommend_blocks(users, k, **options))


def _about(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
