# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Ending a forward that takes too long or too much memory, from outside it."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

# A first forward that takes longer than this is measured in part.
DEFAULT_S = 60.0
_POLL_S = 0.02


class Stopped(BaseException):
    """Ends the user's code; not an Exception, so that its handlers let it pass."""


class Limit:
    """Raises `Stopped` in the thread that entered it once `seconds` are over, or once the process's peak memory has
    grown by `grown_bytes`; `reached` says whether it did.

    It takes effect between two Python instructions: one long operator is waited for.
    """

    def __init__(self, seconds: float, grown_bytes: int | None = None) -> None:
        self.reached = False
        self._seconds, self._grown = seconds, grown_bytes
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Limit:
        self._thread = threading.get_ident()
        self._watcher = threading.Thread(target=self._watch, name="forwardlens-limit", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, kind, error, trace) -> bool:
        with self._lock:
            self._over.set()
            if self.reached and kind is not Stopped:
                _raise_in(self._thread, None)  # it was on its way while the body ended by itself
        self._watcher.join()
        return kind is Stopped

    def _watch(self) -> None:
        deadline, before = time.monotonic() + self._seconds, peak_memory()
        while not self._over.wait(min(_POLL_S, self._seconds)):
            grown = self._grown is not None and peak_memory() - before > self._grown
            if grown or time.monotonic() > deadline:
                break
        with self._lock:
            if not self._over.is_set():
                self.reached = True
                _raise_in(self._thread, Stopped)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    value = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


def peak_memory() -> int:
    """Most bytes this process has had in memory at once."""
    if sys.platform == "win32":
        return _windows_peak_memory()
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _windows_peak_memory() -> int:
    class Counters(ctypes.Structure):
        _fields_ = [
            ("cb", ctypes.c_ulong),
            ("PageFaultCount", ctypes.c_ulong),
            *((name, ctypes.c_size_t) for name in ("PeakWorkingSetSize", "WorkingSetSize")),
            *((f"quota_{number}", ctypes.c_size_t) for number in range(4)),
            *((name, ctypes.c_size_t) for name in ("PagefileUsage", "PeakPagefileUsage")),
        ]

    counters = Counters(cb=ctypes.sizeof(Counters))
    process = ctypes.windll.kernel32.GetCurrentProcess()
    ctypes.windll.psapi.GetProcessMemoryInfo(ctypes.c_void_p(process), ctypes.byref(counters), counters.cb)
    return counters.PeakWorkingSetSize
