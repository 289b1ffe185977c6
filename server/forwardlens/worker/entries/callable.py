# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`path/to/file.py:name` and `package.module:name`: a callable that returns the forward to run."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
from dataclasses import replace
from types import ModuleType

from ..case import Case, from_result
from ..failures import Failure
from ..modules import import_file, search
from ..overlay import Overlay


def accepts(entry: str) -> bool:
    place, colon, name = entry.rpartition(":")
    return bool(colon and place) and "::" not in entry and not entry.startswith("-m ") and name.isidentifier()


def load(entry: str, request: dict, overlay: Overlay) -> Case:
    place, _, name = entry.rpartition(":")
    module = _import(place, request["workspace"], overlay)
    factory = getattr(module, name, None)
    described = f"`{name}` of {os.path.basename(module.__file__ or place)}"
    if factory is None:
        raise Failure("usage", f"{place} has no `{name}`{_nearest(name, module)}", module.__file__)
    if not callable(factory):
        raise Failure("usage", f"{described} is not callable; name a function that returns (model, args)")
    _check_arguments(factory, described)
    case = from_result(factory(), f"`{name}()` of {os.path.basename(module.__file__ or place)}")
    return replace(case, factory=factory)


def run(entry: str, request: dict, overlay: Overlay, watch) -> str:
    """The forward again and again, for targets inside it that cannot be run by themselves."""
    case = load(entry, request, overlay)
    with case.ambient.entered(), watch:
        while not watch.is_done:
            case.with_fresh_inputs().run()
    return "was run"


def _import(place: str, workspace: str, overlay: Overlay) -> ModuleType:
    if place.endswith(".py") or os.sep in place or "/" in place:
        path = os.path.abspath(os.path.join(workspace, place))
        if not overlay.has(path):
            raise Failure("usage", f"there is no file {place} in {workspace}")
        return import_file(path, workspace, overlay)
    search(workspace, workspace=workspace)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise Failure("usage", f"there is no module {place} to import from {workspace}") from None
        raise


def _check_arguments(factory, described: str) -> None:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if needed:
        raise Failure("usage", f"{described} needs {', '.join(needed)}; an entry is called without arguments")


def _nearest(name: str, module: ModuleType) -> str:
    close = difflib.get_close_matches(name, [n for n in vars(module) if not n.startswith("_")], n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
