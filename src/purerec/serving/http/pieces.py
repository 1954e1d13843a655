"""Passes the bytes of a connection to the parser in pieces, and is the only place where they are counted.

A piece never extends beyond the end of a request, nor beyond its limits: `head_bytes` for the head, then `body_bytes`
for the body and `head_bytes` for its framing (chunk sizes, chunk extensions, trailers).
"""

from __future__ import annotations

from purerec.serving.process.settings import Limits

_END = b"\r\n\r\n"
"""The end of a head, and of a chunked body with or without trailers. The parser accepts no other line endings."""
_DROPPED_BYTES = 4 << 20
_PIECE_COST = 64
"""Bytes that a piece of a chunked body counts extra: a megabyte of blank lines makes a lot of pieces."""


class Pieces:
    """The bytes of one connection, request by request."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.dropping = False
        """True if the rest is withheld from the parser."""
        self.expect_head()

    def expect_head(self) -> None:
        """A request may start."""
        self.in_head, self._ends_by_length, self._tail = True, False, b""
        self._left = self._limits.head_bytes

    def expect_rest(self, length: int | None) -> None:
        """The head is complete; `length` is the body's, or None if it is chunked."""
        self.in_head, self._ends_by_length, self._tail = False, length is not None, b""
        self._left = self._limits.body_bytes + self._limits.head_bytes if length is None else length
        self._body_left = self._limits.body_bytes

    def drop(self) -> None:
        """The request is rejected. A client that sends all of it before reading should still get the response."""
        self.dropping, self._left = True, _DROPPED_BYTES

    @property
    def has_begun(self) -> bool:
        """True if part of a head has arrived."""
        return not self.in_head or self._left < self._limits.head_bytes

    def cut(self, data: bytes, start: int) -> int:
        """The length of the next piece, from `start` on; 0: no more bytes are allowed."""
        size = len(data) - start
        if not self._ends_by_length and not self.dropping:
            size = self._up_to_the_end(data, start)
        size = min(size, self._left)
        self._left -= size if self.in_head or self._ends_by_length else min(size + _PIECE_COST, self._left)
        return size

    def _up_to_the_end(self, data: bytes, start: int) -> int:
        if self._tail:  # the end may have arrived in two parts
            seam = (self._tail + data[start : start + len(_END) - 1]).find(_END)
            if seam >= 0:
                size = seam + len(_END) - len(self._tail)
                self._tail = b""
                return size
        end = data.find(_END, start)
        if end >= 0:
            self._tail = b""
            return end + len(_END) - start
        self._tail = (self._tail + data[max(start, len(data) - len(_END) + 1) :])[-len(_END) + 1 :]
        return len(data) - start

    def fits(self, body: bytes) -> bool:
        """Return whether the body may also have these bytes."""
        self._body_left -= len(body)
        return self._body_left >= 0
