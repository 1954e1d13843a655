"""`purerec recommend --all --on ray`: lists for everybody, with Ray Data.

The model is loaded once, and each machine has one copy in memory, shared by all of its workers. Ray replaces a worker
that dies, and its partition is redone.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from purerec.cli.clusters.connecting import check_same, connected_to_ray, failures_of_ray, versions
from purerec.cli.workers import ALONE
from purerec.errors import counted
from purerec.output import console


def lists_on_ray(address: str, folder: Path, out: Path, k: int, options: dict[str, Any]) -> None:
    """Write the lists of all users to a folder; existing files are kept."""
    with connected_to_ray(address, purpose="lists on a cluster") as cpus:
        import ray

        with failures_of_ray("run the command again: finished files are kept"):
            model = ray.remote(num_cpus=0)(_loaded).remote(str(folder.absolute()))
            begun = ray.remote(num_cpus=0)(_begun)
            n_users, parts = ray.get(begun.remote(model, str(folder.absolute()), str(out.absolute()), k, options))
            # Run it on the cluster: Ray Data does not work in a process that is only connected to one (ray://...).
            made = ray.remote(num_cpus=0)(_made).remote(cpus, [model], str(out.absolute()), parts, k, options)
            rows = sum(row["rows"] for row in ray.get(made))
    done = (
        f"{counted(rows, 'recommendation')} in {counted(len(parts), 'file')}" if parts else "nothing was left to do"
    )
    console.say(f"{done}: lists for {counted(n_users, 'person', 'people')} are in {out}")


def _made(
    cpus: int, model: list[Any], out: str, parts: list[dict[str, int]], k: int, options: dict[str, Any]
) -> list[dict[str, Any]]:
    if not parts:
        return []
    import ray

    # If actors held every CPU, Ray Data itself would have none and wait forever.
    actors = max(1, min(cpus - 1, len(parts)))
    found: list[dict[str, Any]] = (
        ray.data.from_items(parts, override_num_blocks=len(parts))
        .map(
            _Lists,
            fn_constructor_args=(model, out, k, options, versions()),
            compute=ray.data.ActorPoolStrategy(size=actors),
            num_cpus=1 if cpus > 1 else 0.5,
        )
        .take_all()
    )
    return found


def _loaded(folder: str) -> Any:
    from purerec.models.registry import load_model

    return load_model(folder)


def _begun(model: Any, folder: str, out: str, k: int, options: dict[str, Any]) -> tuple[int, list[dict[str, int]]]:
    """The number of users, and the partitions that are left to do."""
    from purerec.output.partitions import left_to_do

    n = len(model.users)
    if n:  # report wrong options before anything is written
        next(iter(model.recommend_blocks(model.users.take([0]), k, **options)))
    return n, [asdict(part) for part in left_to_do(out, folder, n, {"k": k, **options})]


class _Lists:
    """A worker that computes partitions one after another."""

    def __init__(self, model: list[Any], out: str, k: int, options: dict[str, Any], expected: str) -> None:
        os.environ |= ALONE
        check_same(expected)
        import ray

        self._model, self._out, self._k, self._options = ray.get(model[0]), out, k, options

    def __call__(self, row: dict[str, int]) -> dict[str, int]:
        from purerec.output.partitions import Partition, write_partition

        part = Partition(**row)
        return row | {"rows": write_partition(self._out, self._model, part, self._k, self._options)}
