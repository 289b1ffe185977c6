# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`-m package.module`: run it as `python -m` does and take the forward it calls."""

from __future__ import annotations

import importlib.util
import sys

from ..failures import Failure
from ..modules import search
from ..overlay import Overlay
from ..program import run_as_main

PREFIX = "-m "


def accepts(entry: str) -> bool:
    return entry.startswith(PREFIX)


def run(entry: str, request: dict, overlay: Overlay, watch) -> str:
    name, workspace = entry.removeprefix(PREFIX).strip(), request["workspace"]
    search(workspace, workspace=workspace)
    spec = _find(name, workspace)
    if spec.submodule_search_locations is not None:
        spec = _find(f"{name}.__main__", workspace)
    code = spec.loader.get_code(spec.name)
    if code is None or spec.origin is None:
        raise Failure("usage", f"{name} is no Python source, so it cannot be run with -m")
    sys.argv[0] = spec.origin
    names = {"__file__": spec.origin, "__spec__": spec, "__package__": spec.parent, "__loader__": spec.loader}
    return run_as_main(code, names, watch, workspace)


def _find(name: str, workspace: str):
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not error.name or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is not None and spec.loader is not None:
        return spec
    if name.endswith(".__main__"):
        package = name.removesuffix(".__main__")
        raise Failure("usage", f"{package} is a package without __main__.py; name one of its modules after -m")
    raise Failure("usage", f"there is no module {name} to run from {workspace}")
