# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Seeing which forwards a program calls, with what, until enough calls were seen."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from . import ambient
from .case import Case
from .limits import DEFAULT_S, Limit
from .observers import gettrace, settrace
from .replay import Original, RandomState, state_of, summary
from .targets import Target, function_of, unseen
from .values import Uncopyable, copy_tensors

# Enough calls of one module to see how long a steady one takes; enough calls and seconds altogether for programs that
# make a new module for each call, and for those whose calls are long.
ENOUGH_CALLS, MOST_CALLS, ENOUGH_S = 4, 40, 10.0


class SeenEnough(SystemExit):
    """Ends the program from inside a forward, the way programs end themselves: what cleans up does, what handles
    errors lets it pass, and no traceback is printed.
    """


@dataclass
class _Seen:
    """The first call of one callee, and how often and how long it ran."""

    case: Case
    calls: int = 0
    total_ns: int = 0


class Watch:
    """Sees the wanted calls of a program while it runs inside `with`, and ends it when it has seen enough.

    `stop` makes the exception that ends the program.
    """

    def __init__(
        self,
        target: Target,
        time_limit: float | None = None,
        enough: int = ENOUGH_CALLS,
    ) -> None:
        self._target, self._time_limit, self._enough = target.anew(), time_limit or DEFAULT_S, enough
        self.stop: Callable[[], BaseException] = SeenEnough
        self._seen: dict[object, _Seen] = {}
        self._names: set[str] = set()
        self._inside = threading.local()
        self._watches = False
        self.is_done = False

    def __enter__(self) -> Watch:
        self._watches = True
        self._original = torch.nn.Module.__call__
        self._patch = self._watching(self._original)
        self._tracer = gettrace()
        torch.nn.Module.__call__ = self._patch
        if self._target.is_traced:
            settrace(self._on_call)
        return self

    def __exit__(self, kind, error, trace) -> bool:
        self._watches = False
        torch.nn.Module.__call__ = self._original
        if self._target.is_traced:
            settrace(self._tracer)
        return kind is not None and self.is_done and isinstance(error, SeenEnough)

    def costliest(self, program: str) -> Case | None:
        """The callee that took most time as a case, on the inputs and in the surroundings of its first call.

        Raises `Failure` where a target was named and never called.
        """
        seen = max(self._seen.values(), key=lambda seen: seen.total_ns, default=None)
        if seen is None and self._target.text is not None and self._names:
            raise unseen(self._target, program, self._names)
        return None if seen is None else seen.case

    def _watching(self, original):
        """A `Module.__call__` that sees the wanted calls. Hooks would not see keyword arguments.

        Inside a call that is seen nothing is patched, so that `torch.compile` compiles what it would compile.
        """

        def call(module, *args, **kwargs):
            # What the program compiled meanwhile keeps this as its module's `__call__` for ever.
            if not self._watches or getattr(self._inside, "call", False):
                return original(module, *args, **kwargs)
            if not self._target.wants_call(module, sys._getframe(1)):
                self._names.add(type(module).__name__)
                return original(module, *args, **kwargs)
            self._end_if_done()
            seen = self._see(module, f"`{type(module).__name__}`", module, module, args, kwargs)
            start = self._enter()
            try:
                with Limit(self._time_limit) as limit:
                    output = original(module, *args, **kwargs)
            finally:
                self._leave(seen, start)
            if limit.reached:
                self._end()
            self._returned(seen, output)
            return output

        return call

    def _enter(self) -> int:
        self._inside.call = True
        torch.nn.Module.__call__ = self._original
        return time.perf_counter_ns()

    def _leave(self, seen: _Seen, start: int) -> None:
        seen.total_ns += time.perf_counter_ns() - start
        self._inside.call = False
        torch.nn.Module.__call__ = self._patch

    def _on_call(self, frame: FrameType, event: str, arg: object):
        """The tracer for functions and methods that no module call reaches."""
        if getattr(self._inside, "call", False) or not self._target.wants_frame(frame):
            return None
        function = function_of(frame)
        if function is None:
            return None
        self._end_if_done()
        owner = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
        module = owner if isinstance(owner, torch.nn.Module) else None
        args, kwargs = _arguments_of(frame)
        described = f"`{self._target.text}`"
        if owner is not None and self._target.class_name is not None:
            function, args = function.__get__(owner), args[1:]
        seen = self._see(frame.f_code, described, function, module, args, kwargs)
        start = self._enter()

        def on_event(frame: FrameType, event: str, arg: object):
            if event == "return":
                self._leave(seen, start)
                self._returned(seen, arg)
            return on_event

        frame.f_trace_lines = False
        return on_event

    def _see(self, key: object, described: str, call, module, args: tuple, kwargs: dict) -> _Seen:
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = _Seen(self._first(described, call, module, args, kwargs))
        return seen

    def _first(self, described: str, call, module, args: tuple, kwargs: dict) -> Case:
        cannot = None
        try:
            args, kwargs = copy_tensors((args, kwargs))
        except Uncopyable as error:
            cannot, args, kwargs = f"its inputs hold {error}", (), {}
        original = Original(RandomState.now(), state_of(module), None, len(self._seen), cannot)
        return Case(call, args, kwargs, module, described, self._target.text, self._target, ambient.now(), original)

    def _returned(self, seen: _Seen, output: Any) -> None:
        seen.calls += 1
        if seen.calls == 1 and seen.case.original is not None:
            seen.case = replace(seen.case, original=replace(seen.case.original, output=summary(output)))
        every = list(self._seen.values())
        calls, seconds = sum(one.calls for one in every), sum(one.total_ns for one in every) / 1e9
        if seen.calls >= self._enough or calls >= MOST_CALLS or seconds > ENOUGH_S:
            self._end()

    def _end_if_done(self) -> None:
        """A program that went on after it was asked to end is asked again."""
        if self.is_done:
            raise self.stop()

    def _end(self) -> None:
        self.is_done = True
        raise self.stop()


def _arguments_of(frame: FrameType) -> tuple[tuple, dict]:
    """What a function that is about to run was called with."""
    code, scope = frame.f_code, frame.f_locals
    count = code.co_argcount
    named = code.co_varnames[count : count + code.co_kwonlyargcount]
    rest = list(code.co_varnames[count + code.co_kwonlyargcount :])
    args = tuple(scope[name] for name in code.co_varnames[:count])
    if code.co_flags & inspect.CO_VARARGS:
        args += tuple(scope[rest.pop(0)])
    kwargs = {name: scope[name] for name in named}
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(scope[rest.pop(0)])
    return args, kwargs


def select_target(case: Case, target: Target | None, time_limit: float | None = None) -> Case:
    """The case narrowed to the first wanted call inside it, on the inputs that call gets."""
    if target is None or target.text is None:
        return case
    if case.module is not None and target.wants_module(case.module):
        return replace(case, target=target.text, wanted=target)
    watch = Watch(target, time_limit, enough=1)
    with case.ambient.entered(), _uncompiled(), watch:
        case.with_fresh_inputs().run()
    inner = watch.costliest(case.described)
    if inner is None:
        raise unseen(target, case.described, set())
    return replace(inner, described=case.described, factory=case.factory)


def _uncompiled():
    """Compiled code calls no modules; eager code calls those that were compiled."""
    compiler = sys.modules.get("torch._dynamo") and getattr(torch.compiler, "set_stance", None)
    return compiler("force_eager") if compiler else contextlib.nullcontext()
