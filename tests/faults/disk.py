"""Disks that are full and folders that may not be written to, for real, also for a superuser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

# Without this capability a superuser is held by the modes of files like anybody else, and so is what it starts.
_DROP = """\
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
_PROBE = "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'probe').touch()"


@contextmanager
def full_disk(size: int) -> Generator[None]:
    """Within it, no file can grow beyond `size` bytes, neither here nor in what is started."""
    if sys.platform == "win32":
        pytest.skip("Windows has no limit on the size of files")
    import resource

    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


@contextmanager
def read_only(folder: Path) -> Generator[None]:
    """Within it, a command that is `held_by_modes` can make no file in the folder. Skips where that cannot be had."""
    folder.chmod(0o555)
    try:
        probe = held_by_modes([sys.executable, "-c", _PROBE, str(folder)])
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            pytest.skip("this user writes to read-only folders too")
        yield
    finally:
        folder.chmod(0o755)


def held_by_modes(command: Sequence[str]) -> list[str]:
    return [*([sys.executable, "-c", _DROP] if _is_superuser() else ()), *command]


def _is_superuser() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0
