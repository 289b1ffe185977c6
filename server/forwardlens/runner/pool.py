"""Keeps the worker of a finished run for a while, so that its fixes can be tried without importing torch again."""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Generator

from forwardlens.runner.process import Worker
from forwardlens.runner.request import OnProgress, RunRequest
from forwardlens.runner.runner import start_worker

IDLE_S = 120.0


class WorkerPool:
    """At most one parked worker, for the request it has just served. Another request never gets it: what one
    program does to its process must not show in another's figures.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parked: tuple[RunRequest, Worker, threading.Timer] | None = None
        atexit.register(self.close)

    @contextlib.contextmanager
    def worker(self, request: RunRequest, on_progress: OnProgress, cancelled: threading.Event) -> Generator[Worker]:
        """The parked worker if it served this very request, else a new one; parked again unless the body raises."""
        worker = self._take(request) or start_worker(request, on_progress, cancelled)
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        self._park(request, worker)

    def close(self) -> None:
        """End the parked worker, if any."""
        with self._lock:
            parked, self._parked = self._parked, None
        if parked is not None:
            parked[2].cancel()
            parked[1].close()

    def _take(self, request: RunRequest) -> Worker | None:
        with self._lock:
            if self._parked is None or self._parked[0] is not request:
                return None
            _, worker, timer = self._parked
            self._parked = None
        timer.cancel()
        return worker

    def _park(self, request: RunRequest, worker: Worker) -> None:
        self.close()
        timer = threading.Timer(IDLE_S, self.close)
        timer.daemon = True
        with self._lock:
            self._parked = (request, worker, timer)
        timer.start()
