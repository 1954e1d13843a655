"""Commands as forks of one process that has already imported the libraries; see `conftest.purerec`.

A command that does little spends its time importing numpy, numba, scipy, polars and purerec itself. A fork has them
from the start, and is otherwise a separate process: arguments, environment, folder, streams, exit code.
`test_package` and the tests of streams, signals and services start new processes, which must find what they need.

    python command_forks.py SOCKET      the process that forks; it ends when the other end of its socket is closed
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

LARGEST = 1 << 17
"""Bytes of a request: arguments and environment."""


class CommandForks:
    """The client's end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno())], pass_fds=[other.fileno()], stdin=subprocess.DEVNULL
            )

    def run(
        self, args: Sequence[str], env: Mapping[str, str], stdout: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """What `subprocess.run([python, "-m", "purerec.cli", *args], capture_output=True, text=True)` returns.

        Given a descriptor for standard output, only standard error is captured.
        """
        request = json.dumps({"args": args, "env": dict(env), "cwd": os.getcwd()}).encode()
        assert len(request) <= LARGEST
        pipes = [os.pipe() for _ in ("out", "err")]
        with self._lock, ThreadPoolExecutor(len(pipes)) as pool:
            (_, out), (_, err) = pipes
            socket.send_fds(self._socket, [request], [out if stdout is None else stdout, err])
            for _, writing in pipes:
                os.close(writing)
            said, errors = pool.map(_read, [reading for reading, _ in pipes])
            answer = self._socket.recv(100)
        assert answer, "the process that forks has ended"
        return subprocess.CompletedProcess(["purerec", *args], int(answer), said, errors)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(30)


def _read(descriptor: int) -> str:
    with open(descriptor) as stream:
        return stream.read()


# ---------------------------------------------------------------------- the forking process


def _import_libraries() -> None:
    """Import all that a command may need, including what typer and pydantic import on first use."""
    for name in (
        "numba",
        "numpy",
        "polars",
        "rich.console",
        "rich.table",
        "safetensors.numpy",
        "scipy.sparse",
        "optuna",
    ):
        with contextlib.suppress(ImportError):  # a command then reports what is missing
            importlib.import_module(name)
    import pydantic
    import typer

    class Settings(pydantic.BaseModel):
        number: int = pydantic.Field(0, ge=0)

    def command(number: int = typer.Option(0, "--number", min=0), file: Path | None = typer.Option(None)) -> None:
        Settings(number=number)

    app = typer.Typer()
    app.command()(command)
    app(["--number", "1"], standalone_mode=False)
    import_purerec()


def import_purerec() -> None:
    """Import all but the service and what needs torch, which takes seconds: few commands need these."""
    import purerec

    sys.modules["torch"] = None  # type: ignore[assignment]  # for now, importing it is an error
    for module in pkgutil.walk_packages(purerec.__path__, "purerec.", onerror=lambda name: None):
        if not {"__main__", "serving"} & set(module.name.split(".")):
            with contextlib.suppress(ImportError):  # of torch, or of another extra
                importlib.import_module(module.name)
    del sys.modules["torch"]


def _next_command(asked: socket.socket) -> dict[str, Any] | None:
    """Return in each fork, with its command, and in this process when there are no more commands: None."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, LARGEST, 2)
        if not request:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about forks with threads: OpenBLAS expects them
            pid = os.fork()
        if pid == 0:
            asked.close()
            for stream, descriptor in enumerate(descriptors, start=1):
                os.dup2(descriptor, stream)
                os.close(descriptor)
            found: dict[str, Any] = json.loads(request)
            return found
        for descriptor in descriptors:
            os.close(descriptor)
        asked.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


if __name__ == "__main__":
    _import_libraries()
    gc.freeze()  # otherwise a fork's first collection would copy everything
    command = _next_command(socket.socket(fileno=int(sys.argv[1])))
    if command is not None:
        os.environ.clear()
        os.environ.update(command["env"])
        os.chdir(command["cwd"])
        sys.path[0] = command["cwd"]  # as with `python -m`
        sys.argv = ["purerec", *command["args"]]
        runpy.run_module("purerec.cli", run_name="__main__", alter_sys=True)
