# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Turning what went wrong into one sentence, the user's place and the user's own traceback."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Iterator
from types import TracebackType

_OURS = os.path.dirname(os.path.abspath(__file__))
_MACHINERY = ("<frozen importlib", "<frozen runpy", os.path.dirname(os.path.abspath(importlib.__file__)))


class Failure(Exception):
    """`kind` is one of usage, entry, environment (exit codes 2, 3 and 4 of the command line)."""

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
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    where = f"{os.path.basename(place[0])}:{place[1]}: " if place[0] else ""
    return Failure("entry", f"{where}{what.splitlines()[0]} (while {doing})", place[0], place[1], _user_trace(error))


def _frames(tb: TracebackType | None) -> Iterator[tuple[str, int]]:
    while tb is not None:
        yield tb.tb_frame.f_code.co_filename, tb.tb_lineno
        tb = tb.tb_next


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OURS, *_MACHINERY))


def _user_trace(error: BaseException) -> str:
    """The traceback as the user would have seen it had they run the code themselves."""
    summary = traceback.TracebackException.from_exception(error)
    pending = [summary]
    while pending:
        part = pending.pop()
        part.stack = traceback.StackSummary.from_list([f for f in part.stack if not _is_ours(f.filename)])
        pending += [p for p in (part.__cause__, part.__context__) if p is not None]
    return "".join(summary.format())
