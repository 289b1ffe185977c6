"""The worker's side of the pipes."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from forwardlens.worker import channel as module
from forwardlens.worker.channel import Channel


def test_a_worker_that_has_answered_says_goodbye_however_soon_the_pipe_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[object] = []
    # In a worker these change the process that they run in.
    monkeypatch.setattr(module, "end_group", killed.append)
    monkeypatch.setattr(module, "announce_exit", lambda _: os._exit)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(module, "keep_open", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    requests, to_worker = os.pipe()
    from_worker, answers = os.pipe()
    channel: Any = Channel(requests, answers, "word")
    # Held from here on: it may be over as soon as the pipe is closed.
    reader = next(thread for thread in threading.enumerate() if thread.name == "forwardlens-requests")
    os.write(to_worker, b'{"op": "profile"}\n')
    assert channel.receive() == {"op": "profile"}
    channel.send("done", result=1)
    os.close(to_worker)
    # The end of the pipe is seen before the worker asks for its next request.
    reader.join()
    assert channel.receive() is None
    assert killed == []
    assert b"done" in os.read(from_worker, 1000)
    os.close(from_worker)
