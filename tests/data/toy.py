"""A toy data set, and a web server for it."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import time
import zipfile
from pathlib import Path
from typing import Any

from purerec.data.catalog import Archive, Entry, File, FileLayout, Folder, Wheel

RATINGS = b"1\t10\t5\t100\n1\t20\t3\t101\n2\t10\t4\t102\n2\t10\t2\t103\n"
TITLES = b"10\tTen (1910)\n20\tTwenty\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def zipped(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


GOOD = zipped(**{"toy/toy.tsv": RATINGS, "toy/titles.tsv": TITLES, "toy/other.txt": b"x"})


class Server:
    """A web server on loopback that counts requests, and stalls, breaks off and lies on request."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.hits: list[str] = []
        self.stall_after: int | None = None
        self.stall_s = 0.0
        self.claim: int | None = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.hits.append(self.path)
                body = outer.content.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(outer.claim or len(body)))
                self.end_headers()
                cut = len(body) if outer.stall_after is None else outer.stall_after
                with contextlib.suppress(OSError):
                    self.wfile.write(body[:cut])
                    self.wfile.flush()
                    time.sleep(outer.stall_s)
                    self.wfile.write(body[cut:])

            def log_message(self, *_: Any) -> None: ...

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


def toy(*sources: Archive | Folder | Wheel, titles: bool = True, max_bytes: int = 1000) -> Entry:
    return Entry(
        name="toy",
        title="Toy",
        licence="free",
        homepage="https://example.org/toy",
        layouts=(
            FileLayout(
                File("toy.tsv", sha256(RATINGS), max_bytes),
                (File("titles.tsv", sha256(TITLES), max_bytes),) if titles else (),
            ),
        ),
        sources=sources,
    )


def zip_at(server: Server, content: bytes = GOOD, max_bytes: int = 1 << 20) -> Archive:
    server.content["/toy.zip"] = content
    members = (("toy/titles.tsv", "titles.tsv"), ("toy/toy.tsv", "toy.tsv"))
    return Archive(f"{server.url}/toy.zip", members, max_bytes)


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {".lock"} if folder.exists() else set()
