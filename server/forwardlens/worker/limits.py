# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Ending a forward that takes too long or too much memory, from outside it."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

# A first forward that takes longer than this is measured in part.
DEFAULT_S = 60.0
_POLL_S = 0.02
# How often code that does not stop is stopped again, before it counts as stuck.
PATIENCE, _RETRY_S = 4, 5.0


class Stopped(BaseException):
    """Ends the user's code; not an Exception, so that its handlers let it pass."""


class Limit:
    """Raises `Stopped` in the thread that entered it once `seconds` are over, or once the process's peak memory has
    grown by `grown_bytes`; `reached` says whether it did.

    It takes effect between two Python instructions: one long operator is waited for. Code that goes on, because it
    waits for ever or handles every exception, is stopped again and again; after `PATIENCE` times `when_stuck` is called
    in another thread with the frame it stands in.
    """

    def __init__(
        self,
        seconds: float,
        grown_bytes: int | None = None,
        when_stuck: Callable[[FrameType | None], None] = lambda _: None,
    ) -> None:
        self.reached = False
        self._seconds, self._grown, self._when_stuck = seconds, grown_bytes, when_stuck
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Limit:
        self._thread = threading.get_ident()
        self._watcher = threading.Thread(target=self._watch, name="forwardlens-limit", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, kind, error, trace) -> bool:
        while not self._over.is_set():
            with contextlib.suppress(Stopped):
                self._finish()
        self._watcher.join()
        return kind is Stopped

    def _finish(self) -> None:
        with self._lock:
            if self.reached:
                # One more may be on its way. It is made to arrive here: withdrawing it leaves the interpreter
                # looking for it at every instruction (CPython 3.11).
                with contextlib.suppress(Stopped):
                    _raise_in(self._thread, Stopped)
                    while True:
                        pass
            self._over.set()

    def _watch(self) -> None:
        deadline, before = time.monotonic() + self._seconds, peak_memory()
        while not self._over.wait(min(_POLL_S, self._seconds)):
            grown = self._grown is not None and peak_memory() - before > self._grown
            if grown or time.monotonic() > deadline:
                break
        for _ in range(PATIENCE):
            with self._lock:
                if self._over.is_set():
                    return
                self.reached = True
                _raise_in(self._thread, Stopped)
            if self._over.wait(_RETRY_S):
                return
        self._when_stuck(sys._current_frames().get(self._thread))


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


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
