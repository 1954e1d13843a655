"""How much of a request has arrived: set by the protocol, used by the middleware."""

from __future__ import annotations

from dataclasses import dataclass

from purerec.serving.http.problems import Problem

KEY = "purerec.received"
"""Its key in the scope of a request."""


@dataclass
class Received:
    """The state of one request whose head has been read."""

    complete: bool = False
    problem: Problem | None = None
    """Why the rest will not be read."""
