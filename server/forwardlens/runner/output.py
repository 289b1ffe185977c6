"""What the user's code prints, bounded however much it is."""

from __future__ import annotations

import os
import threading
import time
from typing import BinaryIO

from forwardlens.runner.tail import Tail

# What is kept of the end of it, for the message of a run that fails.
KEPT = 64 * 1024
# What is passed on to a log while it runs: pieces of at most so much, so often, and so much for one request.
PIECE, INTERVAL_S, MOST = 16 * 1024, 0.25, 256 * 1024


class Output:
    """Drains a stream; `take` hands on what a log can bear and says what it left out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tail = Tail(KEPT)
        self._pending = bytearray()
        self._left_out = 0
        self._taken = 0
        self._last = 0.0

    def drain(self, stream: BinaryIO) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), PIECE):
                with self._lock:
                    self._tail.add(chunk)
                    room = max(PIECE - len(self._pending), 0)
                    self._pending += chunk[:room]
                    self._left_out += len(chunk) - len(chunk[:room])

    def tail(self) -> str:
        with self._lock:
            return _clean(self._tail.read())

    def begin(self) -> None:
        """A new request, with a log of its own."""
        with self._lock:
            self._pending.clear()
            self._left_out = self._taken = 0

    def take(self, *, rest: bool = False) -> str:
        """What to log now, in whole lines; often nothing. `rest` is for the end of a request."""
        now = time.monotonic()
        with self._lock:
            if not rest and (now - self._last < INTERVAL_S or self._taken >= MOST):
                return ""
            self._last = now
            if self._taken >= MOST:
                self._left_out += len(self._pending)
                self._pending.clear()
            end = len(self._pending) if rest or self._left_out else self._pending.rfind(b"\n") + 1
            text = _clean(bytes(self._pending[:end]))
            del self._pending[:end]
            self._taken += end
            left_out, self._left_out = self._left_out, 0
            if self._taken >= MOST and not rest:
                self._left_out, left_out = left_out, 0  # said once, at the end
        return text + (f"\n[{left_out:,} bytes of output left out]\n" if left_out else "")


def _clean(data: bytes) -> str:
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    # The profiler library reports its own starts and stops on standard error.
    return "".join(line for line in lines if not line.startswith("USDT:"))
