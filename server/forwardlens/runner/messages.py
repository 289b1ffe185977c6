"""What arrives on a worker's pipe: its messages, and whatever else is put there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from forwardlens.runner.tail import Tail

# A line that is no message is read in pieces of this size, and about as much of all such text is kept.
_PIECE = 64 * 1024


class MessageStream:
    """The messages of one worker. Each stands on a line of its own that begins with `token`, which nobody else knows:
    other bytes, however many, never become or break a message.

    `stray` is the end of those other bytes. The interpreter's fault handler writes there too.
    """

    def __init__(self, stream: BinaryIO, token: str) -> None:
        self._stream, self._start = stream, token.encode() + b" "
        self._stray = Tail(_PIECE)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._stream as stream:
            while piece := stream.readline(_PIECE):
                if not piece.startswith(self._start):
                    if piece != b"\n":  # every message begins with one, to stand apart from what came before
                        self._stray.add(piece)
                    continue
                line = piece if piece.endswith(b"\n") else piece + stream.readline()
                message = self._parse(line)
                if message is not None:
                    yield message

    @property
    def stray(self) -> str:
        return self._stray.read().decode("utf-8", "replace")

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        try:
            return cast("dict[str, Any]", json.loads(line[len(self._start) :]))
        except ValueError:  # the process ended while it wrote
            return None
