"""The end of a stream that may be long."""

from __future__ import annotations

from collections import deque


class Tail:
    """The last pieces of a stream, `most` bytes of them, or one piece that is longer."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._pieces: deque[bytes] = deque()

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        while self._size > self._most and len(self._pieces) > 1:
            self._size -= len(self._pieces.popleft())

    def read(self) -> bytes:
        return b"".join(self._pieces)
