# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Turning what went wrong into one sentence, the user's place and the user's own traceback."""

from __future__ import annotations

import importlib
import os
import re
import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType

OURS = os.path.dirname(os.path.abspath(__file__))
_MACHINERY = ("<frozen importlib", "<frozen runpy", os.path.dirname(os.path.abspath(importlib.__file__)))

_CPP_PLACE = re.compile(r"^\[enforce fail at [^\]]*\] .*?(?=DefaultCPUAllocator)")
NO_EXIT = "; what is profiled must not exit before its forward has run"


class Failure(Exception):
    """`kind` is one of usage, entry, environment, crashed, device (exit codes 2, 3, 4, 3 and 3 of the command line)."""

    def __init__(self, kind: str, message: str, file: str | None = None, line: int | None = None, trace: str = ""):
        super().__init__(message)
        self.kind, self.message, self.file, self.line, self.trace = kind, message, file, line, trace

    def fields(self) -> dict:
        return {
            "failure": self.kind,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "trace": self.trace,
        }


def from_exception(error: BaseException, doing: str, is_user) -> Failure:
    """The user's exception as a failure. `doing` completes "... while": "calling `build`"."""
    frames = [f for f in _frames(error.__traceback__) if not _is_ours(f[0])]
    place = next(((file, line) for file, line in reversed(frames) if is_user(file)), (None, None))
    if isinstance(error, SyntaxError) and error.filename:
        place = (error.filename, error.lineno)
    message = f"{where(place)}{in_one_line(error)} (while {doing}){_next_step(error)}"
    return Failure("entry", message, *place, _user_trace(error))


def from_stack(frame: FrameType | None, reason: str, doing: str, is_user, next_step: str = "") -> Failure:
    """A crash that the code at `frame` causes. `reason` is a sentence; `next_step` goes on after its semicolon."""
    place = user_place(frame, is_user)
    stack = traceback.StackSummary.extract(traceback.walk_stack(frame))
    stack.reverse()
    trace = "".join(traceback.StackSummary.from_list([f for f in stack if not _is_ours(f.filename)]).format())
    message = f"{where(place)}{reason} (while {doing}){next_step}"
    return Failure("crashed", message, *place, f"Stack (most recent call last):\n{trace}")


def user_place(frame: FrameType | None, is_user) -> tuple[str | None, int | None]:
    """File and line of the innermost frame in the user's code, from `frame` outwards."""
    while frame is not None:
        if is_user(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, None


def where(place: tuple[str | None, int | None]) -> str:
    return f"{os.path.basename(place[0])}:{place[1]}: " if place[0] else ""


def in_one_line(error: BaseException) -> str:
    """`ValueError: shapes do not fit`, without what further lines say and the place in torch's C++ code."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    text = _CPP_PLACE.sub("", text)
    if type(error).__name__ == "OutOfMemoryError":
        # What was asked for and what the device has; the paragraph after it is in the traceback.
        text = ". ".join(text.split(". ")[:3])
    return f"{type(error).__name__}: {text}".splitlines()[0] if text else type(error).__name__


def _next_step(error: BaseException) -> str:
    """What helps where the exception does not tell: against the limits and the empty input of a run."""
    if type(error).__name__ == "OutOfMemoryError":
        return "; make the inputs smaller, or end what else uses the device"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in str(error):
        return "; make the inputs smaller, or raise the memory limit"
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return "; a run has no input, so give the program what it reads in another way"
    if isinstance(error, SystemExit):
        return NO_EXIT
    return ""


def _frames(tb: TracebackType | None) -> Iterator[tuple[str, int]]:
    while tb is not None:
        yield tb.tb_frame.f_code.co_filename, tb.tb_lineno
        tb = tb.tb_next


def _is_ours(filename: str) -> bool:
    return filename.startswith((OURS, *_MACHINERY))


def _user_trace(error: BaseException) -> str:
    """The traceback as the user would have seen it had they run the code themselves."""
    summary = traceback.TracebackException.from_exception(error)
    pending = [summary]
    while pending:
        part = pending.pop()
        part.stack = traceback.StackSummary.from_list([f for f in part.stack if not _is_ours(f.filename)])
        pending += [p for p in (part.__cause__, part.__context__) if p is not None]
    return "".join(summary.format())
