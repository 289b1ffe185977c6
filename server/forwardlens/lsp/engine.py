"""What the server needs from the rest of the package: something that measures and something that tries fixes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from forwardlens.config import Settings
from forwardlens.runner.request import OnProgress, RunRequest

if TYPE_CHECKING:
    from forwardlens.workflow import Result


class Engine(Protocol):
    """Each method blocks and is called in a thread of its own; each may raise `RunFailedError`."""

    def prepare(self, python: str | None, folder: Path, /) -> None: ...

    def profile(
        self, request: RunRequest, settings: Settings, on_progress: OnProgress, cancelled: threading.Event, /
    ) -> Result: ...

    def verify(self, result: Result, on_progress: OnProgress, cancelled: threading.Event, /) -> Result: ...


class WorkflowEngine:
    """The real one. It is imported by the first run, so that the server is there before the rules are."""

    def prepare(self, python: str | None, folder: Path, /) -> None:
        from forwardlens import workflow

        workflow.prepare(python, folder)

    def profile(
        self, request: RunRequest, settings: Settings, on_progress: OnProgress, cancelled: threading.Event, /
    ) -> Result:
        from forwardlens import workflow

        return workflow.profile(request, settings, on_progress, cancelled)

    def verify(self, result: Result, on_progress: OnProgress, cancelled: threading.Event, /) -> Result:
        from forwardlens import workflow

        return workflow.verify(result, on_progress, cancelled)
