"""`purerec serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from purerec.cli.options import FolderArg
from purerec.errors import ConfigError
from purerec.output import console

_WEAK = 16


def serve(
    folder: FolderArg,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Number of worker processes.")] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="File with the bearer token; else the variable PUREREC_TOKEN, if set."),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option("--cors", metavar="ORIGIN", help="Origin whose pages may call the service; may be repeated."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=0.1,
            max=3600,
            metavar="SECONDS",
            help="Limit for receiving and for answering a request.",
        ),
    ] = 10.0,
    access_log: Annotated[
        str, typer.Option("--access-log", help="route (without user ids), path (with them) or off.")
    ] = "route",
) -> None:
    """Serve a model over HTTP, with a page to try it.

    Examples:
      purerec serve model
      purerec serve model --host 0.0.0.0 --port 80 --workers 2 --token-file token.txt
    """
    from purerec.serving.process.launch import read_token, serve
    from purerec.serving.process.settings import AccessLog, Settings

    if access_log not in ("route", "path", "off"):
        raise ConfigError(f"--access-log takes route, path or off, not {access_log!r}")
    origins = tuple(cors or ())
    for origin in origins:
        if origin != "*" and (not origin.startswith(("http://", "https://")) or origin.count("/") != 2):
            raise ConfigError(f"--cors takes an origin such as https://example.com, not {origin!r}")
    token = read_token(token_file)
    if token is not None and len(token) < _WEAK:
        console.warn(f"the token is short; use {_WEAK} or more random characters")
    settings = Settings(token=token, cors=origins, timeout_s=timeout, access_log=cast("AccessLog", access_log))
    try:
        serve(folder, host=host, port=port, workers=workers, settings=settings)
    except KeyboardInterrupt:
        raise console.Interrupted from None  # silently: standard error is a log of JSON lines
