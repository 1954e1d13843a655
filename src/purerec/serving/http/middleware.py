"""The outermost layer: checks that apply to every request.

In order: the token, the body (with a time limit), the capacity, the response (with a time limit), and then headers,
counters and the log. Any error inside is returned as a problem document.

The most frequent request goes straight to its handler: routing it through the framework takes longer than computing
the list.

Requests that take too long are found by checking all of them periodically, not by a timer for each.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from purerec.serving.http import problems
from purerec.serving.http.problems import Problem
from purerec.serving.http.received import KEY, Received
from purerec.serving.process.logs import Log
from purerec.serving.process.metrics import IN_FLIGHT, Metrics
from purerec.serving.process.settings import Settings

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Direct = Mapping[tuple[str, str], Callable[[bytes], Awaitable[bytes]]]
"""(method, path) -> a handler from a body to a JSON response"""
RouteOf = Callable[[Scope], str]
"""The route of a request as declared in the application: the path itself may contain people's ids."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY: Headers = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_NO_STORE = (b"cache-control", b"no-store")
_LOCAL = re.compile(rb"(?i:localhost|127\.[0-9.]{1,12}|\[::1\])(:[0-9]{1,5})?")
_LINGER_S = 2.0
_PATIENT, _PATIENT_S = "/v1/reload", 600.0
"""A longer limit: a large model may take long to load, and giving up halfway would mean never loading it."""
_ALWAYS = ("/healthz", "/readyz")
"""Answered no matter how busy the service is."""


class Gate:
    """An ASGI application around another."""

    def __init__(
        self, app: App, settings: Settings, metrics: Metrics, log: Log, direct: Direct, route_of: RouteOf
    ) -> None:
        self._app, self._settings, self._metrics, self._log = app, settings, metrics, log
        self._direct, self._route_of = direct, route_of
        self._working = 0
        self._token = None if settings.token is None else _digest(settings.token.encode())
        self._deadlines: dict[asyncio.Task[Any], float] = {}
        self._overdue: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        answer = _Answer(send, self._headers(scope))
        self._metrics.add(IN_FLIGHT)
        try:
            await self._answered(scope, receive, answer)
        finally:
            self._metrics.add(IN_FLIGHT, -1.0)
            seconds = time.perf_counter() - start
            taken = scope.get("purerec.route") or getattr(scope.get("route"), "path_format", None)
            route = str(taken or self._route_of(scope))
            self._metrics.observe(route, answer.status, seconds)
            if self._settings.access_log != "off":
                path = _path(scope) if self._settings.access_log == "path" else None
                self._log.request(scope["method"], route, path, answer.status, seconds, answer.size)

    async def _answered(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        limit = self._settings.timeout_s
        task = asyncio.current_task()
        assert task is not None
        received: Received = scope.get(KEY) or Received(complete=True)
        body: bytes | None = None
        has_room = False
        problem: Problem
        try:
            self._check_host(scope)
            if scope["method"] == "OPTIONS" and self._settings.cors and (allowed := self._preflight(scope)):
                await answer.send({"type": "http.response.start", "status": 204, "headers": allowed})
                await answer.send({"type": "http.response.body", "body": b""})
                return
            self._check_token(scope)
            self._deadlines[task] = time.perf_counter() + limit
            body = await _body(received, receive)
            if body is None:
                return  # the client disconnected
            # Checked only now: slow senders must not take up capacity.
            if self._working >= self._settings.pending and scope["path"] not in _ALWAYS:
                raise problems.overloaded()
            self._working += 1
            has_room = True
            self._deadlines[task] = time.perf_counter() + (limit if scope["path"] != _PATIENT else _PATIENT_S)
            direct = self._direct.get((scope["method"], scope["path"]))
            if direct is None:
                await self._app(scope, _given(body, receive), answer.send)
            else:
                scope["purerec.route"] = scope["path"]
                await answer.json(await direct(body))
            return
        except Problem as found:
            problem = found
        except asyncio.CancelledError:
            if task not in self._overdue:
                raise
            task.uncancel()
            problem = problems.too_slow(limit) if body is not None else problems.body_too_slow(limit)
        except Exception as error:
            if answer.status and not answer.ended:
                raise ConnectionAbortedError from None  # the client disconnected during the response
            # To the log only: a traceback may contain paths and data.
            where = [f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
            self._log.write("error", kind=type(error).__name__, detail=str(error)[:500], trace=where[-8:])
            problem = problems.internal()
        finally:
            self._deadlines.pop(task, None)
            self._overdue.discard(task)
            self._working -= has_room
        if answer.ended:
            return
        if answer.status:
            # Part of the response has been sent: all that is left is to close the connection, which the server does.
            raise ConnectionAbortedError
        await answer.problem(problem, _path(scope), is_last=not received.complete)
        if not received.complete and problem.status != 408:
            await _discard(receive)
        await answer.end()

    def look(self) -> None:
        """End requests that have taken too long; call this periodically."""
        now = time.perf_counter()
        for task, deadline in list(self._deadlines.items()):
            if now > deadline and task not in self._overdue:
                self._overdue.add(task)
                task.cancel()

    # ------------------------------------------------------------------ parts

    def _check_host(self, scope: Scope) -> None:
        if not self._settings.local_only:
            return
        for name, value in scope["headers"]:
            if name == b"host" and not _LOCAL.fullmatch(value):
                raise Problem(
                    421,
                    "other-host",
                    "a service without a token answers to localhost and 127.0.0.1 only; set a token to let it be "
                    "called by other names",
                )

    def _check_token(self, scope: Scope) -> None:
        path = scope["path"]
        if self._token is None or not (path.startswith("/v1/") or path == "/v1" or path == "/metrics"):
            return
        for name, value in scope["headers"]:
            if name == b"authorization":
                scheme, _, given = value.partition(b" ")
                # Compares digests, so that the time reveals neither content nor length.
                if scheme.lower() == b"bearer" and hmac.compare_digest(_digest(given.strip()), self._token):
                    return
        raise Problem(
            401,
            "unauthorized",
            "this service needs a token: send the header 'Authorization: Bearer ...'",
            headers={"www-authenticate": 'Bearer realm="purerec"'},
        )

    # ------------------------------------------------------------------ headers

    def _headers(self, scope: Scope) -> Headers:
        if not self._settings.cors:
            return SECURITY
        origin = _origin(scope)
        if origin is None or not self._allows(origin):
            return [*SECURITY, (b"vary", b"origin")]
        return [*SECURITY, (b"vary", b"origin"), (b"access-control-allow-origin", origin)]

    def _allows(self, origin: bytes) -> bool:
        return "*" in self._settings.cors or origin.decode("latin-1") in self._settings.cors

    def _preflight(self, scope: Scope) -> Headers | None:
        origin = _origin(scope)
        asked = any(name == b"access-control-request-method" for name, _ in scope["headers"])
        if origin is None or not asked or not self._allows(origin):
            return None
        return [
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", b"authorization, content-type"),
            (b"access-control-max-age", b"600"),
        ]


class _Answer:
    """Sends a response, with the headers that every response has."""

    def __init__(self, send: Send, headers: Headers) -> None:
        self._send, self._headers = send, headers
        self.status = self.size = 0
        self.ended = False

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", []), *self._headers]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append(_NO_STORE)
            message = {**message, "headers": headers}
        else:
            self.size += len(message.get("body", b""))
            self.ended = not message.get("more_body", False)
        await self._send(message)

    async def json(self, body: bytes) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def problem(self, problem: Problem, instance: str, *, is_last: bool) -> None:
        """Send a whole problem document without ending the response; `is_last`: the last one on this connection."""
        body = problem.body(instance)
        headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
        headers += [(b"content-type", problems.MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
        if is_last:
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})


async def _body(received: Received, receive: Receive) -> bytes | None:
    """The whole body; None if the client disconnects before it is complete."""
    parts = []
    while True:
        message = await receive()
        if received.problem is not None:
            raise received.problem
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _discard(receive: Receive) -> None:
    """Keep reading for a moment: if closed while still sending, the client would lose the response."""
    try:
        async with asyncio.timeout(_LINGER_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


def _given(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def once() -> AsgiMessage:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


def _origin(scope: Scope) -> bytes | None:
    found: list[bytes] = [value for name, value in scope["headers"] if name == b"origin"]
    return found[0] if len(found) == 1 else None


def _path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path", b"")
    return raw.decode("ascii", "replace")


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
