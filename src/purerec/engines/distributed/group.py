"""The processes of one fit, connected by torch.distributed (gloo).

They are started externally, by torchrun, Ray or Spark. The first one leads; the others follow its commands.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from purerec.errors import ConfigError, MissingExtraError, PurerecError, SharedError, WorkerError

if TYPE_CHECKING:
    from purerec.engines.distributed.reading import ReadTogether

TIMEOUT_S = 1800.0
"""How long a process waits for another, unless PUREREC_WORKER_TIMEOUT_S is set"""

OUT_OF_MEMORY = "out of memory; use more workers, a lower dim, or machines with more memory"
_LONGEST = 500
"""Maximum length of a reported problem, in bytes"""

Arrays = npt.NDArray[Any]


class Group:
    """A single process; `TorchGroup` is the same for several."""

    rank, size = 0, 1
    shards: int | None = None
    """Number of shards of a fit; None: one per process"""
    read: ReadTogether | None = None
    """In the first process: the data set that all have read, if there is one"""

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message from the first process to all."""

    def hear(self) -> dict[str, Any]:
        """Receive a message from the first process; only called by the others, and here there are none."""
        raise NotImplementedError("there is nobody to hear from")

    def exchange(self, out: list[tuple[int, int, Arrays]], into: list[tuple[int, int, Arrays]]) -> None:
        """Send and receive arrays concurrently; each is given as the other process, a tag, and the array."""

    def add_up(self, array: Arrays) -> None:
        """Replace an array with its sum over all processes."""

    def spread(self, array: Arrays, source: int) -> None:
        """Replace an array with that of the process `source`."""

    def close(self) -> None:
        """Leave the group."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """For work that each process does on its own: an error in one is raised in all, with the worker's name."""
        problem = ""
        try:
            yield
        except WorkerError:
            raise
        except PurerecError as error:
            problem = error.at_command_line
        except MemoryError:
            problem = OUT_OF_MEMORY
        told = self.said(f"{platform.node()}\0{problem}" if problem else "", _LONGEST)
        for rank, line in enumerate(told):
            host, _, what = line.partition("\0")
            if what:
                raise SharedError(f"worker {rank} on {host}: {what}")

    def said(self, line: str, longest: int) -> list[str]:
        """Collect a line from each process; all must call this together."""
        table = np.zeros((self.size, longest), np.uint8)
        content = line.encode(errors="replace")[:longest]
        table[self.rank, : len(content)] = np.frombuffer(content, np.uint8)
        self.add_up(table)
        return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in table]


class TorchGroup(Group):
    """The processes of torch.distributed."""

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def tell(self, message: dict[str, Any]) -> None:
        content = np.frombuffer(json.dumps(message).encode(), dtype=np.uint8).copy()
        self.spread(np.array([content.size]), 0)
        self.spread(content, 0)

    def hear(self) -> dict[str, Any]:
        size = np.zeros(1, np.int64)
        self.spread(size, 0)
        content = np.zeros(int(size[0]), np.uint8)
        self.spread(content, 0)
        found: dict[str, Any] = json.loads(content.tobytes())
        return found

    def exchange(self, out: list[tuple[int, int, Arrays]], into: list[tuple[int, int, Arrays]]) -> None:
        with _losses():
            self._exchange(out, into)

    def _exchange(self, out: list[tuple[int, int, Arrays]], into: list[tuple[int, int, Arrays]]) -> None:
        waiting = [self._dist.irecv(self._torch.from_numpy(a), src, tag=tag) for src, tag, a in into if a.size]
        waiting += [self._dist.isend(self._torch.from_numpy(a), dst, tag=tag) for dst, tag, a in out if a.size]
        for work in waiting:
            assert work is not None
            work.wait()

    def add_up(self, array: Arrays) -> None:
        with _losses():
            self._dist.all_reduce(self._torch.from_numpy(array))

    def spread(self, array: Arrays, source: int) -> None:
        with _losses():
            self._dist.broadcast(self._torch.from_numpy(array), source)

    def close(self) -> None:
        if self._dist.is_initialized():
            self._dist.destroy_process_group()


@contextmanager
def _losses() -> Iterator[None]:
    """Translate torch's errors when another process is gone or does not respond in time."""
    try:
        yield
    except RuntimeError as error:
        why = (str(error).strip().splitlines() or ["no answer"])[0]
        raise WorkerError(
            f"another worker was lost ({why[:160]}); the fit continues from its last checkpoint when the workers "
            "are restarted, or with --resume"
        ) from None


def connect() -> Group:
    """Join the group that this process was started in, according to torchrun's environment variables."""
    try:
        import torch.distributed as dist
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined] # public, but not in __all__
    except ImportError:
        raise MissingExtraError("torch", "torch", purpose="fitting with several workers") from None
    if not dist.is_initialized():
        try:
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"this process was not started by torchrun, Ray or Spark ({error} is not set)"
            ) from None
        timeout = timedelta(seconds=float(os.environ.get("PUREREC_WORKER_TIMEOUT_S", TIMEOUT_S)))
        agent_has_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        store = TCPStore(
            host, port, size, is_master=rank == 0 and not agent_has_store, timeout=timeout, wait_for_workers=False
        )
        # After a restart, the store still has the old keys, which no longer connect.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        named = PrefixStore(f"purerec/{attempt}", store)
        dist.init_process_group("gloo", store=named, rank=rank, world_size=size, timeout=timeout)
    group = TorchGroup()
    _check_versions(group)
    return group


def _check_versions(group: Group) -> None:
    """All processes must have the same versions; otherwise each raises an error that names the odd one."""
    from purerec import __version__

    own = f"purerec {__version__}, numpy {np.__version__}, {platform.machine()}"[:120]
    said = [line.rpartition("|") for line in group.said(f"{own}|{platform.node()}", 256)]
    for rank, (versions, _, host) in enumerate(said):
        if versions != said[0][0]:
            raise SharedError(
                f"worker {rank} on {host} has {versions}, and worker 0 on {said[0][2]} has {said[0][0]}; install the "
                "same versions on all machines"
            )


_current: Group | None = None


def current_group() -> Group | None:
    """The group that shares fits, if there is one."""
    return _current


@contextmanager
def sharing_with(group: Group) -> Iterator[None]:
    """Share fits inside the block with this group."""
    global _current
    before, _current = _current, group
    try:
        yield
    finally:
        _current = before
