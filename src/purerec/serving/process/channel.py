"""Messages between a supervisor and a worker: lines of JSON over a socket, optionally with a file descriptor."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]
_CHUNK = 1 << 16


class Channel:
    """One end. Sending blocks, but only briefly: the other end always reads."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._bytes = b""
        self._files: list[int] = []
        self._lock = threading.Lock()

    def send(self, message: Message, file: int | None = None) -> None:
        """Send a message, and optionally a file descriptor, of which the other end gets a duplicate."""
        data = json.dumps({**message, "has_file": file is not None}).encode() + b"\n"
        with self._lock:  # lines from two threads must not be interleaved
            if file is not None:
                data = data[socket.send_fds(self._socket, [data], [file]) :]
            self._socket.sendall(data)

    def receive(self) -> Iterator[tuple[Message, int | None]]:
        """The messages as they arrive, until the other end is gone."""
        while True:
            line, newline, rest = self._bytes.partition(b"\n")
            if newline:
                self._bytes = rest
                message = json.loads(line)
                yield message, self._files.pop(0) if message.pop("has_file") else None
                continue
            try:
                data, files, _, _ = socket.recv_fds(self._socket, _CHUNK, 8)
            except OSError:
                return
            if not data:
                return
            self._bytes += data
            self._files += files

    def close(self) -> None:
        self._socket.close()
