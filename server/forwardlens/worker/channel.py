# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""JSON lines over two private pipes. Standard output stays the user's."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading


class Channel:
    """Requests in, messages out.

    A thread waits for requests, so that the process ends as soon as the server's end of the pipe closes, whatever
    the user's code is doing.
    """

    def __init__(self, read_end: int, write_end: int) -> None:
        self._in = os.fdopen(_to_fd(read_end, os.O_RDONLY), "rb")
        self._out = os.fdopen(_to_fd(write_end, os.O_WRONLY), "wb")
        self._lock = threading.Lock()
        self._requests: queue.Queue[dict] = queue.Queue()
        threading.Thread(target=self._read, name="forwardlens-requests", daemon=True).start()

    def _read(self) -> None:
        for line in self._in:
            self._requests.put(json.loads(line))
        os._exit(0)

    def receive(self) -> dict:
        return self._requests.get()

    def send(self, kind: str, **fields: object) -> None:
        data = json.dumps({"kind": kind, **fields}, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            self._out.write(data)
            self._out.flush()

    def progress(self, stage: str, message: str, fraction: float | None = None) -> None:
        self.send("progress", stage=stage, message=message, fraction=fraction)


def _to_fd(end: int, flags: int) -> int:
    """A file descriptor for an inherited pipe end, which children of the user's code must not inherit."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.open_osfhandle(end, flags)
    os.set_inheritable(end, False)
    return end
