# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""A bound on the memory of the user's code, so that it fails on its own line and not the whole machine with it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

# Of the machine's memory, or of what the container may have, when nothing else is asked for.
DEFAULT_SHARE = 0.9
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@contextlib.contextmanager
def bounded(limit: int | None) -> Iterator[None]:
    """Within it, allocations beyond `limit` bytes of private memory fail the way allocations do.

    Linux only. Windows bounds the process from outside (`runner/job.py`); macOS keeps no such limit, and memory beyond
    the machine's ends there as it would without us.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = limit or _default()
    if wanted is None or (soft != resource.RLIM_INFINITY and soft <= wanted):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _default() -> int | None:
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUPS:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            sizes.append(int(file.read()))
    return int(DEFAULT_SHARE * min(sizes))
