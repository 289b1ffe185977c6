# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What Dynamo made of the forward: how many graphs, and where and why it ended one.

Dynamo keeps its own account of every frame it compiles, which is read afterwards: that costs nothing, changes nothing,
and is structured, where `torch._dynamo.explain` misses every function that Dynamo gave up and the log has to be parsed.
Nothing here imports Dynamo, which takes a second, unless `explain` is called.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .case import Case
from .failures import in_one_line
from .limits import Limit

# Tracing takes seconds for most models, and minutes for few.
EXPLAIN_LIMIT_S = 120.0
# Dynamo forgets all but the last 64 frames by default.
_MOST_FRAMES = 4096
# A reason with its hints; the rest of one is Dynamo's own state.
_MOST_REASON = 1500
_GIVEN_UP = ("Unsupported", "UserError")
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
_IN_LOOP = "graph break in a for/while loop"
_SUMMARY = re.compile(r"<FrameSummary file (.+), line (\d+) in (.+)>")


class Graphs:
    """Dynamo's account of one request, from when this is made."""

    def __init__(self, is_user: Callable[[str], bool]) -> None:
        self._is_user = is_user
        self._given_up: list[tuple[str, list[Any]]] = []
        if "torch._dynamo" in sys.modules:
            self._forget()

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Also note the functions that Dynamo gives up for a break in a loop.

        Older versions keep no reason for them in their account; only the exception has it, while it is being made.
        """
        dynamo = sys.modules.get("torch._dynamo")
        if dynamo is None:
            yield
            return
        dynamo.utils.set_compilation_metrics_limit(_MOST_FRAMES)
        skip_frame, given_up = dynamo.exc.SkipFrame, self._given_up

        def noting(self, *args, **kwargs) -> None:
            super(skip_frame, self).__init__(*args, **kwargs)
            if args and _IN_LOOP in str(args[0]):
                given_up.append(_of_skipped(str(args[0])))

        if "__init__" in vars(skip_frame):  # no version so far: it would be one whose account is whole
            yield
            return
        skip_frame.__init__ = noting
        try:
            yield
        finally:
            del skip_frame.__init__

    def explain(self, case: Case) -> str | None:
        """Trace the whole forward once, compiling nothing; the error in one sentence where Dynamo fails.

        `eager` runs the graphs as they were recorded, so that no C++ or GPU compiler is needed.
        """
        import torch._dynamo

        self._forget()
        try:
            fresh = case.with_fresh_inputs()
            with self.watch(), Limit(EXPLAIN_LIMIT_S) as limit:
                torch.compile(_uncompiled(case.call), backend="eager")(*fresh.args, **fresh.kwargs)
        except Exception as error:
            return in_one_line(error)
        return f"it was not done after {EXPLAIN_LIMIT_S:.0f} s" if limit.reached else None

    def account(self) -> dict | None:
        """Graphs and breaks, or None where Dynamo met no frame; the server's `recording.py` says what is in it."""
        dynamo = sys.modules.get("torch._dynamo")
        frames = [] if dynamo is None else list(dynamo.utils.get_compilation_metrics())
        if not frames:
            return None
        utils = dynamo.utils
        breaks = [(reason.reason, list(reason.user_stack), False) for reason in utils.graph_break_reasons]
        breaks += [(reason, stack, True) for reason, stack in self._given_up]
        breaks += [(frame.fail_reason, _failed_at(frame), True) for frame in frames if _is_given_up(frame)]
        return {
            "asked": False,
            "failed": None,
            "graphs": int(utils.counters["stats"]["unique_graphs"]),
            "breaks": list(self._distinct(row for row in breaks if row[1])),
        }

    def _distinct(self, breaks) -> Iterator[list]:
        """One row for each place: a break in a function is met again in those that call it."""
        rows: dict[tuple[str, int], list] = {}
        for reason, stack, skipped in breaks:
            users = [frame for frame in stack if self._is_user(frame.filename)]
            frame = (users or stack)[-1]
            key = (os.path.abspath(frame.filename), frame.lineno)
            row = rows.setdefault(key, [*key, None, None, _name(frame), str(reason)[:_MOST_REASON], False])
            if getattr(frame, "colno", None) is not None:
                row[2:4] = [frame.colno, frame.end_colno]
            row[6] = row[6] or skipped
        yield from rows.values()

    def _forget(self) -> None:
        dynamo = sys.modules["torch._dynamo"]
        dynamo.reset()
        dynamo.utils.counters.clear()
        dynamo.utils.clear_compilation_metrics()
        self._given_up.clear()


def _uncompiled(call: Callable) -> Callable:
    """What Dynamo takes: a function or a module that the user has not compiled with a backend of theirs."""
    call = getattr(call, "_orig_mod", call)
    if isinstance(call, torch.nn.Module) or inspect.isroutine(call):
        return call
    return lambda *args, **kwargs: call(*args, **kwargs)


def _of_skipped(message: str) -> tuple[str, list[traceback.FrameSummary]]:
    """Reason and frames of a function given up for a break in a loop, from the exception that is just being made."""
    cause = sys.exc_info()[1]
    if hasattr(cause, "real_stack") and cause.real_stack:
        return str(cause), list(cause.real_stack)
    found = _SUMMARY.search(message)
    frames = [_frame(found[1], int(found[2]), found[3])] if found else []
    return "Data-dependent branching", frames  # the only one that is raised without a cause


def _is_given_up(metrics) -> bool:
    return getattr(metrics, "fail_type", None) in _GIVEN_UP


def _failed_at(metrics) -> list[traceback.FrameSummary]:
    """The function that was given up, and the innermost line that was being traced, if it is known."""
    frames = [_frame(metrics.co_filename, metrics.co_firstlineno, metrics.co_name)]
    if metrics.fail_user_frame_filename and metrics.fail_user_frame_lineno:
        frames.append(_frame(metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno, metrics.co_name))
    return frames


def _frame(file: str, line: int, name: str) -> traceback.FrameSummary:
    return traceback.FrameSummary(file, line, name, lookup_line=False)


def _name(frame: traceback.FrameSummary) -> str:
    resumed = _RESUMED.match(frame.name)
    return resumed[1] if resumed else frame.name
