"""A process of ours and everything it starts: set apart at its start, ended together.

On POSIX they are a process group. A child that leaves the group by a session of its own is found on Linux by the mark
in the environment it inherited, unless it cleared that; elsewhere it is lost. On Windows they are a job object, which
nothing leaves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARK = "FORWARDLENS_RUN"
_ROUNDS = 5


def popen_arguments() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


class Tree:
    """`mark` is the value of the variable `MARK` in the environment of the process."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process, self._mark = process, f"{MARK}={mark}".encode()
        if sys.platform == "win32":
            from forwardlens.runner.job import Job

            self._job = Job(process)

    def limit_memory(self, limit: int | None) -> None:
        """On Windows the limit of each process; elsewhere the worker limits itself."""
        if sys.platform == "win32":
            self._job.limit_memory(limit)

    def kill(self) -> None:
        """End all of it at once."""
        if sys.platform == "win32":
            self._job.end()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._process.kill()
        if sys.platform == "linux":
            self._kill_marked()

    if sys.platform == "linux":

        def _kill_marked(self) -> None:
            """Again as long as there are any: one may have been starting another."""
            for _ in range(_ROUNDS):
                marked = list(_processes_with(self._mark))
                if not marked:
                    break
                for pid in marked:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)


def _processes_with(variable: bytes) -> Iterator[int]:
    """Living processes with this in their environment; a dead one has none any more."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if variable in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)
