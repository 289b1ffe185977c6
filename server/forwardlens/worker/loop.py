# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Measuring forwards in the program that makes them, one pass over each, where none can be replayed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

from .case import Case
from .failures import Failure
from .measure import Passes, ProgramEnded
from .targets import Target
from .watch import SeenEnough


class Loop:
    """Hands the program's calls of one callee to `passes` while it runs inside `with`, and ends it when they are done.

    The callee is that of `case`, found again by the order in which the program first calls its callees: the module
    itself belongs to an earlier run of the program.
    """

    def __init__(self, case: Case, target: Target, passes: Passes) -> None:
        self._target, self._order, self._passes = target.anew(), case.original.order, passes
        self._callees: dict[torch.nn.Module, int] = {}
        self._inside = threading.local()
        self._watches = False
        self._result: dict | None = None
        self.is_done = False
        self.stop: Callable[[], BaseException] = SeenEnough
        next(passes)

    def __enter__(self) -> Loop:
        self._watches = True
        self._original = torch.nn.Module.__call__
        self._patch = self._measuring(self._original)
        torch.nn.Module.__call__ = self._patch
        return self

    def __exit__(self, kind, error, trace) -> bool:
        self._watches = False
        torch.nn.Module.__call__ = self._original
        return kind is not None and self.is_done and isinstance(error, SeenEnough)

    def result(self) -> dict:
        """The recording; in part if the program ended first. Raises `Failure` if it made too few calls."""
        if not self.is_done:
            self._advance(lambda: self._passes.throw(ProgramEnded()))
        if self._result is None:
            raise Failure("entry", "its forward raised while it was measured")
        return self._result

    def _measuring(self, original):
        def call(module, *args, **kwargs):
            # What the program compiled meanwhile keeps this as its module's `__call__` for ever.
            if not self._watches or getattr(self._inside, "call", False):
                return original(module, *args, **kwargs)
            if not self._is_wanted(module, sys._getframe(1)):
                return original(module, *args, **kwargs)
            outputs: list[Any] = []

            def forward():
                outputs.append(original(module, *args, **kwargs))
                return outputs[-1]

            if not self.is_done:
                self._pass(forward)
            if not outputs and not self.is_done:
                self.result()  # the pass cut the forward off, so the program cannot go on either
            if self.is_done:
                raise self.stop()
            return outputs[0]

        return call

    def _is_wanted(self, module: torch.nn.Module, caller) -> bool:
        if not self._target.wants_call(module, caller):
            return False
        return self._callees.setdefault(module, len(self._callees)) == self._order

    def _pass(self, forward: Callable[[], Any]) -> None:
        self._inside.call = True
        torch.nn.Module.__call__ = self._original
        try:
            self._advance(lambda: self._passes.send(forward))
        finally:
            self._inside.call = False
            torch.nn.Module.__call__ = self._patch

    def _advance(self, step: Callable[[], None]) -> None:
        try:
            step()
        except StopIteration as end:
            self._result, self.is_done = end.value, True
