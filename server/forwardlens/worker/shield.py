# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What the user's code must not take from the worker: the pipes it answers on, and its last words."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable


def keep_open(fds: tuple[int, ...]) -> None:
    """Programs that turn into daemons close every descriptor there is; to them ours do not exist."""
    close, closerange = os.close, os.closerange

    def shielded_close(fd):
        if fd in fds:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        close(fd)

    def shielded_closerange(low, high):
        for fd in sorted(fd for fd in fds if low <= fd < high):
            closerange(low, fd)
            low = fd + 1
        closerange(low, high)

    os.close, os.closerange = shielded_close, shielded_closerange


def announce_exit(tell: Callable[[int], None]) -> Callable[[int], None]:
    """Call `tell` before `os._exit` ends this process, not a fork of it; returns the real `os._exit`."""
    leave, process = os._exit, os.getpid()

    def told_exit(status):
        if os.getpid() == process:
            with contextlib.suppress(Exception):
                tell(status)
        leave(status)

    os._exit = told_exit
    return leave


def die_with(life: int) -> None:
    """End this process and its children when the other end of the pipe `life` closes, whatever they are doing.

    Linux signals the whole group itself, even while C code holds the interpreter. Elsewhere `Channel` sees the end of
    its own pipe, as soon as Python code can run; on Windows a job object does the rest.
    """
    if sys.platform != "linux":
        return
    import fcntl

    os.set_inheritable(life, False)
    with contextlib.suppress(OSError):  # a kernel without it
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


def end_group(leave: Callable[[int], None]) -> None:
    """End this process and all in its group, without a word."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    leave(0)
