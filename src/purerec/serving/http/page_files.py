"""The files of the web page, read once. They are looked up by name only: no path of a request reaches the disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

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
    """name -> file; empty if the page is not there."""
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
