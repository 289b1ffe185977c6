"""One worker process: started in its own group, fed over private pipes, and always ended with all its children."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from forwardlens.runner.pipes import open_pipes
from forwardlens.runner.request import OnProgress, Progress, RunFailedError

WORKER = Path(__file__).resolve().parent.parent / "worker" / "__main__.py"
# What is kept of the user's output; older text is dropped, however much is printed.
LOG_LIMIT = 64 * 1024
# How often a wait looks whether it was cancelled.
_POLL_S = 0.05
_CLOSED = object()


class Worker:
    """A running worker. Use as a context manager: leaving it ends the process and its children."""

    def __init__(self, python: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        """Raises `RunFailedError` if the interpreter cannot be started."""
        messages, self._requests, ends = open_pipes()
        command = [python, "-u", str(WORKER), str(ends.read), str(ends.write)]
        try:
            process: Any = subprocess.Popen(
                command,
                cwd=folder,
                env=_environment() | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                **ends.popen,
                **_own_group(),
            )
        except OSError as error:
            messages.close()
            self._requests.close()
            reason = error.strerror or str(error)
            raise RunFailedError("environment", f"cannot start the interpreter {python}: {reason}") from None
        finally:
            ends.close()
        self._process: subprocess.Popen[bytes] = process
        self._log = _Log()
        self._messages: queue.Queue[Any] = queue.Queue()
        self._start_thread(self._read_messages, messages)
        assert self._process.stdout is not None
        self._log_thread = self._start_thread(self._log.drain, self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_ready(self, cancelled: threading.Event) -> None:
        """Until torch is imported. Raises `RunFailedError`."""
        self._next(cancelled, lambda _: None)

    def ask(self, request: dict[str, Any], on_progress: OnProgress, cancelled: threading.Event) -> Any:
        """Send one request and wait for its result. Raises `RunFailedError`, also soon after `cancelled` is set."""
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except OSError:
            raise self._death() from None
        return self._next(cancelled, on_progress)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._requests.close()
        _end_group(self._process)
        self._process.wait()
        self._log_thread.join(timeout=1)

    def _start_thread(self, target: Any, stream: BinaryIO | Any) -> threading.Thread:
        thread = threading.Thread(target=target, args=(stream,), daemon=True)
        thread.start()
        return thread

    def _read_messages(self, stream: BinaryIO) -> None:
        with stream:
            for line in stream:
                try:
                    self._messages.put(json.loads(line))
                except ValueError:
                    break
        self._messages.put(_CLOSED)

    def _next(self, cancelled: threading.Event, on_progress: OnProgress) -> Any:
        while True:
            if cancelled.is_set():
                raise RunFailedError("cancelled", "the run was cancelled")
            try:
                message = self._messages.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if message is _CLOSED:
                raise self._death()
            if message["kind"] == "progress":
                on_progress(Progress(message["stage"], message["message"], message["fraction"]))
            elif message["kind"] == "failed":
                raise RunFailedError(
                    message["failure"],
                    message["message"],
                    message["file"],
                    message["line"],
                    message["trace"],
                    self._log.text(),
                )
            else:
                return message.get("result")

    def _death(self) -> RunFailedError:
        code = self._process.wait()
        self._log_thread.join(timeout=1)
        return RunFailedError(
            "crashed", f"the run ended without an answer: {_describe_exit(code)}", log=self._log.text()
        )


class _Log:
    """The end of what a process printed."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def drain(self, stream: BinaryIO) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), 8192):
                with self._lock:
                    self._chunks.append(chunk)
                    self._size += len(chunk)
                    while self._size > LOG_LIMIT and len(self._chunks) > 1:
                        self._size -= len(self._chunks.popleft())

    def text(self) -> str:
        with self._lock:
            lines = b"".join(self._chunks).decode("utf-8", "replace").splitlines(keepends=True)
        # The profiler library reports its own starts and stops on standard error.
        return "".join(line for line in lines if not line.startswith("USDT:"))


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8:backslashreplace"}


def _own_group() -> dict[str, Any]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW}
    return {"start_new_session": True}


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and everything it started."""
    if sys.platform == "win32":
        command = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        process.kill()


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"the process exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the process was ended by {name}"
