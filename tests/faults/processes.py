"""Which processes a test has started, seen from outside."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from forwardlens.runner.tree import MARK


def workers(token: str, *, spares: bool = False) -> set[int]:
    """Living workers, and what they started, of servers and commands that were given `token` in their environment.

    A spare counts only if asked for: it stands in its interpreter's folder and has run nothing. Linux tells
    environments; elsewhere nothing is seen.
    """
    return set(_workers(token, spares)) if sys.platform == "linux" else set()


def wait_until_gone(token: str, seconds: float, *, spares: bool = False) -> set[int]:
    """What is still there after so long."""
    deadline = time.monotonic() + seconds
    while (left := workers(token, spares=spares)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _workers(token: str, spares: bool) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal():
                values = (entry / "environ").read_bytes().split(b"\0")
                marked = any(value.startswith(f"{MARK}=".encode()) for value in values)
                if marked and token.encode() in values and (spares or not _is_spare(entry)):
                    yield int(entry.name)


def _is_spare(entry: Path) -> bool:
    return (entry / "cwd").readlink() == Path(sys.executable).parent
