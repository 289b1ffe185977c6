"""Workers kept for a while: the one of a finished run, whose fixes are tried next, and spares with torch imported."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from forwardlens.runner.interpreter import choose_interpreter
from forwardlens.runner.process import Worker
from forwardlens.runner.request import OnProgress, RunFailedError, RunRequest
from forwardlens.runner.runner import start_worker

IDLE_S = 120.0
SPARE_IDLE_S = 600.0
# Each holds some 200 MB: enough for the interpreters that one person works with at a time.
MOST_SPARES = 2


@dataclass(frozen=True, slots=True)
class _Parked:
    request: RunRequest
    worker: Worker
    on_progress: OnProgress
    timer: threading.Timer


class WorkerPool:
    """At most one parked worker, for the request it has just served. Another request never gets it: what one
    program does to its process must not show in another's figures.

    At most one spare for each interpreter. It has imported torch and nothing of the user's, has not touched a device,
    and is started again after each run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parked: _Parked | None = None
        self._spares: dict[str, tuple[Worker, threading.Timer]] = {}
        self._wanted: dict[str, bool] = {}
        self._used: set[str] = set()
        self._running = 0
        atexit.register(self.close)

    def prepare(self, python: str, *, after_run: bool = False) -> None:
        """Have a spare of this interpreter, for `SPARE_IDLE_S` from now on. Returns at once.

        With `after_run` it is not started before a run has used the interpreter.
        Next to a run, importing torch would show in its times, so it is started after it.
        """
        if _imports_from_here():
            return
        with self._lock:
            others = ((other, held) for other, held in self._wanted.items() if other != python)
            self._wanted = {python: after_run, **dict(islice(others, MOST_SPARES - 1))}
            if self._running or self._parked is not None or (after_run and python not in self._used):
                return
            unwanted = [self._spares.pop(other)[0] for other in list(self._spares) if other not in self._wanted]
            known, timer = self._spares.pop(python, (None, None))
            if timer is not None:
                timer.cancel()
            worker = known if known is not None and known.alive else _start_spare(python)
            if worker is not None:
                timer = _timer(SPARE_IDLE_S, lambda: self._drop_spare(worker))
                self._spares[python] = worker, timer
        for other in unwanted:
            other.close()

    @contextlib.contextmanager
    def worker(
        self, request: RunRequest, on_progress: OnProgress, cancelled: threading.Event, *, keep: bool
    ) -> Generator[Worker]:
        """The parked worker if it served this very request, else a new one; parked again to `keep` it for the next
        step of the same run. It ends at once if the body raises.
        """
        with self._one_run():
            worker = self._take(request) or start_worker(request, on_progress, cancelled, self._take_spare(request))
            self._used.add(_python_of(request))
            try:
                yield worker
            except BaseException:
                worker.close()
                raise
            if keep:
                self._park(request, worker, on_progress)
            else:
                worker.end(on_progress)

    @contextlib.contextmanager
    def _one_run(self) -> Generator[None]:
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
            self._prepare_again()

    def release(self, request: RunRequest, on_progress: OnProgress) -> None:
        """The run of `request` needs its worker no more."""
        worker = self._take(request)
        if worker is not None:
            worker.end(on_progress)
            self._prepare_again()

    def close(self) -> None:
        """End every worker."""
        self._unpark()
        with self._lock:
            self._wanted = {}
            spares, self._spares = list(self._spares.values()), {}
        for worker, timer in spares:
            timer.cancel()
            worker.close()

    def _take(self, request: RunRequest) -> Worker | None:
        with self._lock:
            parked = self._parked
            if parked is None or parked.request is not request:
                return None
            self._parked = None
        parked.timer.cancel()
        return parked.worker

    def _park(self, request: RunRequest, worker: Worker, on_progress: OnProgress) -> None:
        self._unpark()
        with self._lock:
            self._parked = _Parked(request, worker, on_progress, _timer(IDLE_S, self._unpark))

    def _unpark(self) -> None:
        with self._lock:
            parked, self._parked = self._parked, None
        if parked is not None:
            parked.timer.cancel()
            parked.worker.end(parked.on_progress)

    def _take_spare(self, request: RunRequest) -> Worker | None:
        """None also for a run with variables of its own: what torch reads at its import must be set before."""
        if request.environment:
            return None
        with self._lock:
            worker, timer = self._spares.pop(_python_of(request), (None, None))
        if timer is not None:
            timer.cancel()
        return worker

    def _drop_spare(self, worker: Worker) -> None:
        with self._lock:
            self._spares = {python: spare for python, spare in self._spares.items() if spare[0] is not worker}
        worker.close()

    def _prepare_again(self) -> None:
        for python, after_run in reversed(self._wanted.copy().items()):
            self.prepare(python, after_run=after_run)


def _python_of(request: RunRequest) -> str:
    return choose_interpreter(request.python, request.workspace).path


def _start_spare(python: str) -> Worker | None:
    """None where the interpreter does not start: the run itself will say so."""
    folder = Path(python).parent
    try:
        return Worker(python, folder if folder.is_dir() else Path.home())
    except RunFailedError:
        return None


def _imports_from_here() -> bool:
    """Whether Python would look for modules in the folder it is started in, where the user's code may lie."""
    paths = os.environ.get("PYTHONPATH")
    return bool(paths) and not all(Path(path).is_absolute() for path in paths.split(os.pathsep))


def _timer(seconds: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()
    return timer
