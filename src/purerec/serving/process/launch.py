"""`serve`: bind, load, answer. Errors before the first request are exceptions with a one-line message."""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

from purerec.errors import ConfigError, MissingExtraError
from purerec.output import console
from purerec.output.streams import OutputError, abandon_output
from purerec.serving.process.settings import Settings

TOKEN_VARIABLE = "PUREREC_TOKEN"


def serve(
    folder: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    settings: Settings | None = None,
) -> None:
    """Serve a model folder until SIGTERM or Ctrl-C. Prints `serving http://...` when it can answer."""
    gc.disable()  # until it serves: nothing imported or loaded before is garbage
    try:
        _serve(os.fspath(folder), host, port, workers, settings or Settings())
    finally:
        gc.enable()


def _serve(folder: str, host: str, port: int, workers: int, settings: Settings) -> None:
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "fastapi", "serve", purpose="the service") from None
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # else any client, or the reader of the log, could end the process
    listener = bind(host, port)
    if settings.token is None and is_loopback(host):
        settings = replace(settings, local_only=True)
    elif settings.token is None:
        console.warn(f"other machines may reach {host} without a token; set one with --token-file")
    address = listener.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]

    def ready() -> None:
        try:
            sys.stdout.write(f"serving http://{shown}:{address[1]}\n")
            sys.stdout.flush()
        except (OSError, OutputError):  # do not stop for lack of a reader
            abandon_output()

    from purerec.serving.process import metrics

    counters = metrics.shared_file(workers)
    try:
        if workers == 1:
            from purerec.serving.process.single_process import serve_alone

            serve_alone(folder, listener, settings, counters, ready)
        else:
            from purerec.serving.process.supervisor import Supervisor

            Supervisor(folder, listener, settings, counters, workers, ready).run()
    finally:
        listener.close()
        os.close(counters)


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound but not yet listening: connections before the model is loaded are refused."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host!r} cannot be used: {getattr(error, 'strerror', None) or error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot serve at {host} port {port}: {error.strerror}; choose another with --port (0: any free one)"
        ) from None
    listener.set_inheritable(True)
    return listener


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(file: str | os.PathLike[str] | None) -> str | None:
    """The bearer token from a file, or from the environment; None if there is neither."""
    if file is not None:
        try:
            text, where = Path(file).read_text(encoding="utf-8"), os.fspath(file)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the token file {file} cannot be read: {error}") from None
    elif TOKEN_VARIABLE in os.environ:
        text, where = os.environ[TOKEN_VARIABLE], f"the variable {TOKEN_VARIABLE}"
    else:
        return None
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{where} has no token: it must hold one word of printable ASCII characters")
    return token
