"""HTTP/1.1 with bounds that uvicorn leaves to others: on the size of a head, on the time it takes, on connections.

A connection that has not sent the head of its next request in time is closed, and so is one that does not take its
answer. The server looks at all of them once a second, which is cheaper than a timer for every request.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from purerec.serving.gate import SECURITY
from purerec.serving.problems import MEDIA_TYPE, problem_body

if TYPE_CHECKING:
    from purerec.serving.settings import Settings


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    settings: Settings
    """Set on a subclass, since uvicorn makes the objects."""

    _head_bytes = 0
    _waiting_since: float | None = None
    """Since when a head is incomplete; None while a request is being answered or nothing has come."""
    _stuck_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        if len(self.connections) > self.settings.connections:
            self._refuse(503, "overloaded", "too many connections; try again soon", b"retry-after: 1\r\n")

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._waiting_since is None and (self.cycle is None or self.cycle.response_complete):
            self._waiting_since, self._head_bytes = self.loop.time(), 0
        if self._waiting_since is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        # A head that is complete has reset the count; what came with it of the body does not matter.
        if self._waiting_since is not None and self._head_bytes > self.settings.limits.head_bytes:
            self._refuse(431, "head-too-large", f"a head may have up to {self.settings.limits.head_bytes:,} bytes")

    def on_headers_complete(self) -> None:
        self._waiting_since, self._head_bytes = None, 0
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "not-http", "this is not a request in HTTP/1.1")

    def look(self, now: float) -> None:
        """Close what has taken too long."""
        limit = self.settings.timeout_s
        if self._waiting_since is not None and now - self._waiting_since > limit:
            if self._head_bytes and not self.transport.is_closing():
                self._refuse(408, "slow-request", f"the head did not arrive within {limit:g} s")
            else:
                self.transport.close()
        # What is written and not taken: a closed connection would wait for its client forever.
        if self.transport.get_write_buffer_size() == 0:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since > limit:
            self.transport.abort()

    def _refuse(self, status: int, kind: str, detail: str, extra: bytes = b"") -> None:
        """A problem document without any application, then the end."""
        if self.transport.is_closing():
            return
        body = problem_body(status, kind, detail, "")
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        head += [name + b": " + value for name, value in SECURITY]
        head += [b"cache-control: no-store", b"connection: close", f"content-type: {MEDIA_TYPE}".encode()]
        head += [f"content-length: {len(body)}".encode()]
        self.transport.write(b"\r\n".join(head) + b"\r\n" + extra + b"\r\n" + body)
        self.transport.close()


def bounded(settings: Settings) -> type[BoundedProtocol]:
    """The protocol with these settings."""
    members: dict[str, Any] = {"settings": settings}
    return type("Bounded", (BoundedProtocol,), members)
