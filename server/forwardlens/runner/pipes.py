"""Private pipes to a child process, on POSIX and Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO


@dataclass(frozen=True)
class ChildEnds:
    """What the child inherits: numbers for its command line and the Popen arguments that let them through.

    Nothing is ever written to `life`: it closes when we end, however we end, and so tells the child.
    """

    read: int
    write: int
    life: int
    popen: dict[str, Any]
    _fds: tuple[int, ...]

    def close(self) -> None:
        """Close our copies once the child has its own, so that each side sees the other's death."""
        for fd in self._fds:
            os.close(fd)


def open_pipes() -> tuple[BinaryIO, BinaryIO, BinaryIO, ChildEnds]:
    """`(messages from the child, requests to the child, our end of its life line, the child's ends)`."""
    child_read, requests = os.pipe()
    messages, child_write = os.pipe()
    child_life, life = os.pipe()
    fds = (child_read, child_write, child_life)
    if sys.platform == "win32":
        import msvcrt

        handles = [msvcrt.get_osfhandle(fd) for fd in fds]
        for handle in handles:
            os.set_handle_inheritable(handle, True)  # noqa: FBT003
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles})
        ends = ChildEnds(*handles, {"startupinfo": startup}, fds)
    else:
        ends = ChildEnds(*fds, {"pass_fds": fds}, fds)
    return os.fdopen(messages, "rb"), os.fdopen(requests, "wb"), os.fdopen(life, "wb"), ends
