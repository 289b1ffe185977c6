"""One worker process: set apart from us, fed over private pipes, and always ended with all its children."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forwardlens.runner.crash import describe_exit, find_crash, without_report
from forwardlens.runner.messages import MessageStream
from forwardlens.runner.output import Output
from forwardlens.runner.pipes import open_pipes
from forwardlens.runner.request import OnProgress, Progress, RunFailedError
from forwardlens.runner.tree import MARK, Tree, popen_arguments

WORKER = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"
# How often a wait looks whether it was cancelled.
_POLL_S = 0.05
# So many looks at a dead process find nothing new before what it said last is taken for all.
_MOST_SILENT = 10
# How long a process that closed its pipe has to end by itself.
_ENDING_S = 1.0
# How long the user's exit handlers may take.
_FAREWELL_S = 2.0
_CLOSED = object()


class Worker:
    """A running worker. Use as a context manager: leaving it ends the process and its children."""

    def __init__(self, python: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """Raises `RunFailedError` if the interpreter cannot be started."""
        token = secrets.token_hex(8)
        messages, self._requests, self._life, ends = open_pipes()
        command = [python, "-u", str(WORKER), *map(str, (ends.read, ends.write, ends.life)), token]
        try:
            process: Any = subprocess.Popen(
                command,
                cwd=folder,
                env=_environment(token) | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                **ends.popen,
                **popen_arguments(),
            )
        except OSError as error:
            for stream in (messages, self._requests, self._life):
                stream.close()
            reason = error.strerror or str(error)
            raise RunFailedError("environment", f"cannot start the interpreter {python}: {reason}") from None
        finally:
            ends.close()
        self._process: subprocess.Popen[bytes] = process
        self._tree = Tree(process, token)
        self._output = Output()
        self._stream = MessageStream(messages, token)
        self._messages: queue.Queue[Any] = queue.Queue()
        self._workspace: Path | None = None
        self._doing = "starting"
        _start_thread(self._read_messages)
        self._log_thread = _start_thread(lambda: self._output.drain(process.stdout))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_ready(self, cancelled: threading.Event) -> None:
        """Until torch is imported. Raises `RunFailedError`."""
        self._next(cancelled, lambda _: None)

    def ask(self, request: dict[str, Any], on_progress: OnProgress, cancelled: threading.Event) -> Any:
        """Send one request and wait for its result. Raises `RunFailedError`, also soon after `cancelled` is set."""
        self._workspace = Path(request["workspace"])
        self._tree.limit_memory(request.get("memory_limit"))
        self._output.begin()
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except OSError:
            raise self._death() from None
        try:
            return self._next(cancelled, on_progress)
        finally:
            _log_output(self._output.take(rest=True), on_progress)

    def end(self, on_progress: OnProgress) -> None:
        """Let the user's exit handlers run, tell which of them fail, then `close`."""
        with contextlib.suppress(OSError):
            self._requests.close()
        deadline = time.monotonic() + _FAREWELL_S
        with contextlib.suppress(queue.Empty):
            while (message := self._messages.get(timeout=max(deadline - time.monotonic(), 0))) is not _CLOSED:
                if message["kind"] == "failed":
                    on_progress(Progress("warning", message["message"]))
        self.close()

    def close(self) -> None:
        """End the process and all it started, at once."""
        with contextlib.suppress(OSError):
            self._requests.close()
        self._tree.kill()
        self._process.wait()
        self._life.close()
        self._log_thread.join(timeout=1)

    def _read_messages(self) -> None:
        for message in self._stream:
            self._messages.put(message)
        self._messages.put(_CLOSED)

    def _next(self, cancelled: threading.Event, on_progress: OnProgress) -> Any:
        silent = 0
        while True:
            if cancelled.is_set():
                raise RunFailedError("cancelled", f"the run was cancelled ({self._doing})", log=self._output.tail())
            _log_output(self._output.take(), on_progress)
            try:
                message = self._messages.get(timeout=_POLL_S)
            except queue.Empty:
                # The end of a pipe is not seen while children of a dead process hold it open.
                silent = 0 if self.alive else silent + 1
                if silent > _MOST_SILENT:
                    raise self._death() from None
                continue
            if message is _CLOSED:
                raise self._death()
            if message["kind"] == "progress":
                self._doing = message["message"]
                on_progress(Progress(message["stage"], message["message"], message["fraction"]))
            elif message["kind"] == "failed":
                raise self._failure(message)
            else:
                return message.get("result")

    def _failure(self, message: Mapping[str, Any]) -> RunFailedError:
        if message["failure"] == "crashed":
            # The process ends; what it printed last may come after the message, on another pipe.
            self._log_thread.join(timeout=1)
        return RunFailedError(
            message["failure"],
            message["message"],
            message["file"],
            message["line"],
            message["trace"],
            self._output.tail(),
        )

    def _death(self) -> RunFailedError:
        try:
            reason = describe_exit(self._process.wait(_ENDING_S))
        except subprocess.TimeoutExpired:
            self._tree.kill()
            reason = "it closed the pipe on which it answers"
        self._log_thread.join(timeout=1)
        log = self._output.tail()
        crash = find_crash(f"{log}\n{self._stream.stray}", self._workspace)
        message = f"the run ended without an answer: {reason}"
        if crash.place is None:
            return RunFailedError("crashed", message, log=log)
        place = f"{Path(crash.place.file).name}:{crash.place.line}"
        return RunFailedError(
            "crashed", f"{place}: {message}", crash.place.file, crash.place.line, crash.trace, without_report(log)
        )


def _start_thread(target: Any) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def _log_output(text: str, on_progress: OnProgress) -> None:
    if text:
        on_progress(Progress("output", text))


def _environment(mark: str) -> dict[str, str]:
    ours = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8:backslashreplace", MARK: mark}
    return {**os.environ, **ours}
