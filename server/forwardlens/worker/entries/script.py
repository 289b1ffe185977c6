# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`path/to/script.py`: run it as `__main__` and take the forward it calls."""

from __future__ import annotations

import os
import sys

from ..failures import Failure
from ..modules import imports, module_name, search
from ..overlay import Overlay
from ..program import run_as_main
from . import module


def accepts(entry: str) -> bool:
    return entry.endswith(".py") and not module.accepts(entry)


def run(entry: str, request: dict, overlay: Overlay, watch) -> str:
    path = os.path.abspath(os.path.join(request["workspace"], entry))
    if not overlay.has(path):
        raise Failure("usage", f"there is no file {entry} in {request['workspace']}")
    text = overlay.text(path)
    if any(dots for dots, _ in imports(text)):
        # Python cannot run such a file by its path, only as a module of its package.
        root, name = module_name(path, request["workspace"], overlay)
        search(root, workspace=request["workspace"])
        return module.run(f"{module.PREFIX}{name}", request, overlay, watch)
    search(os.path.dirname(path), workspace=request["workspace"])
    sys.argv[0] = path
    try:
        return run_as_main(overlay.compile(path), {"__file__": path}, watch, request["workspace"])
    except NameError as error:
        if "get_ipython" in str(error):
            raise Failure(
                "entry",
                f"{entry} was exported from a notebook and calls get_ipython(), which only IPython has; "
                f"delete its magic commands, or give a function of it as {entry}:function",
                path,
            ) from None
        raise
