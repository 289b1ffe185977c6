# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""The worker's loop: one request at a time, one answer each."""

from __future__ import annotations

import atexit
import faulthandler
import gc
import platform
import sys
import threading

from .channel import Channel
from .failures import NO_EXIT, Failure, from_exception, from_stack
from .shield import die_with, end_group

OLDEST_PYTHON = (3, 10)
OLDEST_TORCH = (2, 4)


def serve(read_end: int, write_end: int, life_end: int, token: str) -> None:
    die_with(life_end)
    channel = Channel(read_end, write_end, token)
    faulthandler.enable(channel.fileno())
    try:
        session = _open_session(channel)
    except Failure as failure:
        channel.send("failed", **failure.fields())
        return
    channel.send("ready")
    while (request := channel.receive()) is not None:
        channel.send(**_answer(channel, session, request))
    _say_goodbye(channel, session)


def _answer(channel: Channel, session, request: dict) -> dict:
    """The message that ends a request: `done` with its result, or `failed`."""
    try:
        channel.exiting = lambda status: _tell_exit(channel, session.doing, session.is_user, status)
        return {"kind": "done", "result": session.handle(request)}
    except Failure as failure:
        return {"kind": "failed", **failure.fields()}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: the user's code must not end the worker without a word
        return {"kind": "failed", **from_exception(error, session.doing, session.is_user).fields()}


def _tell_exit(channel: Channel, doing: str, is_user, status: int) -> None:
    """`os._exit` leaves no trace, so where it was called is told before it."""
    reason = f"the run ended without an answer: the process exited with code {status} by os._exit"
    channel.send("failed", **from_stack(sys._getframe(2), reason, doing, is_user, NO_EXIT).fields())


def _say_goodbye(channel: Channel, session) -> None:
    """What the end of an interpreter does for the user's code: wait for its threads, call its exit handlers."""
    told = lambda it: channel.send("failed", **from_exception(it.exc_value, "ending", session.is_user).fields())  # noqa: E731
    sys.unraisablehook = told
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    end_group(channel.leave)


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

    # Looking through all that torch is made of takes some 200 ms, in the middle of a forward or of reading its profile.
    gc.freeze()
    return Session(channel)
