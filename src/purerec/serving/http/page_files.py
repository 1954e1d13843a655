"""The files of the web page, read once and looked up only by name: no path from a request reaches the disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from fastapi import FastAPI, Request, Response

from purerec.serving.http.problems import Problem

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True)
class PageFile:
    content: bytes
    media_type: str
    etag: str


def read_page() -> dict[str, PageFile]:
    """name -> file; empty if the page is not installed."""
    folder = files("purerec.serving.http") / "page"
    found = {}
    if folder.is_dir():
        for file in folder.iterdir():
            media_type = _MEDIA_TYPES.get("." + file.name.rpartition(".")[2])
            if media_type is not None and file.is_file():
                content = file.read_bytes()
                etag = '"' + hashlib.sha256(content).hexdigest()[:32] + '"'
                found[file.name] = PageFile(content, media_type, etag)
    return found


def add_page(app: FastAPI) -> None:
    """Add the page at /, the API documentation at /docs, and the files they load."""
    page = read_page()

    def sent(request: Request, name: str) -> Response:
        file = page.get(name)
        if file is None:
            raise Problem(404, "not-found", "the page has no such file")
        headers = {"etag": file.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index(request: Request) -> Response:
        return sent(request, "index.html")

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def docs(request: Request) -> Response:
        return sent(request, "docs.html")

    @app.api_route("/static/{name:path}", methods=["GET", "HEAD"], include_in_schema=False)
    async def static(request: Request, name: str) -> Response:
        return sent(request, name)
