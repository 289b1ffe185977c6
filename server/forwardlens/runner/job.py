"""A Windows job object: its processes end together, also when the one that made it dies, and share a memory limit."""

from __future__ import annotations

import ctypes
import subprocess
import sys

_EXTENDED_LIMIT_INFORMATION = 9
_LIMIT_PROCESS_MEMORY = 0x100
_LIMIT_KILL_ON_JOB_CLOSE = 0x2000


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class _ExtendedLimits(ctypes.Structure):
    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


if sys.platform == "win32":

    class Job:
        """Holds a process and its children. Where the system refuses one, only the process itself is ended."""

        def __init__(self, process: subprocess.Popen[bytes]) -> None:
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            self._kernel.CreateJobObjectW.restype = ctypes.c_void_p
            self._handle = ctypes.c_void_p(self._kernel.CreateJobObjectW(None, None))
            self.limit_memory(None)
            handle = int(process._handle)  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]  # noqa: SLF001  no public name
            self._kernel.AssignProcessToJobObject(self._handle, ctypes.c_void_p(handle))

        def limit_memory(self, limit: int | None) -> None:
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _LIMIT_KILL_ON_JOB_CLOSE
            if limit is not None:
                limits.BasicLimitInformation.LimitFlags |= _LIMIT_PROCESS_MEMORY
                limits.ProcessMemoryLimit = limit
            self._kernel.SetInformationJobObject(
                self._handle, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
            )

        def end(self) -> None:
            self._kernel.TerminateJobObject(self._handle, 1)
            self._kernel.CloseHandle(self._handle)
            self._handle = ctypes.c_void_p(None)
