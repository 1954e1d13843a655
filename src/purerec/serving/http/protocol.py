"""HTTP/1.1 with limits that uvicorn lacks: on the bytes of a request, its time, and the number of connections.

A request that follows another on the same connection waits, unparsed, until that one is answered. A connection is
closed if it does not send the head of its next request in time, or does not read its response; the server checks all
connections periodically, which is cheaper than a timer per request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from purerec.serving.http import problems
from purerec.serving.http.middleware import SECURITY
from purerec.serving.http.pieces import Pieces
from purerec.serving.http.problems import MEDIA_TYPE, Problem
from purerec.serving.http.received import KEY, Received

if TYPE_CHECKING:
    from purerec.serving.process.settings import Settings

_LINGER_S = 2.0
"""How long to keep reading and discarding input after a rejection."""
_LAST_CALL_S = 0.5
"""How long a connection without a request stays open after SIGTERM: one may be in transit."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    settings: Settings
    """Set on a subclass, since uvicorn creates the objects; so is `refused`."""
    refused: Callable[[int], None]
    """Called with the status of a response to input that did not become a request."""

    _pieces: Pieces
    _received = Received()
    _later = b""
    """Bytes that arrived after a request that is not yet answered."""
    _since: float | None
    """When we started to wait for a request or the rest of it; None while one is being answered."""
    _stuck_since: float | None = None
    _is_ending = False
    """The service is stopping: no request after the next."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._pieces, self._since = Pieces(self.settings.limits), self.loop.time()
        if len(self.connections) > self.settings.connections and not self._make_room():
            self._refuse(problems.too_many_connections())

    def _make_room(self) -> bool:
        """Close the connection that has been idle longest; False if all of them have a request."""
        found: list[tuple[float, int, BoundedProtocol]] = [
            (other._since, id(other), other)
            for other in self.connections
            if isinstance(other, BoundedProtocol)
            and other._since is not None
            and other is not self
            and not other.transport.is_closing()
        ]
        if not found:
            return False
        transport = min(found)[2].transport
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()
        return True

    # ------------------------------------------------------------------ input

    def data_received(self, data: bytes) -> None:
        self._take(self._later + data)

    def _take(self, data: bytes) -> None:
        """Pass the parser what it may have; keep what follows a complete request for later."""
        self._later, at = b"", 0
        if data:
            self._unset_keepalive_if_required()
        while at < len(data) and not self.transport.is_closing():
            if self._received.complete and not self.cycle.response_complete:
                self._later = data[at:]
                self.flow.pause_reading()
                return
            if not self._pieces.has_begun:
                self._since = self.loop.time()
            size = self._pieces.cut(data, at)
            if self._pieces.dropping:
                if not size:
                    self.transport.abort()
            elif not size:
                limits = self.settings.limits
                self._fail(
                    problems.head_too_large(limits) if self._pieces.in_head else problems.body_too_large(limits)
                )
            else:
                self._parse(data if size == len(data) else memoryview(data)[at : at + size])
            at += size

    def _parse(self, piece: bytes | memoryview) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            pass  # answered as if it had not requested another protocol
        except httptools.HttpParserError:
            limits = self.settings.limits
            has_too_many = self._pieces.in_head and len(self.headers or ()) >= limits.fields
            self._fail(problems.head_too_large(limits) if has_too_many else problems.not_http())

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._pieces.in_head:
            return  # a trailer, which no endpoint uses
        if len(self.headers) >= self.settings.limits.fields:
            raise ValueError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._received = Received()
        cast("dict[str, Any]", self.scope)[KEY] = self._received
        super().on_headers_complete()
        if self._is_ending:
            self.cycle.keep_alive = False
        length: int | None = 0
        for name, value in self.headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                length = None
        self._pieces.expect_rest(length)
        if length is not None and length > self.settings.limits.body_bytes:
            self._fail(problems.body_too_large(self.settings.limits))

    def on_body(self, body: bytes) -> None:
        if self._received.problem is not None:
            return
        if self._pieces.fits(body):
            super().on_body(body)
        else:
            self._fail(problems.body_too_large(self.settings.limits))

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._received.problem is None:
            self._received.complete, self._since = True, None
            self._pieces.expect_head()

    def _fail(self, problem: Problem) -> None:
        """Stop reading this request: the middleware responds if it already has it, otherwise this protocol does."""
        self._pieces.drop()
        if self.cycle is None or self.cycle.response_complete:
            self._refuse(problem)
        else:
            self._received.problem = problem
            self.cycle.message_event.set()

    # ------------------------------------------------------------------ output

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
        self._take(self._later)

    def _refuse(self, problem: Problem) -> None:
        """Send a problem document without the application, then close."""
        if self.transport.is_closing():
            return
        self.refused(problem.status)
        self._pieces.drop()
        self._since = self.loop.time()
        body = problem.body("")
        head = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()]
        head += [name + b": " + value for name, value in SECURITY]
        head += [f"{name}: {value}".encode() for name, value in problem.headers.items()]
        head += [b"cache-control: no-store", b"connection: close", f"content-type: {MEDIA_TYPE}".encode()]
        head += [f"content-length: {len(body)}".encode()]
        self.transport.write(b"\r\n".join(head) + b"\r\n\r\n" + body)
        # Closed when the client closes or its time is up: closing while bytes still arrive resets the connection, and
        # the response may be lost.
        self.transport.write_eof()

    def shutdown(self) -> None:
        """The service is stopping: answer what has arrived or is in transit, then close."""
        self._is_ending = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif not self._pieces.has_begun:
            self._since = self.loop.time()

    def look(self, now: float) -> None:
        """Close the connection if it has taken too long."""
        limit = self.settings.timeout_s
        waited = 0.0 if self._since is None else now - self._since
        is_fresh = self.cycle is None
        is_answering = not is_fresh and not self.cycle.response_complete
        if self._pieces.dropping:
            if waited > _LINGER_S and not is_answering:
                self.transport.close()
        elif self._pieces.in_head and self._pieces.has_begun:
            if waited > limit:
                self._refuse(problems.head_too_slow(limit))
        elif self._is_ending:
            if waited > _LAST_CALL_S and not is_answering:
                self.transport.close()
        elif waited > limit and not is_answering and (is_fresh or not self._pieces.in_head):
            # Nothing has arrived, or not the rest of a request that is already answered. For connections idle between
            # requests, uvicorn has a timer.
            self.transport.close()
        # Written but not read: a closed connection would wait for its client forever.
        if self.transport.get_write_buffer_size() == 0:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since > limit:
            self.transport.abort()


def bounded(settings: Settings, refused: Callable[[int], None]) -> type[BoundedProtocol]:
    """The protocol with these settings."""
    members: dict[str, Any] = {"settings": settings, "refused": staticmethod(refused)}
    return type("Bounded", (BoundedProtocol,), members)
