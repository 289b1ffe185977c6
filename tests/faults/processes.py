"""Which processes a test has started, seen from outside."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from forwardlens.runner.tree import MARK


def workers(token: str) -> set[int]:
    """Living workers, and what they started, of servers and commands that were given `token` in their environment.

    A spare does not count: it stands in its interpreter's folder and has run nothing. Linux tells environments;
    elsewhere nothing is seen.
    """
    return set(_workers(token)) if sys.platform == "linux" else set()


def wait_until_gone(token: str, seconds: float) -> set[int]:
    """What is still there after so long."""
    deadline = time.monotonic() + seconds
    while (left := workers(token)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _workers(token: str) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal():
                values = (entry / "environ").read_bytes().split(b"\0")
                marked = any(value.startswith(f"{MARK}=".encode()) for value in values)
                if marked and token.encode() in values and not _is_spare(entry):
                    yield int(entry.name)


def _is_spare(entry: Path) -> bool:
    return (entry / "cwd").readlink() == Path(sys.executable).parent
