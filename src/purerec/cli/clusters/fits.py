"""Commands whose fits are shared by workers of a Ray cluster: `--on ray`, `--on ray://head:10001`.

Ray Train starts the workers, and restarts them if one dies. Each runs the same command, as if started by torchrun.
Data and models are in folders that all machines can see.
"""

from __future__ import annotations

import io
import os
import shutil
import socket
import sys
import uuid
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from purerec.cli.clusters.connecting import connected_to_ray
from purerec.cli.workers import ALONE, RESTARTS, as_worker
from purerec.errors import ConfigError, WorkerError
from purerec.output import console

_LOST = "another worker was lost"


def start_on_ray(address: str, n: int | None, out: Path) -> int:
    """Run this command with `n` workers of a cluster, or one per CPU; return the exit code."""
    with connected_to_ray(address, purpose="fitting on a cluster") as cpus:
        n = cpus if n is None else n
        if n < 1:
            raise ConfigError(f"--workers must be 1 or more, not {n}")
        if n > cpus:
            console.note(f"{n} workers need as many CPUs, and the cluster has {cpus}: waiting until it has more")
        return _fitted(n, out)


def _fitted(n: int, out: Path) -> int:
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    # Not in the home folder, Ray's default: all workers must see it.
    place = out.absolute().with_name(f".purerec-ray-{uuid.uuid4().hex[:12]}")
    environment = ALONE | {
        name: value for name, value in os.environ.items() if name.startswith(("PUREREC_", "GLOO_"))
    }
    trainer = DataParallelTrainer(
        _worker,
        train_loop_config={
            "words": sys.argv[1:],
            "folder": os.getcwd(),
            "place": str(place),
            "environment": environment,
        },
        scaling_config=ScalingConfig(num_workers=n),
        run_config=RunConfig(
            name="purerec",
            storage_path=str(place),
            failure_config=FailureConfig(max_failures=RESTARTS),
        ),
    )
    try:
        done = trainer.fit().return_value
    except TrainingFailedError as error:
        raise WorkerError(
            f"{first_failure(error)}, after {RESTARTS} restarts; free memory or use fewer workers, and run the "
            "command again with --resume"
        ) from None
    finally:
        ray.get(ray.remote(num_cpus=0)(_removed).remote(str(place)))
    sys.stdout.write(done["out"])
    sys.stderr.write(done["err"])
    return int(done["code"])


def first_failure(error: Any) -> str:
    failures = getattr(error, "worker_failures", None) or {}
    if not failures:
        return f"Ray could not run the workers ({_line(error)})"
    # Workers that lost another one know less than those that Ray lost, or that reported why they end.
    rank, failure = min(failures.items(), key=lambda found: (_LOST in str(found[1]), found[0]))
    return f"worker {rank} ended ({_line(failure)})"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _removed(place: str) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _worker(told: dict[str, Any]) -> dict[str, Any]:
    """One worker, in a Ray process, with the environment that torchrun would give it."""
    import ray
    from ray.train import get_context
    from ray.train.collective import broadcast_from_rank_zero

    context, meeting = get_context(), None
    if context.get_world_rank() == 0:
        attempts = Path(told["place"], "attempts")
        attempts.mkdir(parents=True, exist_ok=True)
        attempt = len(list(attempts.iterdir()))
        (attempts / str(attempt)).touch()
        meeting = {"host": ray.util.get_node_ip_address(), "port": _free_port(), "attempt": attempt}
    meeting = broadcast_from_rank_zero(meeting)
    os.environ |= {
        **told["environment"],
        "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()),
        "MASTER_ADDR": meeting["host"],
        "MASTER_PORT": str(meeting["port"]),
        "TORCHELASTIC_RUN_ID": told["place"],
        "TORCHELASTIC_RESTART_COUNT": str(meeting["attempt"]),
    }
    with suppress(OSError):  # a machine without this folder needs absolute paths
        os.chdir(told["folder"])
    sys.argv = ["purerec", *told["words"]]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = as_worker(import_module("purerec.cli.commands").run)  # by name, as torchrun does
    if code == WorkerError.exit_code:
        raise WorkerError(err.getvalue().strip() or _LOST)  # Ray restarts all of them
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])
