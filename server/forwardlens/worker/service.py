# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""The worker's loop: one request at a time, one answer each."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from .channel import Channel
from .failures import Failure, from_exception

OLDEST_PYTHON = (3, 10)
OLDEST_TORCH = (2, 4)


def serve(read_end: int, write_end: int) -> None:
    channel = Channel(read_end, write_end)
    try:
        session = _open_session(channel)
    except Failure as failure:
        channel.send("failed", **failure.fields())
        return
    channel.send("ready")
    while True:
        request = channel.receive()
        channel.send(**_answer(session, request))


def _answer(session, request: dict) -> dict:
    """The message that ends a request: `done` with its result, or `failed`."""
    is_user: Callable[[str], bool] = lambda filename: False  # noqa: E731
    try:
        is_user = session.user_code(request)
        return {"kind": "done", "result": session.handle(request)}
    except Failure as failure:
        return {"kind": "failed", **failure.fields()}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: the user's code must not end the worker without a word
        return {"kind": "failed", **from_exception(error, session.doing, is_user).fields()}


def _open_session(channel: Channel):
    """Import torch and the parts that need it. Raises `Failure` where there is none or something is too old."""
    if sys.version_info < OLDEST_PYTHON:
        raise Failure(
            "environment",
            f"{sys.executable} is Python {platform.python_version()}, which is too old; 3.10 or later is needed",
        )
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise Failure("environment", f"torch of {sys.executable} does not import: {error}") from None
        raise Failure(
            "environment",
            f"{sys.executable} has no torch; choose an interpreter that has it, or install it there",
        ) from None
    except Exception as error:
        raise Failure("environment", f"torch of {sys.executable} does not import: {error}") from None
    version = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in torch.__version__.split(".")[:2])
    if version < OLDEST_TORCH:
        raise Failure(
            "environment", f"torch {torch.__version__} of {sys.executable} is too old; 2.4 or later is needed"
        )
    from .session import Session

    return Session(channel)
