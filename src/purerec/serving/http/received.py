"""How far a request has come in: the protocol writes it down, the gate acts on it."""

from __future__ import annotations

from dataclasses import dataclass

from purerec.serving.http.problems import Problem

KEY = "purerec.received"
"""Where it is in the scope of a request."""


@dataclass
class Received:
    """Of one request whose head has been read."""

    complete: bool = False
    problem: Problem | None = None
    """Why the rest of it will not be read."""
