# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`path/to/script.py`: run it as `__main__` and take the forward it calls."""

from __future__ import annotations

import os
import sys
import time
import types
from dataclasses import dataclass

import torch

from ..case import Case, copy_tensors
from ..failures import Failure
from ..overlay import Overlay

# Enough to see which module calls are the outermost and how long a steady one takes.
ENOUGH_CALLS = 4


class _SeenEnough(BaseException):
    """Ends the script from inside a forward; not an Exception, so that the user's handlers let it pass."""


@dataclass
class _Call:
    module: torch.nn.Module
    args: tuple
    kwargs: dict
    calls: int = 0
    total_ns: int = 0


def accepts(entry: str) -> bool:
    return entry.endswith(".py")


def load(entry: str, request: dict, overlay: Overlay) -> Case:
    path = os.path.abspath(os.path.join(request["workspace"], entry))
    if not os.path.isfile(path):
        raise Failure("usage", f"there is no file {entry} in {request['workspace']}")
    name = os.path.basename(path)
    watch = _Watch((request.get("target") or "").partition(".")[0])
    watch.run(path, overlay)
    call = watch.costliest()
    if call is None:
        raise Failure("entry", f"{name} ran to its end without calling a module; give an entry as {entry}:function")
    return Case(call.module, call.args, call.kwargs, call.module, f"`{type(call.module).__name__}` as {name} calls it")


class _Watch:
    """Sees the outermost module calls of a script, or those of one class."""

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted
        self._calls: dict[int, _Call] = {}
        self._inside = False

    def run(self, path: str, overlay: Overlay) -> None:
        main = types.ModuleType("__main__")
        main.__file__ = path
        saved_main, saved_argv = sys.modules["__main__"], sys.argv
        sys.modules["__main__"], sys.argv = main, [path, *sys.argv[1:]]
        sys.path.insert(0, os.path.dirname(path))
        original = torch.nn.Module.__call__
        torch.nn.Module.__call__ = self._watching(original)
        try:
            exec(overlay.compile(path), main.__dict__)
        except _SeenEnough:
            pass
        except SystemExit as ended:
            if ended.code not in (None, 0) and not self._calls:
                raise
        finally:
            torch.nn.Module.__call__ = original
            sys.modules["__main__"], sys.argv = saved_main, saved_argv

    def costliest(self) -> _Call | None:
        return max(self._calls.values(), key=lambda call: call.total_ns, default=None)

    def _watching(self, original):
        """A `Module.__call__` that times the outermost wanted calls. Hooks would not see keyword arguments."""

        def call(module, *args, **kwargs):
            if self._inside or (self._wanted and type(module).__name__ != self._wanted):
                return original(module, *args, **kwargs)
            seen = self._calls.get(id(module))
            if seen is None:
                seen = self._calls[id(module)] = _Call(module, copy_tensors(args), copy_tensors(kwargs))
            self._inside, start = True, time.perf_counter_ns()
            try:
                output = original(module, *args, **kwargs)
            finally:
                self._inside = False
            seen.calls += 1
            seen.total_ns += time.perf_counter_ns() - start
            if seen.calls >= ENOUGH_CALLS:
                raise _SeenEnough
            return output

        return call
