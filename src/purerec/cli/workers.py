"""Commands whose fits are shared by several processes.

`--workers 4` starts them on this machine; `torchrun -m purerec ...`, Ray and Spark start them on several. All run the
same command: the first does what a single process would do, and the others help it.
"""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerec.cli.paths import is_named
from purerec.data.memory import available_mb
from purerec.errors import ConfigError, MissingExtraError, PurerecError, SharedError, WorkerError, counted
from purerec.output import console
from purerec.output.streams import INTERRUPTED

if TYPE_CHECKING:
    from purerec.data.interactions import Interactions
    from purerec.engines.distributed.group import Group
    from purerec.engines.distributed.reading import ReadTogether
    from purerec.engines.distributed.roll import Roll

_EXIT_CODE = "PUREREC_EXIT_CODE"
"""The file where the first worker leaves its exit code: an error in the input must not cause a restart"""
RESTARTS = 3
_MOST = 1024
_SMALLEST_MB = 150.0
"""Memory of a worker before it has read any data, most of it for torch"""
_LOOK_S = 1.0
"""How often a worker checks that the process that started it is still alive"""
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
"""One core for each process"""


def is_worker() -> bool:
    """Return whether this process was started as one of several."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "RANK" in os.environ


def was_restarted() -> bool:
    """Return whether a worker died and all of them were restarted."""
    return is_worker() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def as_worker(run: Callable[[], int]) -> int:
    """Run a command: alone, as the first of several processes, or as a helper of the first."""
    if not is_worker():
        return run()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    is_first, roll = os.environ["RANK"] == "0", None
    if not is_first and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first one saves its work and tells the others when to stop
    try:
        group, roll = _met()
        code = _led(group, run) if is_first else _helped(group)
        if code == WorkerError.exit_code:
            roll.tell()  # the command has reported it
    except SharedError as error:  # the first reports it for all
        if not is_first:
            return 0
        console.fail(error.at_command_line)
        code = 2
    except WorkerError as error:
        line = error.at_command_line if is_first else None
        if roll is not None:
            line = roll.loss(error.at_command_line)
        if line is not None:
            console.fail(line)
        code = WorkerError.exit_code
    except PurerecError as error:  # only in this process, such as a missing package
        console.fail(error.at_command_line)
        code = 2
    except MemoryError:
        from purerec.engines.distributed.group import OUT_OF_MEMORY

        code = _failed(OUT_OF_MEMORY, roll)
    except Exception as error:
        if is_first or os.environ.get("PUREREC_TRACEBACK"):
            raise
        code = _failed(f"internal error: {type(error).__name__}: {error} (PUREREC_TRACEBACK=1 shows where)", roll)
    if is_first and (place := os.environ.get(_EXIT_CODE)) and code in (0, 2, INTERRUPTED):
        Path(place).write_text(str(code))
        return 0
    return code


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone: nothing else would stop or restart it."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(WorkerError.exit_code)


def _met() -> tuple[Group, Roll]:
    from purerec.engines.distributed.group import connect
    from purerec.engines.distributed.roll import Roll

    group = connect()
    return group, Roll.call(group)


def _led(group: Group, run: Callable[[], int]) -> int:
    from purerec.engines.distributed.group import sharing_with

    with sharing_with(group):
        code = run()
    if code != WorkerError.exit_code:
        group.tell({"do": "end"})
        group.close()
    return code


def _helped(group: Group) -> int:
    from purerec.engines.distributed.helping import serve  # imports libraries whose versions have now been checked

    serve(group)
    group.close()  # otherwise its threads abort the process
    return 0


def _failed(why: str, roll: Roll | None) -> int:
    """Report an error in one line that names this worker; return the exit code."""
    console.fail(f"worker {os.environ['RANK']} on {platform.node()}: {why}")
    if roll is not None:
        roll.tell()
    return WorkerError.exit_code


def read_together(source: str, positive_rating: float | None) -> tuple[Interactions, ReadTogether] | None:
    """A data set in parts, of which each worker has read its own; None if it cannot be shared."""
    from purerec.data.large.dataset import Dataset
    from purerec.data.large.places import Place
    from purerec.engines.distributed.group import current_group
    from purerec.engines.distributed.reading import lead_reading

    group = current_group()
    if group is None or is_named(source) or (data := Dataset.open(Place(source))) is None:
        return None
    if data.n_parts < group.size:
        console.note(
            f"{source} has {counted(data.n_parts, 'part')}, fewer than workers: the first worker reads all of it; "
            f"ingest it with --partitions {group.size} or more"
        )
        return None
    log, group.read = lead_reading(group, data, positive_rating)
    return log, group.read


def rows_read() -> dict[str, Any]:
    """For the record of a fit: the rows that all workers have read, of which the first only has the positives."""
    from purerec.engines.distributed.group import current_group

    group = current_group()
    assert group is not None
    assert group.read is not None
    return {"interactions": group.read.rows, "positive_rating": group.read.positive_rating}


def start_workers(n: int) -> int:
    """Run this command in this many processes on this machine; return the exit code."""
    if not 1 <= n <= _MOST:
        raise ConfigError(f"--workers must be from 1 to {_MOST}, not {n}")
    try:
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    except ImportError:
        raise MissingExtraError("torch", "torch", purpose="fitting with several workers") from None
    room_mb = available_mb()
    if room_mb is not None and n * _SMALLEST_MB > room_mb:
        raise ConfigError(
            f"{n} workers need at least {n * _SMALLEST_MB / 2**10:.1f} GB of memory, and {room_mb / 2**10:.1f} GB "
            f"are free; use at most {max(1, int(room_mb / _SMALLEST_MB))}, ideally one for each core"
        )
    logging.disable(logging.CRITICAL)  # torchrun would repeat what a worker has already reported
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first worker saves its work
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGTERM"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "code")
        os.environ |= {
            **{name: os.environ.get(name, value) for name, value in ALONE.items()},
            _EXIT_CODE: str(place),
        }
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=n,
            run_id=f"purerec-{os.getpid()}",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=RESTARTS,
            monitor_interval=0.2,
            start_method="spawn",
        )
        try:
            elastic_launch(config, sys.executable)("-m", "purerec", *sys.argv[1:])
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            died = f"signal {-failure.exitcode}" if failure.exitcode < 0 else f"exit code {failure.exitcode}"
            raise WorkerError(
                f"worker {rank} of {n} ended with {died}, after {RESTARTS} restarts; free memory or use fewer "
                "workers, and run the command again with --resume"
            ) from None
        except SignalException as stop:  # `timeout`, or a machine shutting down: the workers have been stopped
            console.fail(f"stopped by {stop.sigval.name}; --resume continues from the last checkpoint, if any")
            return 128 + stop.sigval
        with suppress(OSError, ValueError):
            return int(place.read_text())
        return 1
