"""Clusters for commands: `--on ray` starts one on this machine, `--on ray://head:10001` uses a running one."""

from __future__ import annotations

import logging
import os
import platform
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from purerec.errors import ConfigError, MissingExtraError, PurerecError, SharedError, WorkerError

OnOpt = Annotated[
    str | None,
    typer.Option("--on", metavar="CLUSTER", help="ray, or the address of a Ray cluster such as ray://head:10001."),
]
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # sends no statistics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_worker_niceness": "0",  # 15 by default: on a busy machine, workers would make no progress
}

_ATTEMPTS = 3
"""A head sometimes fails to start its server for a client, and succeeds the next time (ray-project/ray#63202)"""


@contextmanager
def connected_to_ray(address: str, *, purpose: str) -> Iterator[int]:
    """Connect to a Ray cluster, or to a temporary one for the duration of the block; yields its number of CPUs."""
    if address != "ray" and not address.startswith("ray://"):
        raise ConfigError(f"--on takes ray, or an address such as ray://head:10001, not {address!r}")
    is_own = address == "ray" and "RAY_ADDRESS" not in os.environ
    if "ray" not in sys.modules:  # Ray reads its settings on import
        settings = _QUIET | _authentication(is_own=is_own)
        os.environ |= {name: os.environ.get(name, value) for name, value in settings.items()}
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", purpose=purpose) from None
    if ray.is_initialized():  # already connected by the caller
        yield int(ray.cluster_resources().get("CPU", 0))
        return
    try:
        _connect(
            # Not None, which would use any cluster still running on this machine.
            address="local" if is_own else None if address == "ray" else address,
            include_dashboard=False if is_own else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"cannot connect to {address} ({_why(error)}); check that the cluster runs there; if it asks for a "
            "token, set RAY_AUTH_TOKEN"
        ) from None
    try:
        yield int(ray.cluster_resources().get("CPU", 0))
    finally:
        ray.shutdown()


def _connect(**settings: object) -> None:
    import ray

    for _ in range(_ATTEMPTS - 1):
        with suppress(ConnectionAbortedError):
            ray.init(**settings)
            return
    ray.init(**settings)


def _why(error: Exception) -> str:
    """One line: the last line of Ray's traceback."""
    told = str(error)
    return " ".join((told.strip().splitlines()[-1] if "Traceback" in told else told).split())[:200]


def _authentication(*, is_own: bool) -> dict[str, str]:
    if "RAY_AUTH_MODE" in os.environ:
        return {}
    if is_own:  # Only this process may use its cluster. By default, Ray would keep a token in the home folder.
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    # If there is a token, `ray start` requires it, and a client does not send it by default.
    is_set = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    return {"RAY_AUTH_MODE": "token"} if is_set or Path("~/.ray/auth_token").expanduser().exists() else {}


@contextmanager
def failures_of_ray(remedy: str) -> Iterator[None]:
    """Translate Ray's errors when a worker fails or is lost."""
    from ray.exceptions import RayError, RayTaskError

    try:
        yield
    except RayTaskError as error:
        if (told := _told(error, RayError)) is not None:
            raise told from None
        if isinstance(error.cause, MemoryError):
            raise WorkerError(
                f"worker {error.pid} on {error.ip}: out of memory; use machines with more memory, and {remedy}"
            ) from None
        raise
    except RayError as error:
        why = " ".join(str(error).split())[:200]
        raise WorkerError(f"Ray lost a worker ({why}); free memory, and {remedy}") from None


def _told(error: BaseException | None, of_ray: type[BaseException]) -> PurerecError | None:
    """purerec's own error inside Ray's."""
    while error is not None:
        if isinstance(error, PurerecError) and not isinstance(error, of_ray):
            return error
        error = getattr(error, "cause", None) or error.__cause__
    return None


def versions() -> str:
    """The versions that must be the same on all machines for identical results."""
    import numpy as np

    from purerec import __version__

    return f"purerec {__version__}, numpy {np.__version__}"


def check_same(expected: str) -> None:
    """In a worker: raise an error if its versions differ from the caller's."""
    if versions() != expected:
        raise SharedError(
            f"the worker on {platform.node()} has {versions()}, and others have {expected}; install the same "
            "versions on all machines"
        )
