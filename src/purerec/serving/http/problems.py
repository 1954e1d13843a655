"""Errors as RFC 9457 problem documents. They never contain internal details."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json

from purerec.serving.process.settings import Limits

MEDIA_TYPE = "application/problem+json"
_INSTANCE_LENGTH = 512


class Problem(Exception):
    """An error response with a status, a kind for programs and a sentence for people."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        errors: list[dict[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.errors, self.headers = errors, dict(headers or {})

    def body(self, instance: str) -> bytes:
        """The document; `instance` is the requested path, as sent."""
        document: dict[str, Any] = {
            "type": f"urn:purerec:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "instance": instance[:_INSTANCE_LENGTH],
        }
        if self.errors:
            document["errors"] = self.errors
        return to_json(document)


def not_ready() -> Problem:
    return Problem(503, "not-ready", "the model is not loaded yet; try again soon", headers={"retry-after": "1"})


def overloaded() -> Problem:
    return Problem(503, "overloaded", "too many requests at once; try again soon", headers={"retry-after": "1"})


def too_slow(seconds: float) -> Problem:
    return Problem(
        503,
        "timeout",
        f"the answer took longer than {seconds:g} s; ask for less or try again",
        headers={"retry-after": "2"},
    )


def body_too_slow(seconds: float) -> Problem:
    return Problem(408, "slow-request", f"the body did not arrive within {seconds:g} s")


def head_too_slow(seconds: float) -> Problem:
    return Problem(408, "slow-request", f"the head did not arrive within {seconds:g} s")


def body_too_large(limits: Limits) -> Problem:
    return Problem(413, "body-too-large", f"a body may have up to {limits.body_bytes:,} bytes; split the request")


def head_too_large(limits: Limits) -> Problem:
    most = f"{limits.head_bytes:,} bytes and {limits.fields} fields"
    return Problem(431, "head-too-large", f"a head may have up to {most}")


def not_http() -> Problem:
    return Problem(400, "not-http", "this is not a request in HTTP/1.1")


def too_many_connections() -> Problem:
    return Problem(503, "overloaded", "too many connections; try again soon", headers={"retry-after": "1"})


def internal() -> Problem:
    return Problem(500, "internal", "something went wrong on the server; its log says what")


def reload_refused(why: str, version: str) -> Problem:
    return Problem(409, "reload-refused", f"{why}; model {version} is still served")
