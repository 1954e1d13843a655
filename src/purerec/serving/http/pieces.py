"""Passes the bytes of a connection to the parser in pieces. They are counted here and nowhere else.

A piece never goes beyond the end of a request, nor beyond what the request may have: `head_bytes` for its head and,
after it, `body_bytes` for the body and `head_bytes` for what frames it (sizes of chunks, their extensions, trailers).
"""

from __future__ import annotations

from purerec.serving.process.settings import Limits

_END = b"\r\n\r\n"
"""Of a head, and of a body in chunks, with trailers or without. The parser takes no other line ends."""
_DROPPED_BYTES = 4 << 20
_PIECE_COST = 64
"""What a piece of a body in chunks counts for on top of its bytes: a megabyte of blank lines is a lot of pieces."""


class Pieces:
    """The bytes of one connection, request by request."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.dropping = False
        """Nothing more is for the parser."""
        self.expect_head()

    def expect_head(self) -> None:
        """A request may begin."""
        self.in_head, self._ends_by_length, self._tail = True, False, b""
        self._left = self._limits.head_bytes

    def expect_rest(self, length: int | None) -> None:
        """The head is complete; `length` of the body, or None if it comes in chunks."""
        self.in_head, self._ends_by_length, self._tail = False, length is not None, b""
        self._left = self._limits.body_bytes + self._limits.head_bytes if length is None else length
        self._body_left = self._limits.body_bytes

    def drop(self) -> None:
        """The request is refused. A client that sends all of it before it reads should still get to the answer."""
        self.dropping, self._left = True, _DROPPED_BYTES

    @property
    def has_begun(self) -> bool:
        """Whether some of a head has come."""
        return not self.in_head or self._left < self._limits.head_bytes

    def cut(self, data: bytes, start: int) -> int:
        """How many bytes from `start` on make the next piece; 0: there may be no more of them."""
        size = len(data) - start
        if not self._ends_by_length and not self.dropping:
            size = self._up_to_the_end(data, start)
        size = min(size, self._left)
        self._left -= size if self.in_head or self._ends_by_length else min(size + _PIECE_COST, self._left)
        return size

    def _up_to_the_end(self, data: bytes, start: int) -> int:
        if self._tail:  # the end may have come in two parts
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
        """Whether the body may have these bytes too."""
        self._body_left -= len(body)
        return self._body_left >= 0
