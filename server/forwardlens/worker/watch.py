# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Seeing which modules a program calls, with what, until enough calls were seen."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .case import Case, copy_tensors

# Enough to see which module calls are the outermost and how long a steady one takes.
ENOUGH_CALLS = 4


class SeenEnough(BaseException):
    """Ends the program from inside a forward; not an Exception, so that the user's handlers let it pass."""


@dataclass
class _Call:
    module: torch.nn.Module
    args: tuple
    kwargs: dict
    grad: bool
    inference: bool
    calls: int = 0
    total_ns: int = 0


class Watch:
    """Sees the outermost module calls of a program, or those of one class, while it runs inside `with`."""

    def __init__(self, request: dict) -> None:
        self._wanted = (request.get("target") or "").partition(".")[0]
        self._calls: dict[int, _Call] = {}
        self._inside = False

    def __enter__(self) -> Watch:
        self._original = torch.nn.Module.__call__
        torch.nn.Module.__call__ = self._watching(self._original)
        return self

    def __exit__(self, kind, error, trace) -> bool:
        torch.nn.Module.__call__ = self._original
        return kind is SeenEnough

    def costliest(self, program: str) -> Case | None:
        """The module that took most time as a case, on the inputs and under the grad mode of its first call."""
        call = max(self._calls.values(), key=lambda call: call.total_ns, default=None)
        if call is None:
            return None
        described = f"`{type(call.module).__name__}` as {program} calls it"
        return Case(_under_its_mode(call), call.args, call.kwargs, call.module, described)

    def _watching(self, original):
        """A `Module.__call__` that times the outermost wanted calls. Hooks would not see keyword arguments."""

        def call(module, *args, **kwargs):
            if self._inside or (self._wanted and type(module).__name__ != self._wanted):
                return original(module, *args, **kwargs)
            seen = self._calls.get(id(module)) or self._first(module, args, kwargs)
            self._inside, start = True, time.perf_counter_ns()
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._inside = False
            seen.calls += 1
            seen.total_ns += time.perf_counter_ns() - start
            if seen.calls >= ENOUGH_CALLS:
                raise SeenEnough
            return output

        return call

    def _first(self, module, args, kwargs) -> _Call:
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        call = self._calls[id(module)] = _Call(module, copy_tensors(args), copy_tensors(kwargs), *modes)
        return call


def _under_its_mode(call: _Call) -> Callable[..., Any]:
    if call.grad and not call.inference:
        return call.module

    def run(*args, **kwargs):
        with torch.inference_mode() if call.inference else contextlib.nullcontext(), torch.set_grad_enabled(call.grad):
            return call.module(*args, **kwargs)

    return run
