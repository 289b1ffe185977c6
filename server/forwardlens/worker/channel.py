# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""JSON lines over two private pipes. Standard output stays the user's."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading

from .shield import announce_exit, end_group, keep_open

_ANSWERS = ("done", "failed")


class Channel:
    """Requests in, messages out.

    A thread waits for requests, so that the process ends as soon as the server's end of the pipe closes, whatever the
    user's code is doing. An idle one is told by `receive` and may say goodbye.
    """

    def __init__(self, read_end: int, write_end: int, token: str) -> None:
        self._in = os.fdopen(_to_fd(read_end, os.O_RDONLY), "rb")
        self._out = os.fdopen(_to_fd(write_end, os.O_WRONLY), "wb")
        # On a line of its own, behind what only we know: whatever else is written to the pipe is no message.
        self._start = f"\n{token} ".encode()
        self._lock = threading.Lock()
        self._requests: queue.Queue[dict | None] = queue.Queue()
        self._process = os.getpid()
        self._unanswered = 0
        self.exiting = lambda status: None
        keep_open((self._in.fileno(), self._out.fileno()))
        self.leave = announce_exit(lambda status: self.exiting(status))
        threading.Thread(target=self._read, name="forwardlens-requests", daemon=True).start()

    def fileno(self) -> int:
        """Where the interpreter's fault handler may write."""
        return self._out.fileno()

    def _read(self) -> None:
        for line in self._in:
            with self._lock:
                self._unanswered += 1
            self._requests.put(json.loads(line))
        if self._unanswered:
            end_group(self.leave)
        self._requests.put(None)

    def receive(self) -> dict | None:
        """The next request, after the one before was answered; None when there will be no more."""
        self._end_fork()
        return self._requests.get()

    def send(self, kind: str, **fields: object) -> None:
        data = json.dumps({"kind": kind, **fields}, separators=(",", ":"), default=str).encode()
        self._end_fork()
        with self._lock:
            if kind in _ANSWERS:
                # Before the server knows of it: it may close the pipe at once, and this process is idle by then.
                self._unanswered = max(self._unanswered - 1, 0)
            self._out.write(self._start + data + b"\n")
            self._out.flush()

    def progress(self, stage: str, message: str, fraction: float | None = None) -> None:
        self.send("progress", stage=stage, message=message, fraction=fraction)

    def _end_fork(self) -> None:
        """A fork of the user's that came back here has nobody to answer."""
        if os.getpid() != self._process:
            self.leave(0)


def _to_fd(end: int, flags: int) -> int:
    """A file descriptor for an inherited pipe end, which children of the user's code must not inherit."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.open_osfhandle(end, flags)
    os.set_inheritable(end, False)
    return end
