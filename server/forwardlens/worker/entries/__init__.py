# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Kinds of entry points, one module each.

A kind has `accepts(entry) -> bool` and `run(entry, request, overlay, watch) -> str`: run the program with its calls
seen by `watch`, and say how it ended, to complete "it ... without calling a module". A kind whose entries give the
forward themselves also has `load(entry, request, overlay) -> Case`. Adding one touches one file.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from ..case import Case
from ..failures import Failure
from ..overlay import Overlay
from ..targets import Target, parse
from ..watch import Watch, select_target


def load(entry: str, request: dict, overlay: Overlay) -> Case:
    kind = _kind_of(entry)
    target = parse(request.get("target"), request["workspace"], overlay)
    if hasattr(kind, "load"):
        return select_target(kind.load(entry, request, overlay), target, request.get("time_limit"))
    return _from_program(kind, entry, request, overlay, target)


def run(entry: str, request: dict, overlay: Overlay, watch) -> str:
    """Run the entry's program once more, with its calls seen by `watch`."""
    return _kind_of(entry).run(entry, request, overlay, watch)


def _kind_of(entry: str) -> ModuleType:
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        kind = importlib.import_module(f"{__name__}.{info.name}")
        if kind.accepts(entry):
            return kind
    raise Failure(
        "usage",
        f"`{entry}` is no entry; write path/to/file.py:name, package.module:name, path/to/script.py, "
        "-m package.module or tests/test_x.py::test_y",
    )


def _from_program(kind: ModuleType, entry: str, request: dict, overlay: Overlay, target: Target) -> Case:
    watch = Watch(target, request.get("time_limit"))
    ended = kind.run(entry, request, overlay, watch)
    case = watch.costliest(entry)
    if case is None:
        raise Failure(
            "entry",
            f"{entry} {ended} without calling a torch.nn.Module; name the function to profile by the line of its def, "
            "--target file.py:line, or give as ENTRY file.py:function, a function that returns what to run",
        )
    return case
