"""How a service is set up: one frozen object, created by the command line and sent to every worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from purerec.errors import ConfigError

AccessLog = Literal["route", "path", "off"]


@dataclass(frozen=True)
class Limits:
    """Limits of one request."""

    k: int = 500
    """Items in a list."""
    batch: int = 256
    """People in a request."""
    history: int = 1_000
    """Items in a history."""
    ids: int = 10_000
    """Items in `items` or `exclude`."""
    cells: int = 20_000
    """Items in all lists of a request: people times k."""
    explained: int = 500
    """The same, if reasons or attributes are requested."""
    arranged: int = 2_000
    """The same, with rules that rearrange lists."""
    conditions: int = 16
    """Conditions, caps or columns in a request."""
    condition: int = 200
    """Characters of a condition, or of the name of a column."""
    cold: int = 50
    """Places for cold items."""
    because: int = 20
    """Reasons in an explanation."""
    found: int = 100
    """Results of a search."""
    query: int = 200
    """Characters of a search."""
    id_length: int = 512
    """Characters of an id."""
    head_bytes: int = 32 * 1024
    """Size of the request line and the headers; the same again for the framing of a chunked body."""
    fields: int = 100
    """Number of headers."""
    body_bytes: int = 1 << 20
    """Size of the body."""


@dataclass(frozen=True)
class Settings:
    """Everything that a worker needs to know, except the model."""

    token: str | None = field(default=None, repr=False)
    """Bearer token; None: the service is open to everybody who can reach it."""
    local_only: bool = False
    """Answer only requests addressed to this machine by a local name. Otherwise, an external page whose name points
    to 127.0.0.1 (DNS rebinding) could read everything through the visitor's browser."""
    cors: tuple[str, ...] = ()
    """Origins of pages that may call the service; ("*",): all."""
    timeout_s: float = 10.0
    """Time limit for each of: the head of a request, its body, and the answer."""
    keep_alive_s: float = 30.0
    """How long an idle connection stays open."""
    drain_s: float = 30.0
    """How long requests in flight may take after SIGTERM."""
    pending: int = 128
    """Requests in progress or waiting, per worker; more are refused with 503."""
    connections: int = 512
    """Open connections per worker; for a new one, the one that has been idle longest is closed."""
    threads: int = 2
    """Threads for the model, per worker."""
    access_log: AccessLog = "route"
    """route: without ids; path: with them; off."""
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.token == "":
            raise ConfigError("the token is empty, which would let everybody in; use None for a service without one")

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        values: dict[str, Any] = json.loads(text)
        return cls(**{**values, "cors": tuple(values["cors"]), "limits": Limits(**values["limits"])})
