"""Measuring a forward and trying edits, in a worker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from forwardlens.model import Verification
from forwardlens.runner.interpreter import Interpreter, choose_interpreter
from forwardlens.runner.process import Worker
from forwardlens.runner.request import OnProgress, Progress, RunFailedError, RunRequest


def start_worker(
    request: RunRequest, on_progress: OnProgress, cancelled: threading.Event, spare: Worker | None = None
) -> Worker:
    """A worker of the request's interpreter with torch imported: `spare`, if it lives. Raises `RunFailedError`."""
    interpreter = choose_interpreter(request.python, request.workspace)
    on_progress(Progress("start", f"Starting {interpreter.path}"))
    if spare is not None and spare.alive:
        worker = spare
    else:
        worker = Worker(interpreter.path, request.cwd or request.workspace, request.environment)
    try:
        worker.wait_ready(cancelled)
    except BaseException as error:
        worker.close()
        if isinstance(error, RunFailedError) and error.kind == "crashed":
            raise _not_usable(interpreter, error) from None
        raise
    return worker


def _not_usable(interpreter: Interpreter, death: RunFailedError) -> RunFailedError:
    """One that is no Python, or is older than the worker's syntax, ends before it says a word."""
    message = f"{interpreter.path} did not start: {death.message}; choose a Python 3.10 or later that has torch"
    return replace(death, kind="environment", message=message)


def record(worker: Worker, request: RunRequest, on_progress: OnProgress, cancelled: threading.Event) -> Any:
    """The raw recording of one forward (`attribution.recording.Recording`). Raises `RunFailedError`."""
    return worker.ask({"op": "profile", **_fields(request)}, on_progress, cancelled)


def try_edit(
    worker: Worker,
    request: RunRequest,
    before: Mapping[str, str],
    after: Mapping[str, str],
    *,
    graph_may_vanish: bool,
    cancelled: threading.Event,
) -> Verification:
    """Run the program with the texts `after` against the one with `before`; both map paths to whole files.

    `graph_may_vanish` allows the outputs to lose their autograd graph, which is what a grad-mode fix is for.
    Raises `RunFailedError` only if the worker cannot go on; an edit that fails is a verification that says so.
    """
    fields = {**_fields(request), "before": dict(before), "after": dict(after), "graph_may_vanish": graph_may_vanish}
    return Verification(**worker.ask({"op": "verify", **fields}, lambda _: None, cancelled))


def _fields(request: RunRequest) -> dict[str, Any]:
    return {
        "entry": request.entry,
        "workspace": str(request.workspace.resolve()),
        "folder": str((request.cwd or request.workspace).resolve()),
        "target": request.target,
        "device": request.device,
        "iterations": request.iterations,
        "warmup": request.warmup,
        "backward": request.backward,
        "graph_breaks": request.graph_breaks,
        "include": list(request.include),
        "arguments": list(request.arguments),
        "save_trace": request.save_trace,
        "time_limit": request.time_limit,
        "memory_limit": request.memory_limit,
        "overlays": dict(request.overlays),
    }
